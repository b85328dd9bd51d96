"""The sink hands over and goes on: nobody waits for the server, and what goes wrong is told once, in the collector's thread."""

import threading

import pytest
from lineprotocol import FakeBucket, differences
from virtual_run import S, a_run, play, traffic

from r1perf.errors import DatabaseError
from r1perf.sinks.influxdb import delivery
from r1perf.sinks.influxdb import sink as sinks
from r1perf.sinks.influxdb.reading import Part, read
from r1perf.sinks.influxdb.runs import find
from r1perf.sinks.influxdb.settings import Access, Settings, Token
from r1perf.sinks.influxdb.sink import InfluxSink
from r1perf.sinks.influxdb.spool import Spool, State
from r1perf.summary import Interval, Summary, document


class Fake:
    """A server over a bucket in memory: `answers` come first; `gate`, where there is one, holds every write until it opens."""

    def __init__(self, *answers, gate=None):
        self.bucket, self.answers, self.gate = FakeBucket(), list(answers), gate
        self.threads, self.entered = set(), threading.Event()

    def write(self, lines):
        self.threads.add(threading.current_thread().name)
        self.entered.set()
        if self.gate is not None:
            self.gate.wait()
        if self.answers:
            raise self.answers.pop(0)
        self.bucket.write(lines)


def a_sink(folder, server, deadline_ns=20 * S, **more):
    told = []
    made = Settings(url="http://h:8086", bucket="b", access=Access(Token("t")), deadline_ns=deadline_ns)
    return InfluxSink(made, folder, told.append, connect=lambda settings: server, **more), told


def carried_out(sink, snapshots):
    """Give a whole run to a sink; return its document."""
    summary = Summary(a_run())
    sink.note("before it began")
    sink.open(summary.run)
    for snapshot in snapshots:
        summary.merge(snapshot)
        sink.write(Interval.of(snapshot))
    sink.note("near the end")
    built = document(summary)
    sink.close(built)
    return built


def test_a_run_is_written_by_a_thread_of_its_own_and_comes_back(tmp_path):
    server = Fake()
    sink, told = a_sink(tmp_path, server)
    built = carried_out(sink, play(traffic(), seconds=50))
    assert differences(read(server.bucket, find(server.bucket, built.run_id), Part()), built) == []
    assert server.threads == {"influxdb"}
    assert told == []
    assert [path.name for path in tmp_path.iterdir()] == ["influxdb.json"]
    texts = [row.fields["text"] for row in server.bucket.points("events") if row.tags["kind"] == "note"]
    assert texts == ["before it began", "near the end"]


def test_a_server_that_never_answers_holds_nobody_and_its_points_stay(tmp_path):
    gate = threading.Event()
    server = Fake(gate=gate)
    sink, told = a_sink(tmp_path, server, deadline_ns=0)
    try:
        carried_out(sink, play(traffic(), seconds=50))
        assert (tmp_path / "influxdb.spool").stat().st_size > 0
        (sentence,) = told
        assert sentence.endswith(
            f"kB of points are not in InfluxDB yet; once that is put right, `r1perf influx replay {tmp_path}` sends them"
        )
    finally:
        gate.set()


@pytest.mark.parametrize(
    ("before", "later", "says"),
    [
        pytest.param(2, 2, None, id="two before"),
        pytest.param(1, 2, "waiting up to 3600 s for InfluxDB; once more to stop at once", id="the second one meanwhile"),
        pytest.param(0, 1, "waiting up to 3600 s for InfluxDB; Ctrl-C to stop at once", id="the first one meanwhile"),
    ],
)
def test_who_has_interrupted_enough_is_not_held_by_the_server(tmp_path, monkeypatch, before, later, says):
    monkeypatch.setattr(sinks, "TOLD_S", 0.0)
    gate, asked = threading.Event(), []

    def interrupts():
        asked.append(1)
        assert len(asked) < 6, "the waiting goes on"
        return before if len(asked) < 4 else later

    sink, told = a_sink(tmp_path, Fake(gate=gate), deadline_ns=3600 * S, interrupts=interrupts)
    try:
        carried_out(sink, play(traffic()[:5], seconds=12))
    finally:
        gate.set()
    assert told[:-1] == ([says] if says else [])
    assert "are not in InfluxDB yet" in told[-1]


