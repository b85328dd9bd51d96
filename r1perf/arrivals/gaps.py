"""The random gaps that open-loop arrivals are made of, and the streams that they are drawn from."""

import hashlib
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from r1perf.target import Positive

Seconds = NDArray[np.float64]

_CHUNK = 65536  # gaps drawn at once; the values do not depend on it


class GammaGaps(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Gaps of a gamma renewal process; `gamma` is the shape: 1 is Poisson, below 1 bursty, above 1 regular."""

    gamma: Positive


Gaps = Literal["poisson", "constant"] | GammaGaps


class Stream:
    """One dimension's own stream of randomness: derived from the seed and the names by SHA-256, so no other can shift it."""

    def __init__(self, seed: int, *names: str, plain: bool = False) -> None:
        self._seed, self._names, self._plain = seed, names, plain

    def __truediv__(self, name: str) -> "Stream":
        """Derive a stream of its own below this one."""
        return Stream(self._seed, *self._names, name)

    def entropy(self) -> int:
        """Return the 256 bits that this stream starts from."""
        text = "\x00".join([str(self._seed), *self._names])
        return int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")

    def generator(self) -> np.random.Generator:
        """Open the stream at its start."""
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(self.entropy())))

    def legacy(self) -> np.random.RandomState:
        """Open it as numpy's global generator; a plain stream's is the one that `np.random.seed(seed)` gives."""
        return np.random.RandomState((self._seed if self._plain else self.entropy()) % 2**32)


def unit_times(stream: Stream, gaps: Gaps, until: float, count: int | None) -> Seconds:
    """Draw the event times of a stationary renewal process of rate 1: all below `until`, at most `count`.

    Times do not depend on `until` or `count`: a longer process begins with the shorter one. The first gap of a gamma
    process is drawn from its equilibrium law (a uniform share of a length-biased gap), so that the expected number of
    events in any time t is t from the start, however bursty. Constant gaps begin at 0.
    """
    most = np.inf if count is None else count
    if most == until == np.inf:
        raise ValueError("a process needs an end")
    if gaps == "constant":
        return np.arange(int(min(most, np.ceil(until))), dtype=np.float64)
    shape = gaps.gamma if isinstance(gaps, GammaGaps) else 1.0
    random = stream.generator()
    chunk = int(min(_CHUNK, 64 + 1.1 * min(most, until)))
    parts: list[Seconds] = []
    at, drawn = 0.0, 0
    while at < until and drawn < most:
        if shape == 1.0:
            steps = random.standard_exponential(chunk)
        else:
            first = random.random() * random.standard_gamma(shape + 1) / shape if not parts else None
            steps = random.standard_gamma(shape, chunk) / shape
            if first is not None:
                steps[0] = first
        times = at + np.cumsum(steps)
        at, drawn = float(times[-1]), drawn + chunk
        parts.append(times)
    times = np.concatenate(parts) if parts else np.empty(0)
    return times[times < until][:count]
