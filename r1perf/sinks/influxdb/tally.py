"""Tell whether all of a run is there: what its points, or an archive's intervals, add up to, beside what its end says."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from r1perf.metrics import METRICS
from r1perf.result import FAILED, Outcome
from r1perf.sinks.influxdb.server import Row
from r1perf.summary import Interval

KINDS = {
    "scheduled": "requests",
    **{f"outcome.{outcome}": "ok" for outcome in (Outcome.OK, Outcome.TRUNCATED)},
    **{f"outcome.{outcome}": "failed" for outcome in FAILED},
}
"""Counters, and the field of `r1_run` that they are a part of."""

FIGURES = {"requests": "requests", "ok": "requests that ended well", "failed": "requests that failed"}
VALUES = {f"{metric}_count": f"values of {metric}" for metric in METRICS}


class Unequal(msgspec.Struct, frozen=True):
    """A figure that is not what it was at the run's end."""

    there: int
    of: int
    what: str

    def __str__(self) -> str:
        """Say it: "3 of 52 values of ttft"."""
        return f"{self.there:,} of {self.of:,} {self.what}"


def of_points(rows: Iterable[Row], judged: Collection[str]) -> Counter[str]:
    """Add up points of `r1_counters` (all stages) and `r1_interval` (those judged, by their names)."""
    added = Counter[str]()
    for row in rows:
        for name, n in row.fields.items():
            if name in KINDS:
                added[KINDS[name]] += int(n)
            elif name in VALUES and row.tags.get("stage") in judged:
                added[name] += int(n)
    return added


def of_intervals(intervals: Iterable[Interval], judged: Collection[int]) -> Counter[str]:
    """Add up intervals, as their points would be."""
    added = Counter[str]()
    for interval in intervals:
        for (name, _, _), n in interval.counters.items():
            if name in KINDS:
                added[KINDS[name]] += n
        for (metric, _, stage), counts in interval.series.items():
            if stage in judged:
                added[f"{metric}_count"] += counts.count
    return added


def unequal(there: Mapping[str, int], told: Mapping[str, Any]) -> Unequal | None:
    """Return a figure that is not as the fields of `r1_run` tell it: one of requests, else that of which the least is there."""
    wrong = [
        Unequal(there.get(name, 0), int(told.get(name, 0)), what)
        for name, what in (FIGURES | VALUES).items()
        if there.get(name, 0) != told.get(name, 0)
    ]
    of_requests = [each for each in wrong if each.what in FIGURES.values()]
    return min(of_requests[:1] or wrong, key=lambda each: each.there / max(each.of, 1), default=None)
