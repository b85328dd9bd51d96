"""A rate that changes: in time, or by request as vLLM does it."""

from typing import Literal

import numpy as np

from r1perf.arrivals.constant import Constant
from r1perf.arrivals.gamma import Gamma
from r1perf.arrivals.gaps import GammaGaps, Gaps, Seconds, Stream, unit_times
from r1perf.arrivals.open import Open
from r1perf.arrivals.poisson import Poisson
from r1perf.units import Duration, Rate


class Ramp(Open, frozen=True, kw_only=True, tag="ramp"):
    """Change the rate from `start` to `end`, then hold it.

    `by = "time"` (default): over `duration` the rate is start + (end - start) t / duration ("linear"), or
    start (end / start)^(t / duration) ("exponential"); `hold` keeps the end rate for that long after it. The gaps' law
    is kept by time change: event k of a process of rate 1 comes at s_k, and here at the time t with
    integral of the rate over [0, t] = s_k. With Poisson gaps that is exactly the inhomogeneous Poisson process.

    `by = "request"` is vLLM's `--ramp-up-strategy` (vllm/benchmarks/serve.py, get_request, 0.33): request i of N has the
    rate start + (end - start) p or start (end / start)^p with p = i / (N - 1), its gap is drawn with mean 1 / rate, and
    arrivals are the running sum, the first one gap after the start, never normalised. In time that is an exponential
    rise ("linear") or a hyperbolic one: most requests are sent near the end rate.
    """

    start: Rate
    end: Rate
    curve: Literal["linear", "exponential"] = "linear"
    gaps: Gaps = "poisson"
    by: Literal["time", "request"] = "time"
    hold: Duration | None = None

    def times(self, stream: Stream, *, until: float, count: int | None, turns: float) -> Seconds:
        """Draw by time change, or by vLLM's sum."""
        if self.by == "request":
            if count is None:
                raise ValueError("a ramp by request needs a number of requests")
            times = by_request(gap_draws(stream, self.gaps, count), self.request_rates(count) / self._divisor(turns))
            return times[times < until]
        if self.duration is None:
            raise ValueError("a ramp in time needs a duration")
        divisor, ramp_s = self._divisor(turns), self.duration / 1e9
        end_rate = self.end / divisor
        until = min(until, ramp_s + self.hold / 1e9) if self.hold is not None else until
        whole = self._integral(ramp_s, ramp_s) / divisor
        if until <= ramp_s:
            total = self._integral(until, ramp_s) / divisor
        elif end_rate > 0:
            total = whole + (until - ramp_s) * end_rate
        else:
            total = whole
        unit = unit_times(stream, self.gaps, total, count)
        ramped = unit[unit < whole]
        held = unit[len(ramped) :]
        return np.concatenate(
            [self._inverse(ramped * divisor, ramp_s), ramp_s + (held - whole) / end_rate if len(held) else held]
        )

    def request_rates(self, count: int) -> Seconds:
        """Return vLLM's rate of each request, per second."""
        share = np.arange(count) / max(count - 1, 1)
        if self.curve == "linear":
            return self.start + (self.end - self.start) * share
        return np.asarray(self.start * (self.end / self.start) ** share)

    def _integral(self, t: float, ramp_s: float) -> float:
        """Return the expected number of arrivals in the first t seconds of the ramp."""
        if self.curve == "linear":
            return self.start * t + (self.end - self.start) / ramp_s * t * t / 2
        growth = np.log(self.end / self.start) / ramp_s
        return float(self.start * np.expm1(growth * t) / growth) if growth else self.start * t

    def _inverse(self, expected: Seconds, ramp_s: float) -> Seconds:
        """Return when the expected number of arrivals reaches each value: the inverse of `_integral`."""
        if self.start == self.end:
            return expected / self.start
        if self.curve == "exponential":
            growth = np.log(self.end / self.start) / ramp_s
            return np.asarray(np.log1p(growth * expected / self.start) / growth)
        slope = (self.end - self.start) / ramp_s
        # The stable form of the root: no cancellation for small slopes, and right for falling rates.
        root = self.start + np.sqrt(np.maximum(self.start**2 + 2 * slope * expected, 0))
        return np.divide(2 * expected, root, out=np.zeros_like(expected), where=root > 0)

    def rates(self) -> tuple[Rate, Rate]:
        """Return both ends."""
        return self.start, self.end

    def at_rate(self, rate: Rate) -> Open:
        """Return a process of one rate with this one's law of gaps."""
        if isinstance(self.gaps, GammaGaps):
            return Gamma(rate=rate, per=self.per, shape=self.gaps.gamma)
        return Constant(rate=rate, per=self.per) if self.gaps == "constant" else Poisson(rate=rate, per=self.per)

    def says(self) -> str:
        """Say both rates and how it goes between them."""
        gaps = f"gamma {self.gaps.gamma:g}" if isinstance(self.gaps, GammaGaps) else self.gaps
        how = f"{self.curve} by {self.by}, {gaps} gaps"
        return f"ramp {self.start} to {self.end}{self._per()}, {how}" + (f", hold {self.hold}" if self.hold else "")


def gap_draws(stream: Stream, gaps: Gaps, count: int) -> Seconds:
    """Draw gaps of mean 1 with numpy's global generator, as vLLM does."""
    if gaps == "constant":
        return np.ones(count)
    shape = gaps.gamma if isinstance(gaps, GammaGaps) else 1.0
    return stream.legacy().gamma(shape, 1 / shape, count)


def by_request(unit_gaps: Seconds, rates: Seconds) -> Seconds:
    """Sum gaps that are divided by each request's own rate."""
    return np.cumsum(unit_gaps / rates)
