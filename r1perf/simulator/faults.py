"""Name what can go wrong on purpose, read it from a header or a rate, and draw it.

A fault is written NAME, NAME:ARGUMENT, NAME@TOKEN or NAME:ARGUMENT@TOKEN. The argument is seconds (`stall`, `slow_head`,
`keep_alive`, `rate_limit`), a count (`multi_token`), a name (`rerouted`) or a way (`cut`); the token is where a fault in the
middle of a stream strikes, half of the answer by default.
"""

from random import Random
from typing import Literal

import msgspec

from r1perf.errors import UsageError

Argument = Literal["none", "seconds", "seconds_or_forever", "count", "name", "way"]


class Kind(msgspec.Struct, frozen=True):
    """Describe one fault: which argument it takes, whether it strikes in the middle, the HTTP status of a refusal."""

    argument: Argument = "none"
    default: str = ""
    mid_stream: bool = False
    status: int | None = None
    doc: str = ""


WAYS = ("reset", "eof", "end")

KINDS: dict[str, Kind] = {
    "rate_limit": Kind("seconds", "1", status=429, doc="429 with `Retry-After` (the argument, in seconds)"),
    "unavailable": Kind("seconds", "1", status=503, doc="503 with `Retry-After`"),
    "overloaded": Kind(status=529, doc="529"),
    "server_error": Kind(status=500, doc="500"),
    "unauthorized": Kind(status=401, doc="401"),
    "forbidden": Kind(status=403, doc="403"),
    "model_not_found": Kind(status=404, doc="404 as for an unknown model"),
    "bad_request": Kind(status=400, doc="400"),
    "close": Kind(doc="the connection is closed before the head"),
    "slow_head": Kind("seconds", "1", doc="the head comes so late; what was due before then comes with it"),
    "keep_alive": Kind("seconds", "0.1", doc="SSE comments from the head to the first token, one at once and one in so many seconds"),
    "stall": Kind("seconds_or_forever", "1", mid_stream=True, doc="nothing for so long; then all that was held comes at once"),
    "cut": Kind("way", "reset", mid_stream=True, doc="the stream breaks: `reset` (RST), `eof` (FIN inside the body), `end`"
                " (a proper end of the body without finish)"),
    "error_object": Kind(mid_stream=True, doc="an error as the dialect writes it inside a stream"),
    "error_event": Kind(mid_stream=True, doc="`event: error` and a comment, nothing else, as Dynamo does"),
    "bad_json": Kind(mid_stream=True, doc="one event that is not JSON; the stream goes on"),
    "no_usage": Kind(doc="usage never comes"),
    "no_finish": Kind(doc="no finish_reason, but [DONE]"),
    "content_filter": Kind(mid_stream=True, doc='the answer ends there with finish_reason "content_filter"'),
    "multi_token": Kind("count", "4", doc="that many tokens in each chunk"),
    "burst": Kind(doc="all chunks in one burst at the end, as from a proxy that buffers"),
    "rerouted": Kind("name", "deepseek-r1-distill-llama-8b", doc="another model (and upstream) than the one asked for answers"),
}  # fmt: skip


class Fault(msgspec.Struct, frozen=True):
    """One fault to happen to one request."""

    name: str
    argument: str
    at: int | None = None  # the token after which it strikes

    @property
    def kind(self) -> Kind:
        """Return the description."""
        return KINDS[self.name]

    @property
    def seconds(self) -> float:
        """Return the argument as seconds; infinity for "forever"."""
        return float("inf") if self.argument == "forever" else float(self.argument)

    def strikes_at(self, total: int) -> int:
        """Say after how many of `total` tokens a fault in the middle strikes: at least one, at most all."""
        return min(total, max(1, self.at if self.at is not None else total // 2))


def parse_fault(text: str) -> Fault:
    """Read NAME[:ARGUMENT][@TOKEN]; raises UsageError with a sentence that says what is allowed."""
    rest, _, at = text.strip().partition("@")
    name, colon, argument = rest.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        raise UsageError(f'"{name}" is not a fault; allowed are {", ".join(KINDS)}')
    if colon and kind.argument == "none":
        raise UsageError(f'fault {name} takes no argument, so "{text}" is not allowed')
    if at and not (at.isdecimal() and int(at) > 0 and kind.mid_stream):
        raise UsageError(f'"{text}": @TOKEN is a whole number above 0, for a fault in the middle of a stream')
    argument = argument if colon else kind.default
    _check(name, kind, argument)
    return Fault(name, argument, int(at) if at else None)


def _check(name: str, kind: Kind, argument: str) -> None:
    """Refuse an argument that the fault can't use."""
    if kind.argument in ("seconds", "seconds_or_forever"):
        if kind.argument == "seconds_or_forever" and argument == "forever":
            return
        try:
            if 0 <= float(argument) <= 86_400:
                return
        except ValueError:
            pass
        or_forever = ' or "forever"' if kind.argument == "seconds_or_forever" else ""
        raise UsageError(f'fault {name} takes seconds from 0 to 86400{or_forever}, not "{argument}"')
    if kind.argument == "count" and not (argument.isdecimal() and int(argument) > 0):
        raise UsageError(f'fault {name} takes a whole number above 0, not "{argument}"')
    if kind.argument == "way" and argument not in WAYS:
        raise UsageError(f'fault {name} takes {", ".join(WAYS)}, not "{argument}"')
    if kind.argument == "name" and (not argument.isprintable() or not argument):
        raise UsageError(f'fault {name} takes a name, not "{argument}"')


def parse_rate(text: str) -> tuple[Fault, float]:
    """Read NAME[:ARGUMENT][@TOKEN]=RATE with a rate from 0 to 1; raises UsageError."""
    spec, equals, rate = text.rpartition("=")
    try:
        share = float(rate)
    except ValueError:
        share = -1.0
    if not equals or not 0 <= share <= 1:
        raise UsageError(f'"{text}" is not a fault with its rate, such as rate_limit=0.02 (rates are from 0 to 1)')
    return parse_fault(spec), share


class FaultDraw:
    """Draw at most one fault a request, in order of arrival, from rates that add up to 1 or less."""

    def __init__(self, rates: list[tuple[Fault, float]], seed: int) -> None:
        if sum(rate for _, rate in rates) > 1 + 1e-9:
            raise UsageError("the rates of all faults add up to more than 1")
        self._rates = rates
        self._random = Random(f"{seed}:faults")

    def draw(self) -> Fault | None:
        """Draw for the next request."""
        if not self._rates:
            return None
        left = self._random.random()
        for fault, rate in self._rates:
            if left < rate:
                return fault
            left -= rate
        return None
