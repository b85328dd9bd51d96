"""Numbers that carry their unit in a scenario: "90s", "10/s", "8k"; one parser each, strict, with one-sentence errors.

`Duration` counts nanoseconds, `Rate` events per second, `Tokens` tokens; each is a plain number subclass, so the core
computes with it, and each knows how to write itself back (`str(Duration.parse("90s"))` is "90s").
"""

import re
from typing import Self

MOST_TOKENS = 1 << 24
"""A text of more tokens (16,777,216) is beyond every model's context: a mistake that would fill the memory."""

_DURATION_NS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(s|min|h)")
_RATE_SECONDS = {"s": 1, "min": 60, "h": 3600}
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)\s*(k|M)?")
_TOKEN_FACTOR = {None: 1, "k": 1024, "M": 1024 * 1024}


class Duration(int):
    """A length of time in ns, written "500ms", "90s", "1m30s", "2h"."""

    allowed = 'a duration such as "500ms", "90s", "1m30s" or "2h"'

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a duration; raises ValueError with a sentence that names what is allowed."""
        stripped = text.strip()
        parts = _PART.findall(stripped)
        if not parts or "".join(number + unit for number, unit in parts) != stripped:
            raise ValueError(f'"{text}" is not {cls.allowed}')
        return cls(sum(_exact(number, _DURATION_NS[unit]) for number, unit in parts))

    @classmethod
    def seconds(cls, seconds: float) -> Self:
        """Make a duration from seconds."""
        return cls(round(seconds * 1e9))

    def __str__(self) -> str:
        """Write the duration in the largest units that keep it exact."""
        left, text = int(self), ""
        if left < 10**9:
            for unit in ("ms", "us", "ns"):
                if left and left % _DURATION_NS[unit] == 0:
                    return f"{left // _DURATION_NS[unit]}{unit}"
            return "0s"
        for unit in ("h", "m"):
            count, left = divmod(left, _DURATION_NS[unit])
            text += f"{count}{unit}" if count else ""
        return text + (f"{left / 1e9:.9f}".rstrip("0").rstrip(".") + "s" if left else "")


class Rate(float):
    """Events per second, written "10/s", "120/min" or "30/h"; 0, or from LEAST to MOST.

    Below LEAST the times of a few thousand events do not fit into 64 bits of ns; above MOST gaps are shorter than any loop's turn.
    """

    allowed = 'a rate such as "10/s", "120/min" or "30/h"'
    LEAST, MOST = 1e-6, 1e6

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a rate; raises ValueError with a sentence that names what is allowed."""
        match = _RATE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not {cls.allowed}')
        rate = cls(float(match[1]) / _RATE_SECONDS[match[2]])
        if rate and not rate.runs:
            raise ValueError(f'"{text}" is out of range: a rate is from {cls.LEAST:f}/s to {cls.MOST:,.0f}/s')
        return rate

    @property
    def runs(self) -> bool:
        """Tell whether events can come at this rate."""
        return self.LEAST <= self <= self.MOST

    def __str__(self) -> str:
        """Write the rate per second."""
        return f"{float(self):g}/s"


class Tokens(int):
    """A count of tokens, written 2048, "8k" (8192) or "1M"; k is 1024, as context lengths are named."""

    allowed = 'a count of tokens such as 2048 or "8k" (8192)'

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a token count; raises ValueError with a sentence that names what is allowed."""
        match = _TOKENS.fullmatch(text.strip())
        if match is None:
            raise ValueError(f'"{text}" is not {cls.allowed}')
        return cls(_exact(match[1], _TOKEN_FACTOR[match[2]]))

    def __str__(self) -> str:
        """Write the plain number."""
        return str(int(self))


def _exact(number: str, factor: int) -> int:
    """Multiply a decimal text by an integer without a float's rounding."""
    whole, _, fraction = number.partition(".")
    return int(whole) * factor + (int(fraction) * factor // 10 ** len(fraction) if fraction else 0)
