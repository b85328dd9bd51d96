"""Where a run's intervals go while it runs. One file a sink."""

from typing import Protocol

from r1perf.summary import Document, Interval, Run


class Sink(Protocol):
    """Takes the merged intervals of one run; every call may block, and none is made from a worker."""

    def open(self, run: Run) -> None:
        """Begin; called once, before the first interval."""

    def write(self, interval: Interval) -> None:
        """Take one interval of all workers. Late data of an interval comes again, alone, as another Interval of the same k."""

    def note(self, sentence: str) -> None:
        """Take an event that people were told of: a warning, a stop; may come before `open`."""

    def close(self, document: Document) -> None:
        """Take the end of the run, flush, and finish; called once, whatever happened before."""
