"""What is sent after a run: all that is missing, and where something is missing still it is said, and no success."""

import os
import shlex
import sys

import msgspec
import pytest
from lineprotocol import FakeBucket, differences
from virtual_run import S, a_run, play, traffic

from r1perf.cli import main
from r1perf.errors import DatabaseError
from r1perf.journal import SnapshotsJournal
from r1perf.sinks.archive import ArchiveSink, write_document
from r1perf.sinks.influxdb import replay as module
from r1perf.sinks.influxdb import spool as spools
from r1perf.sinks.influxdb.reading import Part, read
from r1perf.sinks.influxdb.runs import find
from r1perf.sinks.influxdb.settings import Access, Settings, Token
from r1perf.sinks.influxdb.sink import InfluxSink
from r1perf.sinks.influxdb.spool import read_state
from r1perf.snapshot import encode
from r1perf.summary import Interval, Summary, document
from r1perf.summary.merged import ALL

SNAPSHOTS = play(traffic(), seconds=50)
ENV = {"INFLUXDB_V2_URL": "http://h:8086", "INFLUXDB_V2_BUCKET": "b", "INFLUXDB_V2_TOKEN": "t"}
AWAY = DatabaseError("it is away")


class Db:
    """A server over a bucket in memory: `trouble` is raised at every write, `most` is the longest line that it takes."""

    def __init__(self):
        self.bucket, self.trouble, self.most = FakeBucket(), None, 1 << 30

    def write(self, lines):
        if self.trouble is not None:
            raise self.trouble
        if any(len(line) > self.most for line in lines.splitlines()):
            raise DatabaseError("HTTP 413", says="too large", status=413)
        self.bucket.write(lines)

    def close(self):
        pass


class Clock:
    """Time passes by sleeping alone."""

    def __init__(self):
        self._now_ns = 0

    def monotonic_ns(self):
        return self._now_ns

    def sleep(self, seconds):
        self._now_ns += int(seconds * 1e9)


@pytest.fixture
def db(monkeypatch):
    made = Db()
    monkeypatch.setattr(module, "Server", lambda settings: made)
    monkeypatch.setattr(module, "Bucket", lambda server, name: made.bucket)
    monkeypatch.setattr(module, "clock", Clock())
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    return made


def a_folder(folder, db, *, killed=False, kept=len(SNAPSHOTS)):
    """Make the folder of a run that wrote to a server; a killed one has no end. Return its document.

    Of its snapshots the disk had room for so many.
    """
    settings = Settings(
        url="http://h:8086", bucket="b", access=Access(Token("t")), deadline_ns=0 if db.trouble is not None else 20 * S
    )
    sinks = (ArchiveSink(folder), InfluxSink(settings, folder, lambda sentence: None, connect=lambda settings: db))
    run = a_run()
    summary = Summary(run)
    for sink in sinks:
        sink.open(run)
    with SnapshotsJournal(folder, "0") as journal:
        for snapshot in SNAPSHOTS:
            if snapshot.k < kept:
                journal.write(encode(snapshot))
            summary.merge(snapshot)
            for sink in sinks:
                sink.write(Interval.of(snapshot))
    built = document(summary)
    if killed:
        influx = sinks[1]._open
        influx.writer.finish(0 if db.trouble is not None else 60)
        os.close(influx.spool._folder)  # as a kill does: nothing is finished, the lock goes
        sinks[0]._log.close()
    else:
        for sink in sinks:
            sink.close(built)
    return built


