"""Measure how many independent attempts a run's attempts are worth.

Attempts that share a queue, a decode batch or a conversation miss together. The share p = x / n of misses then varies more than a
binomial one, by the design effect

    deff = var(p) / (p (1 - p) / n)       var(p) = C / (C - 1) * sum over clusters of (x_c - p m_c)^2 / n^2

for C clusters of m_c attempts with x_c misses (the ratio estimator of survey sampling; Kish 1965). Three kinds of cluster are
looked at, since each sees what the others do not, and the worst counts: batches of time (consecutive intervals), requests
(for gaps between chunks), conversations. With few clusters the variance itself is uncertain, hence Korn and Graubard's (1998)

    n_eff = n / (deff * (t / z)^2)        t, z: the (1 - alpha) quantiles of Student's t with C - 1 degrees of freedom and of the normal

A batch must outlast the time that requests stay in the system: shorter ones see one state of the load and call it many.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from r1perf.sla.special import normal_quantile, t_quantile

BATCHES = 20
"""How many batches of time are made where the window allows: enough for a variance, few enough to be long."""

ENOUGH = 15
"""The fewest batches that outlast the residence time and still tell the variance of the target, not of this window."""

Interval = tuple[int, int]
"""Attempts and misses of one interval."""

By = Literal["none", "time", "requests", "conversations"]


class Clusters(msgspec.Struct, frozen=True, array_like=True):
    """The exact sums of clusters that a variance needs; they merge by addition.

    Over clusters of m attempts with x misses: how many, sum m, sum x, sum m^2, sum x^2, sum m x, and how many had x > 0.
    """

    clusters: int = 0
    m: int = 0
    x: int = 0
    mm: int = 0
    xx: int = 0
    mx: int = 0
    hit: int = 0

    def __add__(self, other: "Clusters") -> "Clusters":
        """Merge the sums of two disjoint sets of clusters."""
        return Clusters(
            self.clusters + other.clusters, self.m + other.m, self.x + other.x, self.mm + other.mm, self.xx + other.xx,
            self.mx + other.mx, self.hit + other.hit,
        )  # fmt: skip

    @classmethod
    def of(cls, counts: Iterable[Interval]) -> "Clusters":
        """Sum clusters given as (attempts, misses); those without attempts are none."""
        rows = [(m, x) for m, x in counts if m]
        return cls(
            len(rows), sum(m for m, _ in rows), sum(x for _, x in rows), sum(m * m for m, _ in rows), sum(x * x for _, x in rows),
            sum(m * x for m, x in rows), sum(x > 0 for _, x in rows),
        )  # fmt: skip


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """How many independent attempts n attempts are worth (`n_eff`), which clusters say so, and on what ground.

    `deff` is the design effect of those clusters, at least 1. `window_only`: the window has too few batches that outlast the
    residence time, so the verdict stands for this run's window. `measured` is False where dependence could not be measured.
    """

    n_eff: float
    deff: float = 1.0
    by: By = "none"
    batches: int = 0
    batch_s: float = 0.0
    window_only: bool = False
    measured: bool = True


def design_effect(sums: Clusters) -> float | None:
    """Return the design effect of clusters; None where it is undefined: under two clusters, or no or only misses."""
    if sums.clusters < 2 or not 0 < sums.x < sums.m:
        return None
    p = sums.x / sums.m
    squares = sums.xx - 2 * p * sums.mx + p * p * sums.mm
    return max(0.0, sums.clusters / (sums.clusters - 1) * squares / (sums.m * p * (1 - p)))


def korn_graubard(n: float, deff: float, clusters: int, alpha: float) -> float:
    """Return the effective n for a variance that was measured on so many clusters; never more than n."""
    ratio = t_quantile(clusters - 1, 1 - alpha) / normal_quantile(1 - alpha)
    return min(n, n / (deff * ratio**2)) if deff > 0 else n


def batch(intervals: Sequence[Interval], count: int) -> list[Interval]:
    """Merge consecutive intervals into `count` batches of equal length, within one interval."""
    edges = [len(intervals) * i // count for i in range(count + 1)]
    return [(sum(n for n, _ in intervals[a:b]), sum(x for _, x in intervals[a:b])) for a, b in itertools.pairwise(edges)]


def worth(
    n: int,
    *,
    alpha: float,
    intervals: Sequence[Interval] = (),
    interval_s: float = 1.0,
    residence_s: float = 0.0,
    requests: Clusters | None = None,
    conversations: Clusters | None = None,
) -> Worth:
    """Return what n attempts are worth: the least that time batches, requests and conversations leave.

    `residence_s` is the p90 residence time of the slowest workload on the target. `requests` is given where an attempt is a gap
    between chunks. Without intervals nothing is known of time, and attempts count as independent (`by` is "none").
    """
    window_s = len(intervals) * interval_s
    fitting = BATCHES if BATCHES * residence_s <= window_s else int(window_s / residence_s)
    found = [_time(n, intervals, interval_s, min(BATCHES, fitting) if fitting >= ENOUGH else BATCHES, alpha)]
    short = min(fitting, len(intervals)) < ENOUGH
    if short and fitting >= 2:
        found.append(_time(n, intervals, interval_s, fitting, alpha))
    if requests is not None:
        found += [_clustered(n, requests, "requests", alpha), _rarely_hit(n, requests, "requests")]
        found.append(_rarely_hit(n, Clusters.of(intervals), "time", interval_s))
    if conversations is not None and conversations.m > conversations.clusters:
        found.append(_clustered(n, conversations, "conversations", alpha))
    known = [one for one in found if one is not None]
    if not known:
        return Worth(n_eff=n, window_only=short and bool(intervals), measured=False)
    least = min(known, key=lambda one: one.n_eff)
    return msgspec.structs.replace(least, window_only=short and bool(intervals))


def _time(n: int, intervals: Sequence[Interval], interval_s: float, count: int, alpha: float) -> Worth | None:
    """Measure batches of time. Neighbours that still move together (lag-1 correlation) raise the variance further."""
    count = min(count, len(intervals))
    rows = batch(intervals, count) if count else []
    sums = Clusters.of(rows)
    deff = design_effect(sums)
    if deff is None:
        return None
    p = sums.x / sums.m
    away = [x - p * m for m, x in rows]
    square = sum(a * a for a in away)
    together = sum(a * b for a, b in itertools.pairwise(away)) / square if square else 0.0
    deff = max(1.0, deff * max(1.0, 1 + 2 * together))
    n_eff = korn_graubard(n, deff, sums.clusters, alpha)
    return Worth(n_eff=n_eff, deff=deff, by="time", batches=count, batch_s=len(intervals) * interval_s / count)


def _clustered(n: int, sums: Clusters, by: By, alpha: float) -> Worth | None:
    deff = design_effect(sums)
    if deff is None:
        return None
    deff = max(1.0, deff)
    return Worth(n_eff=korn_graubard(n, deff, sums.clusters, alpha), deff=deff, by=by, batches=sums.clusters)


def _rarely_hit(n: int, sums: Clusters, by: By, batch_s: float = 0.0) -> Worth | None:
    """Bound what gaps are worth where few clusters had a miss, so that no variance can be trusted.

    Pretend one more cluster, all of whose gaps missed: the mean misses of a cluster that is hit at all are then the size of the
    lumps in which misses come. Without any miss a cluster counts as one attempt: 3 clean streams of 100 gaps are worth 3, not 300.
    """
    if not sums.clusters:
        return None
    mean_size = sums.m / sums.clusters
    lump = max(1.0, (sums.x + mean_size) / (sums.hit + 1))
    return Worth(n_eff=n / lump, deff=lump, by=by, batches=sums.clusters, batch_s=batch_s)
