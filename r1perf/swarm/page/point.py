"""Hold one point of the charts: what happened in one or more intervals, all workers together."""

from r1perf.histogram import Counts
from r1perf.summary import Interval

CHARTED = ("ttft", "ttfo", "thinking", "itl", "tpot", "e2e", "schedule_delay")
"""The metrics whose percentiles are drawn over time."""

RANKS = (50, 95, 99)

COUNTED = frozenset({"scheduled", "sent", "completed", "chunks", "window_output_tokens"})
"""The counters that are drawn over time; outcomes are too."""

OUTCOME = "outcome."

Place = tuple[str, str | None]
"""(metric, workload); None is all workloads together."""

Percentiles = tuple[int | None, ...]


class Point:
    """The intervals that begin in [number * width, (number + 1) * width).

    Percentiles come from merged counts, never from other percentiles. Once a point is frozen its counts are gone: what comes
    for it then is added to its counters, and leaves its percentiles as they are.
    """

    __slots__ = ("_counts", "_known", "_ks", "_levels", "_used", "counters", "delay_max_ns", "lag_max_ns", "number", "revision")

    def __init__(self, number: int) -> None:
        self.number = number
        self.revision = 0
        self.counters: dict[str, dict[str, int]] = {}  # by name and workload
        self.lag_max_ns = 0
        self.delay_max_ns = 0
        self._counts: dict[tuple[str, str], Counts] | None = {}
        self._known: dict[Place, Percentiles] | None = None
        self._ks: set[int] = set()
        self._levels: dict[str, int] = {}
        self._used: dict[str, tuple[int, int]] = {}  # CPU and wall time of each worker

    def add(self, interval: Interval) -> None:
        """Add an interval, or late data of one."""
        self._ks.add(interval.k)
        for (name, workload, _), n in interval.counters.items():
            if name in COUNTED or name.startswith(OUTCOME):
                mine = self.counters.setdefault(name, {})
                mine[workload] = mine.get(workload, 0) + n
        for workload, n in interval.in_flight.items():
            self._levels[workload] = self._levels.get(workload, 0) + n
        for worker, health in interval.health.items():
            cpu_ns, wall_ns = self._used.get(worker, (0, 0))
            self._used[worker] = cpu_ns + health.cpu_ns, wall_ns + health.wall_ns
            self.lag_max_ns = max(self.lag_max_ns, health.loop_lag_max_ns)
            self.delay_max_ns = max(self.delay_max_ns, health.delay_max_ns)
        if self._counts is not None:
            for (metric, workload, _), counts in interval.series.items():
                if metric in CHARTED:
                    self._counts.setdefault((metric, workload), Counts()).add(counts)
            self._known = None

    @property
    def length(self) -> int:
        """How many intervals have come."""
        return len(self._ks)

    @property
    def cpu(self) -> float | None:
        """The share of one core that the busiest worker used; None where nothing was measured."""
        return max((cpu_ns / wall_ns for cpu_ns, wall_ns in self._used.values() if wall_ns), default=None)

    def in_flight(self, workload: str) -> float:
        """Return the mean of requests in flight at the intervals' ends."""
        return self._levels.get(workload, 0) / len(self._ks) if self._ks else 0.0

    def count(self, name: str, workload: str | None) -> int:
        """Return a counter, of one workload or all."""
        found = self.counters.get(name)
        if found is None:
            return 0
        return sum(found.values()) if workload is None else found.get(workload, 0)

    def percentiles(self, metric: str, workload: str | None) -> Percentiles:
        """Return a metric's percentiles, in us; each is None where there was no value."""
        return self._settled().get((metric, workload), (None,) * len(RANKS))

    def freeze(self) -> None:
        """Keep the figures and let the counts go."""
        self._known = self._settled()
        self._counts = None
        busiest = max(self._used, key=lambda worker: self._used[worker][0] / max(self._used[worker][1], 1), default=None)
        self._used = {} if busiest is None else {busiest: self._used[busiest]}

    def _settled(self) -> dict[Place, Percentiles]:
        if self._known is None:
            parts = self._counts or {}
            known: dict[Place, Percentiles] = {place: tuple(counts.percentiles(RANKS)) for place, counts in parts.items()}
            for metric in {metric for metric, _ in parts}:
                found = [counts for (name, _), counts in parts.items() if name == metric]
                merged = found[0] if len(found) == 1 else Counts.merged(found)
                known[metric, None] = tuple(merged.percentiles(RANKS))
            self._known = known
        return self._known
