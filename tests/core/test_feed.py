"""Every sink gets the end, the archive first: it must be whole before a database is waited for."""

from virtual_run import S, a_run

from r1perf.errors import ArchiveError
from r1perf.feed import Feed
from r1perf.snapshot import Health, Snapshot
from r1perf.summary import Summary, document

HEALTH = Health(0, 0, 0, S, 0, 0, 0)


class Noting:
    """A sink that notes what it is given; a `full` one can write nothing."""

    def __init__(self, name, calls, *, full=False):
        self.name, self.calls, self.full = name, calls, full

    def open(self, run):
        pass

    def note(self, sentence):
        pass

    def write(self, interval):
        self.calls.append(("write", self.name))
        if self.full:
            raise ArchiveError(f"{self.name} is full")

    def close(self, document):
        self.calls.append(("close", self.name))
        if self.full:
            raise ArchiveError(f"{self.name} cannot be finished")


def test_a_sink_that_cannot_write_gets_the_end_alone_and_in_its_turn():
    calls, failures = [], []
    feed = Feed([Noting("archive", calls, full=True), Noting("database", calls)], failures.append)
    for k in range(2):
        feed.add(Snapshot("0", k, [], [], HEALTH, [], []), None)
        feed.write(k, k, everything=False)
    assert feed.close(document(Summary(a_run()))) == "archive cannot be finished"
    assert failures == ["archive is full"]
    assert calls == [
        ("write", "archive"), ("write", "database"), ("write", "database"), ("close", "archive"), ("close", "database"),
    ]  # fmt: skip
