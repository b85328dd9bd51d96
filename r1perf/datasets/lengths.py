"""Lengths by distribution: token counts and think times, as a scenario writes them.

Every distribution is its quantile function, so one uniform draw gives one value and the mean is a plain sum; bounded ones are the
true truncated distributions (no pile at the bounds). Numbers are tokens; a text carries its unit ("2k" tokens, "5s").
"""

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist
from typing import Annotated, Any

import msgspec

from r1perf.units import Duration, Tokens

Number = Annotated[int, msgspec.Meta(ge=0)] | Annotated[float, msgspec.Meta(ge=0)] | str
Quantile = Callable[[float], float]


class _Dist(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="dist"):
    """Be one distribution."""


class Uniform(_Dist, frozen=True, tag="uniform"):
    """Every whole number from low to high, both included, equally likely."""

    low: Number
    high: Number


class Normal(_Dist, frozen=True, tag="normal"):
    """A normal distribution, truncated to [low, high]."""

    mean: Number
    stdev: Number
    low: Number | None = None
    high: Number | None = None


class Lognormal(_Dist, frozen=True, tag="lognormal"):
    """A lognormal distribution by its median and the sigma of its logarithm, truncated to [low, high]."""

    median: Number
    sigma: Annotated[float, msgspec.Meta(ge=0)]
    low: Number | None = None
    high: Number | None = None


class VllmRange(_Dist, frozen=True, tag="vllm-range"):
    """vLLM's `--random-range-ratio`: uniform over the whole numbers of [floor(L (1 - r)), ceil(L (1 + r))]."""

    length: Number
    ratio: Annotated[float, msgspec.Meta(ge=0, lt=1)]


class SglangRange(_Dist, frozen=True, tag="sglang-range"):
    """SGLang's `--random-range-ratio`: uniform over the whole numbers of [max(1, floor(L r)), L]."""

    length: Number
    ratio: Annotated[float, msgspec.Meta(ge=0, le=1)]


class InferencexRange(_Dist, frozen=True, tag="inferencex-range"):
    """InferenceX's range: uniform over the whole numbers of [floor(0.8 L), L]."""

    length: Number
    ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8


Dist = Uniform | Normal | Lognormal | VllmRange | SglangRange | InferencexRange
Length = Annotated[int, msgspec.Meta(ge=1)] | str | Dist
"""A token count: fixed (512, "2k") or drawn."""
Times = str | Uniform | Normal | Lognormal
"""A length of time: fixed ("2s") or drawn, its bounds with units."""


class Law:
    """A distribution with its numbers read: draws whole numbers at least `least`."""

    def __init__(self, quantile: Quantile, least: int) -> None:
        self._quantile, self._least = quantile, least
        self.mean = self.mean_of(float)

    def mean_of(self, value: Callable[[int], float]) -> float:
        """Return the mean of a function of the length, over 512 quantiles."""
        return sum(value(self.at((k + 0.5) / 512)) for k in range(512)) / 512

    def at(self, u: float) -> int:
        """Return the quantile at u in [0, 1), rounded."""
        return max(self._least, round(self._quantile(u)))

    def draw(self, random: Random) -> int:
        """Draw one value."""
        return self.at(random.random())


def tokens(spec: Length, field: str) -> Law:
    """Read a token length; raises ValueError with a sentence that names the field and what is allowed."""
    return _law(spec, field, Tokens.parse, least=1)


def times(spec: Times, field: str) -> Law:
    """Read a length of time, in ns; raises ValueError with a sentence that names the field and what is allowed."""
    return _law(spec, field, Duration.parse, least=0)


def _law(spec: Any, field: str, parse: Callable[[str], int], least: int) -> Law:
    def read(value: Any, name: str) -> float:
        if isinstance(value, str):
            try:
                return float(parse(value))
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        if parse == Duration.parse and value:
            raise ValueError(f"{name}: {value} is not {Duration.allowed}")
        return float(value)

    if not isinstance(spec, _Dist):
        fixed = read(spec, field)
        if fixed < least:
            raise ValueError(f"{field}: must be at least {least}, not {spec}")
        return Law(lambda u: fixed, least)
    if isinstance(spec, Normal | Lognormal):
        low = float(least) if spec.low is None else read(spec.low, f"{field}.low")
        high = math.inf if spec.high is None else read(spec.high, f"{field}.high")
        _ordered(low, high, field)
        if isinstance(spec, Normal):
            mean, stdev = read(spec.mean, f"{field}.mean"), read(spec.stdev, f"{field}.stdev")
            return Law(_truncated(lambda z: mean + stdev * z, lambda x: (x - mean) / stdev, stdev, low, high, field), least)
        median, sigma = read(spec.median, f"{field}.median"), spec.sigma
        if not median:
            raise ValueError(f"{field}.median: must be above 0")
        return Law(
            _truncated(lambda z: median * math.exp(sigma * z), lambda x: _log(x / median) / sigma, sigma, low, high, field), least
        )
    match spec:
        case Uniform():
            low, high = read(spec.low, f"{field}.low"), read(spec.high, f"{field}.high")
            _ordered(low, high, field)
        case VllmRange():
            length = read(spec.length, f"{field}.length")
            low, high = math.floor(length * (1 - spec.ratio)), math.ceil(length * (1 + spec.ratio))
        case SglangRange() | InferencexRange():
            length = read(spec.length, f"{field}.length")
            low, high = math.floor(length * spec.ratio), length
    low = max(low, float(least))
    return Law(lambda u: low + math.floor(u * (high - low + 1)), least)


def _truncated(forward: Quantile, inverse: Quantile, width: float, low: float, high: float, field: str) -> Quantile:
    """Cut a transformed standard normal to [low, high]: draw u between the bounds' own probabilities."""
    if not width:
        middle = min(max(forward(0.0), low), high)
        return lambda u: middle
    normal = NormalDist()
    first, last = normal.cdf(inverse(low)), normal.cdf(inverse(high))
    if not first < last:
        raise ValueError(f"{field}: nothing of the distribution lies between low ({low:g}) and high ({high:g})")
    return lambda u: min(max(forward(normal.inv_cdf(min(max(first + u * (last - first), 1e-300), 1 - 1e-16))), low), high)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _ordered(low: float, high: float, field: str) -> None:
    if low > high:
        raise ValueError(f"{field}: low ({low:g}) must not be above high ({high:g})")
