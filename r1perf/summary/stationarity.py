"""Tell whether requests in flight still grew over a stage: then its figures describe the window, not the system.

Requests that wait for a place in flight (`max_in_flight`) count too: at that limit they are what grows.

Levels at successive flips depend on each other for about as long as a request stays in the system, so a regression over them
finds trends in mere noise. The stage is therefore cut into batches at least as long as the p90 residence time (batch means,
Law and Kelton, Simulation Modeling and Analysis, 9.5.3), and the batch means are tested for a rise with the rank test of
Mann (Econometrica 13, 1945) and Kendall, one-sided at 1 %. A rise must also be large enough to matter.

Where fewer than six batches fit, the stage is short beside its own requests. Then the growth from its first flip to its last
is held against the noise of two levels: in an infinite-server system each varies by its own size (Poisson).
"""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

import msgspec

from r1perf.schedule import Stage
from r1perf.summary.merged import Summary

LEAST_BATCHES, MOST_BATCHES = 6, 20
Z = 2.326  # one-sided 1 %
GROWTH = 0.05
"""A rise below this share of the mean level is not reported, however certain."""

NOISES = 3.0


class Stationarity(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one stage; `stationary` is None where the stage was too short to tell."""

    stationary: bool | None
    says: str


def stationarity(summary: Summary, stage: Stage) -> Stationarity | None:
    """Judge one stage; None where it has not begun."""
    window = summary.window(stage)
    if window is None:
        return None
    levels = summary.levels(window, waiting=True)
    residences = [
        p90 for workload in summary.workloads if (p90 := summary.counts("e2e", workload, stage.index).percentile(90)) is not None
    ]
    residence_ns = max(residences) * 1000 if residences else None
    return judge(levels, summary.run.interval_ns, residence_ns)


def judge(levels: Sequence[int], interval_ns: int, residence_ns: int | None) -> Stationarity:
    """Judge the levels at successive flips; `residence_ns` is how long requests stay (p90), None while none has ended."""
    if not levels:
        return Stationarity(stationary=None, says="too short to tell whether requests in flight grew")
    length_ns = len(levels) * interval_ns
    fit = len(levels) if residence_ns is not None else 0
    if residence_ns:
        fit = min(fit, length_ns // max(residence_ns, interval_ns))
    if fit >= LEAST_BATCHES:
        means = _batch_means(levels, min(fit, MOST_BATCHES))
        third = max(len(means) // 3, 1)
        first, last = fmean(means[:third]), fmean(means[-third:])
        if rises(means) and last - first > max(GROWTH * fmean(levels), 1.0):
            return _grew(first, last)
        return Stationarity(stationary=True, says="requests in flight did not grow")
    start, end = levels[0], levels[-1]
    if end - start > max(NOISES * (end + start) ** 0.5, GROWTH * fmean(levels)):
        return _grew(start, end)
    return Stationarity(stationary=None, says="too short beside its requests to tell whether requests in flight grew")


def rises(values: Sequence[float]) -> bool:
    """Test for a rise with Mann and Kendall's S, one-sided at 1 %, with the correction for ties and for continuity."""
    n = len(values)
    s = sum((later > earlier) - (later < earlier) for i, earlier in enumerate(values) for later in values[i + 1 :])
    ties = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    return s > 1 and (s - 1) / variance**0.5 > Z


def _batch_means(levels: Sequence[int], batches: int) -> list[float]:
    edges = [n * len(levels) // batches for n in range(batches + 1)]
    return [fmean(levels[begin:end]) for begin, end in pairwise(edges)]


def _grew(first: float, last: float) -> Stationarity:
    says = f"not stationary: requests in flight or waiting grew from {first:.0f} to {last:.0f}; throughput and E2E describe the window only"
    return Stationarity(stationary=False, says=says)
