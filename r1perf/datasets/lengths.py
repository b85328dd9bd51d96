"""Lengths by distribution: token counts and think times, as a scenario writes them.

Every distribution is its quantile function, so one uniform draw gives one value and the mean is a plain sum; bounded ones are the
true truncated distributions (no pile at the bounds). Numbers are tokens; a text carries its unit ("2k" tokens, "5s").
"""

import math
from collections.abc import Callable
from random import Random
from statistics import NormalDist
from typing import Annotated, Any, NamedTuple

import msgspec

from r1perf.units import MOST_TOKENS, Duration, Tokens

MOST_TURNS = 10_000
"""A conversation of more turns is a mistake."""

MOST_NS = Duration.parse("30d")
"""Nobody thinks longer."""

RARE = 1e-6
"""Where more draws than this share would be beyond what is allowed, a distribution is refused; else it is cut there."""

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
    """A distribution with its numbers read: draws whole numbers at least `least`.

    `mean` is exact but for the rounding of draws; `most` is the largest value, None where only `RARE` bounds it.
    """

    def __init__(self, quantile: Quantile, least: int, mean: float, most: int | None) -> None:
        self._quantile, self._least = quantile, least
        self.mean, self.most = mean, most

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
    return _law(spec, field, Tokens.parse, 1, MOST_TOKENS, f"{MOST_TOKENS:,} tokens")


def turns(spec: Length, field: str) -> Law:
    """Read a number of turns; raises ValueError with a sentence that names the field and what is allowed."""
    return _law(spec, field, Tokens.parse, 1, MOST_TURNS, f"{MOST_TURNS:,} turns")


def times(spec: Times, field: str) -> Law:
    """Read a length of time, in ns; raises ValueError with a sentence that names the field and what is allowed."""
    return _law(spec, field, Duration.parse, 0, MOST_NS, "30 days")


def _law(spec: Any, field: str, parse: Callable[[str], int], least: int, most: int, allowed: str) -> Law:
    def read(value: Any, name: str) -> float:
        if isinstance(value, str):
            try:
                number = float(min(parse(value), 2 * most))  # whatever is beyond is refused, by whoever bounds it
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        else:
            if parse == Duration.parse and value:
                raise ValueError(f"{name}: {value} is not {Duration.allowed}")
            number = float(value)
        if number > most:
            raise ValueError(f"{name}: must be at most {allowed}, not {value}")
        return number

    if not isinstance(spec, _Dist):
        fixed = read(spec, field)
        if fixed < least:
            raise ValueError(f"{field}: must be at least {least}, not {spec}")
        return Law(lambda u: fixed, least, fixed, round(fixed))
    if isinstance(spec, Normal | Lognormal):
        low = float(least) if spec.low is None else read(spec.low, f"{field}.low")
        bound = None if spec.high is None else read(spec.high, f"{field}.high")
        high = float(most) if bound is None else bound
        _least(low, least, field)
        _ordered(low, high, field)
        if isinstance(spec, Normal):
            cut = _normal(read(spec.mean, f"{field}.mean"), read(spec.stdev, f"{field}.stdev"), low, high, field)
        else:
            median = read(spec.median, f"{field}.median")
            if not median:
                raise ValueError(f"{field}.median: must be above 0")
            cut = _lognormal(median, spec.sigma, low, high, field)
        if bound is None and cut.above > RARE:
            raise ValueError(f"{field}: would draw more than {allowed}; give it a `high`")
        return Law(cut.quantile, least, cut.mean, None if bound is None else math.ceil(bound))
    match spec:
        case Uniform():
            low, high = math.ceil(read(spec.low, f"{field}.low")), math.floor(read(spec.high, f"{field}.high"))
            _least(low, least, field)
            _ordered(low, high, field)
        case VllmRange():
            length = read(spec.length, f"{field}.length")
            low, high = math.floor(length * (1 - spec.ratio)), math.ceil(length * (1 + spec.ratio))
        case SglangRange() | InferencexRange():
            length = read(spec.length, f"{field}.length")
            low, high = math.floor(length * spec.ratio), math.floor(length)
    low, high = max(low, least), min(high, most)
    return Law(lambda u: low + math.floor(u * (high - low + 1)), least, (low + high) / 2, int(high))


class _Cut(NamedTuple):
    """A distribution cut to its bounds."""

    quantile: Quantile
    mean: float
    above: float  # the share that lay over the upper bound


def _normal(mean: float, stdev: float, low: float, high: float, field: str) -> _Cut:
    if not stdev:
        return _point(mean, low, high)
    first, last = _shares((low - mean) / stdev, (high - mean) / stdev, low, high, field)
    # The mean of a truncated normal: mu + sigma (phi(a) - phi(b)) / (Phi(b) - Phi(a)).
    density = _NORMAL.pdf((low - mean) / stdev) - _NORMAL.pdf((high - mean) / stdev)
    return _Cut(_quantile(lambda z: mean + stdev * z, first, last, low, high), mean + stdev * density / (last - first), 1 - last)


def _lognormal(median: float, sigma: float, low: float, high: float, field: str) -> _Cut:
    if not sigma:
        return _point(median, low, high)
    a, b = _log(low / median) / sigma, _log(high / median) / sigma
    first, last = _shares(a, b, low, high, field)
    # The mean of a truncated lognormal: m exp(s^2/2) (Phi(b - s) - Phi(a - s)) / (Phi(b) - Phi(a)), as far as it can be computed.
    moved = _NORMAL.cdf(b - sigma) - _NORMAL.cdf(a - sigma)
    quantile = _quantile(lambda z: median * math.exp(min(sigma * z, _EXP)), first, last, low, high)
    if moved > _TINY and sigma < _STEEP:
        return _Cut(quantile, median * math.exp(sigma * sigma / 2) * moved / (last - first), 1 - last)
    return _Cut(quantile, sum(quantile((k + 0.5) / _STEPS) for k in range(_STEPS)) / _STEPS, 1 - last)


def _point(at: float, low: float, high: float) -> _Cut:
    middle = min(max(at, low), high)
    return _Cut(lambda u: middle, middle, float(at > high))


_NORMAL = NormalDist()
_EXP = 700.0  # exp of more is no float
_TINY, _STEEP, _STEPS = 1e-9, 6.0, 4096  # where the closed form loses its digits, and how finely it is summed up then


def _shares(a: float, b: float, low: float, high: float, field: str) -> tuple[float, float]:
    """Return the shares of a standard normal under a and under b; raises ValueError where nothing lies between."""
    first, last = _NORMAL.cdf(a), _NORMAL.cdf(b)
    if not first < last:
        raise ValueError(f"{field}: nothing of the distribution lies between low ({low:g}) and high ({high:g})")
    return first, last


def _quantile(forward: Quantile, first: float, last: float, low: float, high: float) -> Quantile:
    """Cut a transformed standard normal to [low, high]: draw u between the bounds' own shares."""
    return lambda u: min(max(forward(_NORMAL.inv_cdf(min(max(first + u * (last - first), 1e-300), 1 - 1e-16))), low), high)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _ordered(low: float, high: float, field: str) -> None:
    if low > high:
        raise ValueError(f"{field}: low ({low:g}) must not be above high ({high:g})")


def _least(low: float, least: int, field: str) -> None:
    if low < least:
        raise ValueError(f"{field}.low: must be at least {least}, not {low:g}")
