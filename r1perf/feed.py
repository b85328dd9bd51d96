"""Give a run's intervals to its sinks: each when it is whole, what comes late alone."""

from collections.abc import Callable, Sequence

from r1perf.errors import R1perfError
from r1perf.sinks import Sink
from r1perf.snapshot import Snapshot
from r1perf.summary import Document, Interval, Run

LATE_INTERVALS = 10
"""A sink is given an interval when all workers have reported it, or when it is so far behind the newest."""


class Feed:
    """The sinks of one run. One that cannot write gets nothing more but the end; `on_failure` hears why."""

    def __init__(self, sinks: Sequence[Sink], on_failure: Callable[[str], None]) -> None:
        self._all, self._on_failure = tuple(sinks), on_failure
        self._sinks = list(sinks)  # that can write
        self._due: dict[int, Interval] = {}  # what the sinks have not been given
        self._given = -1  # the last one that they have
        self._late: dict[int, Interval] = {}  # what came afterwards

    def open(self, run: Run) -> None:
        """Begin; raises the R1perfError of a sink that cannot."""
        for sink in self._sinks:
            sink.open(run)

    def note(self, sentence: str) -> None:
        """Tell what people are told."""
        for sink in self._sinks:
            sink.note(sentence)

    def add(self, taken: Snapshot, kept: Interval | None) -> None:
        """Take a snapshot that the summary has merged; `kept` is its interval there, None where the summary has let that go."""
        if taken.k <= self._given:
            self._late.setdefault(taken.k, Interval(taken.k)).add(taken)
            return
        due = self._due.setdefault(taken.k, kept or Interval(taken.k))
        if taken.worker not in due.health:  # it is not the summary's, which holds it already
            due.add(taken)

    def lose(self, k: int, lost: dict[tuple[str, int], int]) -> None:
        """Take what a dead worker had in flight, by workload and stage."""
        self._late.setdefault(k, Interval(k)).lose(lost)

    def write(self, newest: int, whole: int, *, everything: bool) -> None:
        """Give what is due: all up to `whole`, which every running worker has reported, and what is far behind `newest`."""
        until = newest if everything else max(whole, newest - LATE_INTERVALS)
        due, late = (
            [waiting.pop(k) for k in sorted(k for k in waiting if k <= until or everything)]
            for waiting in (self._due, self._late)
        )
        self._given = max([self._given, *(interval.k for interval in due)])
        for interval in due + late:
            for sink in list(self._sinks):
                try:
                    sink.write(interval)
                except R1perfError as error:
                    self._sinks.remove(sink)
                    self._on_failure(str(error))

    def close(self, document: Document) -> str | None:
        """Give every sink the end, in their order, also those that could not write; return why the first could not end."""
        failure = None
        for sink in self._all:
            try:
                sink.close(document)
            except R1perfError as error:
                failure = failure or str(error)
        return failure