def test_a_server_that_is_away_for_a_while_gets_everything(tmp_path):
    server = Fake(DatabaseError("it is away"), DatabaseError("HTTP 503", status=503))
    sink, told = a_sink(tmp_path, server)
    built = carried_out(sink, play(traffic(), seconds=50))
    assert differences(read(server.bucket, find(server.bucket, built.run_id), Part()), built) == []
    assert told[0] == "it is away; points are kept, and it is tried again"
    assert told[1].startswith("InfluxDB takes points again after: ")
    assert len(told) == 2


def test_a_server_that_does_not_let_us_in_is_not_waited_for_at_the_end(tmp_path):
    server = Fake(*[DatabaseError("HTTP 401", status=401)] * 100)
    sink, told = a_sink(tmp_path, server, deadline_ns=3600 * S)
    carried_out(sink, play(traffic()[:5], seconds=12))
    assert len(told) == 2
    assert "HTTP 401; points are kept, and no more is sent" in told[0]
    assert "are not in InfluxDB yet" in told[1]


def test_refused_points_are_told_at_the_end(tmp_path):
    server = Fake(*[DatabaseError("HTTP 400: no", says="no", status=400)] * 1000)
    sink, told = a_sink(tmp_path, server)
    carried_out(sink, play(traffic()[:5], seconds=12))
    assert told[0] == "HTTP 400: no; the points that it refuses are put aside"
    assert told[1].split(" points were refused")[0].isdecimal()
    assert not (tmp_path / "influxdb.spool").exists()


def test_what_the_writing_thread_did_not_foresee_is_told_and_the_run_goes_on(tmp_path):
    server = Fake(OSError("odd"))
    sink, told = a_sink(tmp_path, server)
    carried_out(sink, play(traffic()[:5], seconds=12))
    assert told[0] == "no more points are written to InfluxDB: odd"
    assert (tmp_path / "influxdb.spool").exists()


def test_an_error_that_nobody_foresaw_is_told_without_its_words(tmp_path):
    server = Fake(ValueError("Invalid header value b'Token s3cret'"))
    sink, told = a_sink(tmp_path, server)
    carried_out(sink, play(traffic()[:5], seconds=12))
    assert told[0] == "no more points are written to InfluxDB: an unforeseen ValueError"
    assert "s3cret" not in " ".join(told)


def test_a_spool_that_another_process_has_is_told_and_the_run_goes_on(tmp_path):
    other = Spool(tmp_path, State(url="u", org="o", bucket="b"), 100)
    sink, told = a_sink(tmp_path, Fake())
    carried_out(sink, play(traffic()[:5], seconds=12))
    assert told == [f"nothing is written to InfluxDB: the points of {tmp_path} are being written by another process"]
    other.close()


def test_the_client_is_not_imported_before_it_is_needed():
    """Where gevent patches the process, the client must come after it: imported before, it blocks for ever."""
    import subprocess
    import sys

    program = "import r1perf.launch.run, sys; sys.exit('influxdb_client' in sys.modules or 'urllib3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize("times", [1, 2])
def test_closing_without_a_beginning_is_nothing(tmp_path, times):
    sink, told = a_sink(tmp_path, Fake())
    for _ in range(times):
        sink.close(document(Summary(a_run())))
    assert told == []


def test_at_the_runs_end_pauses_become_short(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "FIRST_NS", 1_000_000)
    monkeypatch.setattr(delivery, "HURRIED_NS", 2_000_000)
    server = Fake(*[DatabaseError("it is away")] * 40)
    sink, told = a_sink(tmp_path, server, deadline_ns=10 * S)
    built = carried_out(sink, play(traffic()[:5], seconds=12))
    assert differences(read(server.bucket, find(server.bucket, built.run_id), Part()), built) == []
    assert len(told) == 2
