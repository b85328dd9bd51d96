"""One interval of a run, all workers together: what sinks are given."""

from typing import Self

from r1perf.histogram import Counts
from r1perf.result import Outcome
from r1perf.snapshot import Health, Snapshot

Key = tuple[str, str, int]
"""(metric or counter, workload, stage index)."""


class Interval:
    """Interval `k`: [t0 + k D, t0 + (k+1) D). Adding snapshots is addition: any order, any grouping, same result."""

    __slots__ = ("counters", "ended", "health", "in_flight", "k", "series")

    def __init__(self, k: int) -> None:
        self.k = k
        self.series: dict[Key, Counts] = {}
        self.counters: dict[Key, int] = {}
        self.in_flight: dict[str, int] = {}
        self.health: dict[str, Health] = {}
        self.ended: dict[int, int] = {}  # offsets of the ends of stages that ended in it, the latest of all workers

    @classmethod
    def of(cls, *snapshots: Snapshot) -> Self:
        """Merge the snapshots of one interval."""
        interval = cls(snapshots[0].k)
        for snapshot in snapshots:
            interval.add(snapshot)
        return interval

    def add(self, snapshot: Snapshot) -> None:
        """Add one worker's snapshot."""
        add_series(snapshot, self.series)
        add_counters(snapshot, self.counters)
        for workload, n in snapshot.in_flight:
            self.in_flight[workload] = self.in_flight.get(workload, 0) + n
        self.health[snapshot.worker] = snapshot.health
        for stage, offset_ns in snapshot.ended:
            self.ended[stage] = max(offset_ns, self.ended.get(stage, 0))

    def lose(self, lost: dict[tuple[str, int], int]) -> None:
        """Count requests of a dead worker, by workload and stage, as `lost`."""
        for (workload, stage), n in lost.items():
            key = (f"outcome.{Outcome.LOST}", workload, stage)
            self.counters[key] = self.counters.get(key, 0) + n


def add_series(snapshot: Snapshot, series: dict[Key, Counts]) -> None:
    """Add a snapshot's series to those given."""
    for s in snapshot.series:
        counts = series.setdefault((s.metric, s.workload, s.stage), Counts())
        counts.add_sparse(s.indices, s.counts, s.count, s.total, s.least, s.most, s.clamped)


def add_counters(snapshot: Snapshot, counters: dict[Key, int]) -> None:
    """Add a snapshot's counters to those given."""
    for c in snapshot.counters:
        key = (c.name, c.workload, c.stage)
        counters[key] = counters.get(key, 0) + c.n
