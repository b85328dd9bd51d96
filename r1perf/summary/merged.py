"""Merge snapshots into a summary that can be asked for any metric, workload and stage."""

from collections.abc import Iterator, Mapping

from r1perf.histogram import Counts
from r1perf.result import Outcome
from r1perf.schedule import Stage, begins_ns, drain_index
from r1perf.snapshot import Health, Snapshot
from r1perf.summary.interval import Interval, Key, add_counters, add_series
from r1perf.summary.readings import Read, Readings
from r1perf.summary.run import Run

ALL = -1
"""Asks for every stage, judged or not; None asks for the judged ones."""

KEPT_NS = 120_000_000_000
"""How much of the run is kept whole, for the live view: an interval of many workers can be some megabytes."""

FLOW = frozenset({
    "chunks", "completed", "window_output_tokens", "window_input_tokens", "input_tokens", "cached_tokens", "output_tokens",
    "untold_output_tokens",
})  # fmt: skip
"""Counters that are kept interval by interval for the whole run, grades beside them: what throughput and cost are made of."""

TTFT_COUNT = "ttft_count"
"""Stands in `Summary.flow` for how many requests scheduled in a stage had their first chunk, from `ttft`: early archives have no `first_chunks`."""

UNFOLDED = 16
"""How many of the latest intervals are expected to be added to; late snapshots of others are right too, and cost more."""

_OUTCOME = "outcome."
_REASON = "reason."


