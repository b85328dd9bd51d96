"""Gather a run's intervals into groups, one a point: exact addition, and late data gets a part of its own."""

from r1perf.histogram import Counts
from r1perf.snapshot import Health
from r1perf.summary.interval import Interval, Key


class Group:
    """The intervals that begin in [t0 + number G, t0 + (number + 1) G), as far as they came together."""

    __slots__ = ("counters", "ended", "health", "levels", "number", "part", "series")

    def __init__(self, number: int, part: int) -> None:
        self.number = number
        self.part = part
        self.series: dict[Key, Counts] = {}
        self.counters: dict[Key, int] = {}
        self.levels: dict[str, dict[int, int]] = {}  # by workload: requests in flight at the flip of interval k
        self.health: dict[int, list[Health]] = {}  # by k, one a worker
        self.ended: dict[int, int] = {}

    def add(self, interval: Interval) -> None:
        """Add one interval, or late data of one."""
        for key, counts in interval.series.items():
            self.series.setdefault(key, Counts()).add(counts)
        for key, n in interval.counters.items():
            self.counters[key] = self.counters.get(key, 0) + n
        for workload, n in interval.in_flight.items():
            mine = self.levels.setdefault(workload, {})
            mine[interval.k] = mine.get(interval.k, 0) + n
        self.health.setdefault(interval.k, []).extend(interval.health.values())
        for stage, offset_ns in interval.ended.items():
            self.ended[stage] = max(offset_ns, self.ended.get(stage, 0))


class Gatherer:
    """Groups that are still open. A group is done when a later one begins; what comes for it then is its next part."""

    def __init__(self, interval_ns: int, group_ns: int) -> None:
        self._interval_ns, self._group_ns = interval_ns, group_ns
        self._open: dict[int, Group] = {}
        self._parts: dict[int, int] = {}  # how many parts of each group are given away

    def add(self, interval: Interval) -> list[Group]:
        """Take an interval; return the groups that are done by it."""
        number = interval.k * self._interval_ns // self._group_ns
        done = [self._open.pop(known) for known in sorted(self._open) if known < number]
        if number not in self._open:
            self._open[number] = Group(number, self.reserve(number))
        self._open[number].add(interval)
        return done

    def rest(self) -> list[Group]:
        """Return the groups that are still open; there are none afterwards."""
        left = [self._open[number] for number in sorted(self._open)]
        self._open.clear()
        return left

    def reserve(self, number: int) -> int:
        """Give away the next part of a group: to late data, or to a histogram that is too large for one field."""
        part = self._parts.get(number, 0)
        self._parts[number] = part + 1
        return part