def replay(capsys, monkeypatch, folder, *words):
    """Carry the command out; return its exit code and what it printed."""
    monkeypatch.setattr(sys, "argv", ["r1perf", "influx", "replay", *words, str(folder)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


@pytest.fixture
def replayed(capsys, monkeypatch, tmp_path):
    return lambda *words: replay(capsys, monkeypatch, tmp_path, *words)


def complete(db, built):
    return differences(read(db.bucket, find(db.bucket, built.run_id), Part()), built) == []


def test_what_waits_is_sent_once(tmp_path, db, replayed):
    db.trouble = AWAY
    built = a_folder(tmp_path, db)
    code, out, err = replayed()
    assert (code, out) == (2, "")
    assert f"of points could not be sent; once that is put right, `r1perf influx replay {tmp_path}` sends them" in err
    db.trouble = None
    assert replayed()[0] == 0
    assert complete(db, built)
    assert replayed() == (0, "nothing was left to send\n", "")


def refused(tmp_path, db):
    """Make a run some of whose points are refused; return its document and how many."""
    db.most = 2_000
    built = a_folder(tmp_path, db)
    return built, len([line for line in (tmp_path / "influxdb.rejected").read_bytes().splitlines() if line[:1] != b"#"])


def test_points_that_are_refused_again_stay_and_are_no_success(tmp_path, db, replayed):
    built, n = refused(tmp_path, db)
    assert n > 0
    for _ in range(2):
        code, out, err = replayed()
        assert (code, out) == (3, "")
        assert f"{n} points are refused; they are in {tmp_path}/influxdb.rejected" in err
    db.most = 1 << 30
    assert replayed() == (0, f"{n} points sent\n", "")
    assert complete(db, built)
    assert not (tmp_path / "influxdb.rejected").exists()


@pytest.mark.parametrize("trouble", [AWAY, None], ids=["server away", "server there"])
def test_refused_points_outlive_a_replay_on_a_full_disk(tmp_path, db, replayed, monkeypatch, trouble):
    built, n = refused(tmp_path, db)
    before = (tmp_path / "influxdb.rejected").read_bytes()
    with monkeypatch.context() as full:

        def write(fd, data):
            raise OSError(28, "No space left on device")

        full.setattr(spools.os, "write", write)
        db.trouble, db.most = trouble, 1 << 30
        code, out, err = replayed()
    assert (code, out) == (3, "")
    assert f"influxdb.spool cannot be written: No space left on device; {n} refused points stay in influxdb.rejected" in err
    assert (tmp_path / "influxdb.rejected").read_bytes() == before
    assert read_state(tmp_path).lost == 0
    db.trouble = None
    assert replayed() == (0, f"{n} points sent\n", "")
    assert complete(db, built)


@pytest.mark.parametrize("trouble", [None, AWAY], ids=["server there", "server away"])
def test_of_a_killed_run_something_is_missing_until_all_of_it_is_sent(tmp_path, db, replayed, trouble):
    db.trouble = trouble
    built = a_folder(tmp_path, db, killed=True)
    db.trouble = None
    for _ in range(2):
        code, out, err = replayed()
        assert code == 3
        assert "nothing was left" not in out
        assert err == (
            "r1perf: not all points of the run were kept: its process was killed, or its disk was full; "
            f"`r1perf influx replay --all {tmp_path}` sends the whole run, as far as its archive has it\n"
        )
    assert replayed("--all")[0] == 0
    found = read(db.bucket, find(db.bucket, built.run_id), Part())
    assert (found.status, found.counts, found.series) == ("interrupted", built.counts, built.series)
    assert replayed() == (0, "nothing was left to send\n", "")


def test_points_that_found_no_room_are_missing_until_all_of_the_run_is_sent(tmp_path, db, replayed, monkeypatch):
    db.trouble = AWAY
    with monkeypatch.context() as full:
        real, room = spools.Spool._write, [50_000]

        def write(spool, lines):
            room[0] -= len(lines)
            if room[0] < 0:
                raise OSError(28, "No space left on device")
            real(spool, lines)

        full.setattr(spools.Spool, "_write", write)
        built = a_folder(tmp_path, db)
    lost = read_state(tmp_path).lost
    assert lost > 0
    db.trouble = None
    code, out, err = replayed()
    assert code == 3
    assert out.endswith(" points sent\n")
    assert err.startswith(f"r1perf: {lost} points found no room on the disk; `r1perf influx replay --all ")
    assert not complete(db, built)
    assert replayed("--all")[0] == 0
    assert complete(db, built)
    assert replayed() == (0, "nothing was left to send\n", "")


@pytest.mark.parametrize("words", [["--all"], ["--url", "http://other:8086"]], ids=" ".join)
def test_an_archive_that_has_less_than_the_run_is_no_success_and_loses_nothing_that_ended(tmp_path, db, replayed, words):
    built = a_folder(tmp_path, db, kept=30)
    db.bucket = FakeBucket()
    kept = Summary(a_run())
    for snapshot in SNAPSHOTS[:30]:
        kept.merge(snapshot)
    there, of = kept.counter("scheduled", stage=ALL), built.counts["scheduled"]
    assert 0 < there < of
    assert kept.pending("0") > 0
    code, out, err = replayed(*words)
    assert code == 3
    assert out.endswith(" points sent\n")
    says = f"{there} of {of} requests"
    assert err == f"r1perf: the archive has {says} of the run: its disk was full, or workers on other machines keep the rest\n"
    got = read(db.bucket, find(db.bucket, built.run_id), Part())
    assert got.validity.reasons[0].startswith(f"InfluxDB has {says}: points are missing; ")
    assert (got.counts["scheduled"], got.counts["ok"], got.counts.get("lost", 0)) == (there, kept.outcomes()["ok"], 0)
    if words == ["--all"]:
        assert replayed()[0] == 3


def test_an_archive_replaces_no_points_that_have_more(tmp_path, db, replayed):
    """As those do that went through memory while the disk was full."""
    built = a_folder(tmp_path, db, kept=30)
    code, out, err = replayed("--all")
    assert (code, out) == (2, "")
    assert err.startswith(
        f"r1perf: bucket b has {built.counts['scheduled']} requests of run {built.run_id}, and its archive only "
    )
    assert complete(db, built)


def test_a_state_that_could_not_be_written_is_no_success_either(tmp_path, db, replayed, monkeypatch):
    """On a full disk `influxdb.json` keeps what it was at the run's beginning."""
    with monkeypatch.context() as full:
        full.setattr(spools.Spool, "_save", lambda spool: False)
        a_folder(tmp_path, db)
    (tmp_path / "influxdb.json").write_text('{"url":"http://h:8086","org":"-","bucket":"b"}')
    assert replayed()[0] == 3


def test_sending_all_of_a_run_again_changes_nothing(tmp_path, db, replayed):
    """Also of one whose points waited while they were written."""
    db.trouble = AWAY
    a_folder(tmp_path, db)
    db.trouble = None
    assert replayed()[0] == 0
    before = {key: dict(point.fields) for key, point in db.bucket.points_by_key.items()}
    assert any(fields.get("spool_bytes") for fields in before.values())
    assert replayed("--all")[0] == 0
    assert {key: point.fields for key, point in db.bucket.points_by_key.items()} == before


def test_the_command_that_helps_is_one_that_a_shell_takes(tmp_path, db, capsys, monkeypatch):
    folder = tmp_path / "my runs"
    folder.mkdir()
    a_folder(folder, db, killed=True)
    _, _, err = replay(capsys, monkeypatch, folder)
    command = err.split("`")[1]
    assert shlex.split(command) == ["r1perf", "influx", "replay", "--all", str(folder)]


def test_a_token_that_may_not_read_is_told_what_reading_is_for(tmp_path, db, replayed, monkeypatch):
    """InfluxDB 2 says of a bucket that a token may not read that it could not find it."""
    a_folder(tmp_path, db)

    def points(*asked):
        raise DatabaseError('HTTP 404: could not find bucket "b"', status=404)

    monkeypatch.setattr(db.bucket, "points", points)
    assert replayed()[0] == 0
    code, out, err = replayed("--all")
    assert (code, out) == (2, "")
    assert err == (
        "r1perf: before a whole run is sent the bucket must be read, for late data would count twice, and it cannot be "
        '(may the token read?): HTTP 404: could not find bucket "b"\n'
    )


@pytest.mark.parametrize("words", [[], ["--all"], ["--bucket", "other"], ["--url", "http://other:8086"]], ids=" ".join)
@pytest.mark.parametrize("sink", [True, False], ids=["with a sink", "without"])
def test_a_run_that_goes_on_is_not_sent_for_its_end_would_be_false(tmp_path, db, replayed, words, sink):
    run, archive = a_run(), ArchiveSink(tmp_path)
    archive.open(run)
    with SnapshotsJournal(tmp_path, "0") as journal:
        for snapshot in SNAPSHOTS[:20]:
            journal.write(encode(snapshot))
    if sink:
        (tmp_path / "influxdb.json").write_text('{"url":"http://h:8086","org":"-","bucket":"b"}')
    says = f"r1perf: the points of {tmp_path} are being written by another process: the run goes on\n"
    assert replayed(*words) == (2, "", says)
    assert db.bucket.points_by_key == {}
    summary = Summary(run)
    for snapshot in SNAPSHOTS[:20]:
        summary.merge(snapshot)
    archive.close(document(summary))
    assert replayed("--bucket", "other")[0] == 0
    assert find(db.bucket, run.run_id).fields["status"] == "finished"


def test_an_archive_that_has_more_than_the_run_counted_is_not_short_of_anything(tmp_path, db, replayed):
    built = a_folder(tmp_path, db)
    write_document(tmp_path, msgspec.structs.replace(built, counts=built.counts | {"scheduled": built.counts["scheduled"] - 1}))
    code, out, err = replayed("--bucket", "other")
    assert (code, err) == (0, "")
    assert out.endswith(" points sent\n")


def test_elsewhere_nothing_is_said_to_be_kept(tmp_path, db, replayed):
    a_folder(tmp_path, db)
    db.trouble = AWAY
    code, out, err = replayed("--bucket", "other")
    assert (code, out) == (2, "")
    assert err.endswith("once that is put right, the same command sends them\n")
    db.trouble, db.most = None, 2_000
    code, out, err = replayed("--bucket", "other")
    assert code == 3
    assert err.splitlines()[-1].endswith(" points are refused")
    assert not (tmp_path / "influxdb.rejected").exists()