class Summary:
    """The merged snapshots of a run, or of its part from `since_ns` (after t0) on, when only snapshots of that part are merged.

    Every (worker, k) counts once; the order of merging does not matter.
    """

    def __init__(self, run: Run, since_ns: int = 0) -> None:
        self.run = run
        self.since_ns = since_ns
        self.stages: list[Stage] = list(run.stages)
        self.intervals: dict[int, Interval] = {}  # the latest KEPT_NS
        self.readings: dict[str, Readings] = {}  # by worker
        self.ended: dict[int, int] = {}  # offsets of the stages' ends, the latest of all workers
        self.clock_step_ns: dict[str, int] = {}  # by worker, the largest
        self.latest: dict[str, int] = {}  # by worker: its last interval
        self.elapsed_ns = 0  # how far the run has been merged, from t0
        self.counters: dict[Key, int] = {}
        self.flow: dict[int, dict[Key, int]] = {}  # by interval: counters of FLOW, grades, TTFT_COUNT
        self.per_chunk: Mapping[tuple[str, str], float] | None = None  # where it is a part of a run: see `rates.per_chunk`
        self._levels: dict[int, tuple[int, int]] = {}  # by interval: in flight and waiting at its flip
        self._at_latest: dict[str, Health] = {}  # by worker: of its last interval
        self._pending: dict[str, dict[tuple[str, int], int]] = {}  # by worker: due, without an outcome
        self._finished: set[str] = set()
        self._lost: set[str] = set()
        self._newest = -1
        self._kept = max(KEPT_NS // run.interval_ns, UNFOLDED + 1)
        # A snapshot's series are added once, to its interval, and intervals to the run: with many workers that is what costs.
        self._folded: dict[Key, Counts] = {}  # of intervals that have been added
        self._unfolded: set[int] = set()
        self._series: dict[Key, Counts] | None = None  # all together, until the next snapshot

    def merge(self, snapshot: Snapshot) -> bool:
        """Add a worker's interval; return False, and change nothing, where it was added before."""
        if not self.readings.setdefault(snapshot.worker, Readings()).add(snapshot.k, snapshot.health):
            return False
        if snapshot.k > self.latest.get(snapshot.worker, -1):
            self.latest[snapshot.worker], self._at_latest[snapshot.worker] = snapshot.k, snapshot.health
        reached_ns = snapshot.k * self.run.interval_ns + min(snapshot.health.wall_ns, self.run.interval_ns)
        self.elapsed_ns = max(self.elapsed_ns, reached_ns)
        add_counters(snapshot, self.counters)
        in_flight, waiting = self._levels.get(snapshot.k, (0, 0))
        self._levels[snapshot.k] = in_flight + sum(n for _, n in snapshot.in_flight), waiting + snapshot.health.waiting
        for stage, offset_ns in snapshot.ended:
            self.ended[stage] = max(offset_ns, self.ended.get(stage, 0))
        step = self.clock_step_ns.get(snapshot.worker, 0)
        self.clock_step_ns[snapshot.worker] = max(step, snapshot.clock_step_ns, key=lambda ns: (abs(ns), ns))
        self._reconcile(snapshot)
        self._flow(snapshot)
        self._keep(snapshot)
        return True

    @property
    def series(self) -> dict[Key, Counts]:
        """The counts of the run by metric, workload and stage; not to be changed."""
        if self._series is None:
            together: dict[Key, Counts] = {}
            for part in (self._folded, *(self.intervals[k].series for k in self._unfolded)):
                for key, counts in part.items():
                    together.setdefault(key, Counts()).add(counts)
            self._series = together
        return self._series

    def add_stage(self, stage: Stage) -> None:
        """Add a stage that was not planned (the web UI's)."""
        self.stages.append(stage)

    def pending(self, worker: str) -> int:
        """Count the requests of a worker that became due and have no outcome yet."""
        return sum(self._pending.get(worker, {}).values())

    def losses(self, worker: str) -> dict[tuple[str, int], int]:
        """Return those requests by workload and stage: what `lose` counts."""
        return {key: n for key, n in self._pending.get(worker, {}).items() if n > 0}

    def finish(self, worker: str) -> None:
        """Note that a worker has reported all that it will."""
        self._finished.add(worker)

    def lose(self, worker: str) -> int:
        """Count what a dead worker still had due or in flight as `lost`; return how many. Nothing happens the second time."""
        if worker in self._lost:
            return 0
        self._lost.add(worker)
        losses = self.losses(worker)
        for (workload, stage), n in losses.items():
            key = (_OUTCOME + Outcome.LOST, workload, stage)
            self.counters[key] = self.counters.get(key, 0) + n
        return sum(losses.values())

    def counts(self, metric: str, workload: str | None = None, stage: int | None = None) -> Counts:
        """Return a metric's counts, of one workload or all, of one stage, the judged ones (None) or `ALL`."""
        wanted = self._wanted(stage)
        return Counts.merged(
            counts for (name, w, s), counts in self.series.items() if name == metric and workload in (None, w) and s in wanted
        )

    def counter(self, name: str, workload: str | None = None, stage: int | None = None) -> int:
        """Return a counter, chosen as `counts` are."""
        wanted = self._wanted(stage)
        return sum(n for (c, w, s), n in self.counters.items() if c == name and workload in (None, w) and s in wanted)

    def outcomes(self, workload: str | None = None, stage: int | None = ALL) -> dict[Outcome, int]:
        """Return the number of requests by outcome, those with any, in the order of `Outcome`."""
        numbers = {outcome: self.counter(_OUTCOME + outcome, workload, stage) for outcome in Outcome}
        return {outcome: n for outcome, n in numbers.items() if n}

    def reasons(self, outcome: Outcome, workload: str | None = None) -> dict[str, int]:
        """Return why requests had an outcome, the most frequent reason first, over all stages."""
        prefix, found = f"{_REASON}{outcome}.", dict[str, int]()
        for (name, w, _), n in self.counters.items():
            if name.startswith(prefix) and workload in (None, w):
                reason = name.removeprefix(prefix)
                found[reason] = found.get(reason, 0) + n
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    @property
    def workloads(self) -> tuple[str, ...]:
        """All workloads: the scenario's in its order, then any other that was met."""
        met = {w for _, w, _ in (*self.series, *self.counters)}
        return (*self.run.workloads, *sorted(met - set(self.run.workloads)))

    @property
    def judged(self) -> list[Stage]:
        """The judged stages."""
        return [stage for stage in self.stages if stage.judged]

    @property
    def drain(self) -> int:
        """The index of the reserved last stage."""
        return drain_index(self.run.stages)

    @property
    def covered_ns(self) -> int:
        """How much of the run has been merged."""
        return max(self.elapsed_ns - self.since_ns, 0)

    @property
    def in_flight(self) -> int:
        """Requests in flight or waiting at each worker's latest flip; none on workers that were lost."""
        latest = (health for worker, health in self._at_latest.items() if worker not in self._lost)
        return sum(health.in_flight + health.waiting for health in latest)

    @property
    def whole(self) -> int:
        """The last interval that every worker has reported that still measures, or that any has where none does; -1 without one."""
        measuring = [k for worker, k in self.latest.items() if worker not in self._finished and worker not in self._lost]
        return min(measuring) if measuring else max(self.latest.values(), default=-1)

    @property
    def lost_workers(self) -> list[str]:
        """The workers that died."""
        return sorted(self._lost)

    def window(self, stage: Stage) -> tuple[int, int] | None:
        """Return when a stage began and ended (or how far it has come), as offsets in ns; None where it has not begun."""
        begin = begins_ns(stage, self.stages, self.ended)
        if begin is None:
            return None
        end = self.ended.get(stage.index)
        if end is None:
            end = self.elapsed_ns if stage.end_ns is None else min(begin + stage.end_ns - stage.start_ns, self.elapsed_ns)
        begin = max(begin, self.since_ns)
        return (begin, end) if end > begin else None

    def windows(self, stage: int | None = None) -> list[tuple[int, int]]:
        """Return the windows of one stage, the judged ones (None) or `ALL`, those that have begun."""
        wanted = self._wanted(stage)
        return [window for s in self.stages if s.index in wanted and (window := self.window(s)) is not None]

    def levels(self, window: tuple[int, int], *, waiting: bool = False) -> list[int]:
        """Return the requests in flight, or in flight and waiting for `max_in_flight`, at each flip inside of a window."""
        interval_ns = self.run.interval_ns
        return [
            in_flight + (waits if waiting else 0)
            for k, (in_flight, waits) in sorted(self._levels.items())
            if window[0] < (k + 1) * interval_ns <= window[1]
        ]

    def read(self, windows: list[tuple[int, int]]) -> Iterator[tuple[str, list[Read]]]:
        """Go through the workers with their readings of the intervals that lie wholly in one of these windows."""
        interval_ns = self.run.interval_ns
        ks = sorted({k for begin, end in windows for k in range(-(-begin // interval_ns), end // interval_ns)})
        for worker, readings in sorted(self.readings.items()):
            yield worker, list(readings.of(ks))

    def _wanted(self, stage: int | None) -> set[int]:
        if stage is None:
            return {judged.index for judged in self.judged}
        if stage == ALL:
            return {known.index for known in self.stages} | {self.drain}
        return {stage}

    def _reconcile(self, snapshot: Snapshot) -> None:
        pending = self._pending.setdefault(snapshot.worker, {})
        for counter in snapshot.counters:
            sign = 1 if counter.name == "scheduled" else -1 if counter.name.startswith(_OUTCOME) else 0
            if sign:
                key = (counter.workload, counter.stage)
                pending[key] = pending.get(key, 0) + sign * counter.n

    def _flow(self, snapshot: Snapshot) -> None:
        flow = self.flow.setdefault(snapshot.k, {})
        for counter in snapshot.counters:
            if counter.name in FLOW or counter.name.startswith("grade."):
                key = (counter.name, counter.workload, counter.stage)
                flow[key] = flow.get(key, 0) + counter.n
        for series in snapshot.series:
            if series.metric == "ttft":
                key = (TTFT_COUNT, series.workload, series.stage)
                flow[key] = flow.get(key, 0) + series.count

    def _keep(self, snapshot: Snapshot) -> None:
        """Add a snapshot to its interval, and intervals that are hardly added to any more to the run."""
        self._series = None
        if snapshot.k > self._newest - UNFOLDED and snapshot.k not in self.intervals:
            self._unfolded.add(snapshot.k)
        self._newest = max(self._newest, snapshot.k)
        if snapshot.k > self._newest - self._kept:
            self.intervals.setdefault(snapshot.k, Interval(snapshot.k)).add(snapshot)
        if snapshot.k not in self._unfolded:
            add_series(snapshot, self._folded)
        for k in [k for k in self._unfolded if k <= self._newest - UNFOLDED]:
            self._unfolded.remove(k)
            for key, counts in self.intervals[k].series.items():
                self._folded.setdefault(key, Counts()).add(counts)
        for k in [k for k in self.intervals if k <= self._newest - self._kept]:
            del self.intervals[k]
