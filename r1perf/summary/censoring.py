"""Bound what the end of a run hides: requests that were cut have no E2E and no length, and they are the longest ones.

A percentile of those that ended says too little then. With c cut beside n that ended, the percentile of all n + c is the value of rank
r = ceil(p (n + c) / 100), and nothing is assumed of the cut ones (Manski 2003: worst-case bounds):

    least   they are all shorter than every other: rank r - c of the n
    most    they are all longer: rank r of the n; there is none where r > n
"""

import msgspec

from r1perf.histogram import Counts, rank
from r1perf.result import CENSORED
from r1perf.summary.merged import Summary

METRICS = ("e2e", "output_tokens")
RANKS = ("50", "90", "95", "99")


class Between(msgspec.Struct, frozen=True, omit_defaults=True):
    """A percentile's bounds, in ms or tokens; one that cannot be given is absent."""

    least: float | None = None
    most: float | None = None


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The bounds of one metric's percentiles over `known` requests that ended well and `cut` ones that the run's end cut."""

    metric: str
    workload: str | None = None
    unit: str
    known: int
    cut: int
    p50: Between
    p90: Between
    p95: Between
    p99: Between


def cut_requests(summary: Summary, workload: str | None = None) -> int:
    """Count the requests of the judged window that were cut: cancelled, never sent, or lost with a worker."""
    return sum(n for outcome, n in summary.outcomes(workload, None).items() if outcome in CENSORED)


def bounds(summary: Summary) -> list[Bounds]:
    """Return the bounds of everything that the end has cut, all workloads and each; [] where nothing was cut."""
    workloads = (None, *summary.workloads) if len(summary.workloads) > 1 else summary.workloads
    return [
        _bounds(metric, workload, summary.counts(metric, workload), cut)
        for metric in METRICS
        for workload in workloads
        if (cut := cut_requests(summary, workload))
    ]


def _bounds(metric: str, workload: str | None, counts: Counts, cut: int) -> Bounds:
    tokens = metric == "output_tokens"
    unit = 1 if tokens else 1000
    p50, p90, p95, p99 = (between(counts, p, cut, unit) for p in RANKS)
    return Bounds(
        metric=metric,
        workload=workload,
        unit="tokens" if tokens else "ms",
        known=counts.count,
        cut=cut,
        p50=p50,
        p90=p90,
        p95=p95,
        p99=p99,
    )


def between(counts: Counts, p: str, cut: int, unit: int = 1) -> Between:
    """Bound the p-th percentile of these counts and of `cut` unknown values more; `unit` divides what is found."""
    wanted = rank(p, counts.count + cut)
    return Between(*(None if (found := counts.value_at(at)) is None else found / unit for at in (wanted - cut, wanted)))
