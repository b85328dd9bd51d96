"""The spool keeps what the server has not: through kills, full disks and limits; delivery gets it there, whatever the server says."""

import errno
import fcntl
import os
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.errors import ArchiveError, DatabaseError
from r1perf.sinks.influxdb import spool as module
from r1perf.sinks.influxdb.delivery import FIRST_NS, HURRIED_NS, LONGEST_NS, PAUSE_NS, RETRY_AFTER_NS, Delivery
from r1perf.sinks.influxdb.spool import BATCH, Batch, Spool, State, read_state

STATE = State(url="http://h:8086", org="o", bucket="b")


@pytest.fixture
def make(tmp_path):
    made = []

    def one(state=STATE, limit=1 << 30):
        made.append(Spool(tmp_path, state, limit))
        return made[-1]

    yield one
    for each in made:
        if each not in closed:
            each.close()
    closed.clear()


closed = []


def close(spool):
    closed.append(spool)
    return spool.close()


def drained(spool):
    """Deliver everything; return the bytes."""
    got = b""
    while (batch := spool.read()) is not None:
        got += batch.lines
        spool.done(batch)
    return got


# --- The spool ---


def test_what_is_appended_is_read_once_in_order(make):
    spool = make()
    spool.append(b"a 1\nb 2\n")
    spool.append(b"")
    spool.append(b"c 3\n")
    assert spool.waiting == 12
    assert drained(spool) == b"a 1\nb 2\nc 3\n"
    assert (spool.waiting, spool.read()) == (0, None)


def test_a_batch_that_is_not_done_is_read_again(make):
    spool = make()
    spool.append(b"a 1\n")
    assert spool.read() == spool.read() == Batch(b"a 1\n", 4)


def test_a_large_spool_is_read_in_batches_of_whole_lines(make):
    spool = make()
    line = b"x" * 999 + b"\n"
    long = b"y" * (2 * BATCH) + b"\n"
    spool.append(line * 1000 + long + line)
    sizes = []
    while (batch := spool.read()) is not None:
        assert batch.lines.endswith(b"\n")
        sizes.append(len(batch.lines))
        spool.done(batch)
    assert sum(sizes) == 1001 * 1000 + len(long)
    assert max(sizes) == len(long)
    assert len(sizes) == 5


def test_a_delivered_spool_is_removed_and_another_one_stays(make, tmp_path):
    spool = make()
    spool.append(b"a 1\n")
    drained(spool)
    assert close(spool) is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["influxdb.json"]
    spool = make()
    spool.append(b"b 2\n")
    assert close(spool) is False
    assert sorted(path.name for path in tmp_path.iterdir()) == ["influxdb.json", "influxdb.spool"]


def test_another_process_goes_on_where_this_one_was_killed(make, tmp_path):
    spool = make()
    spool.append(b"a 1\nb 2\n")
    spool.done(Batch(b"a 1\n", 4))
    spool.append(b"c 3\n")
    fcntl.flock(spool._folder, fcntl.LOCK_UN)  # what a kill does: the lock goes, nothing else happens
    again = make(read_state(tmp_path))
    assert drained(again) == b"b 2\nc 3\n"


@pytest.mark.parametrize(
    ("left", "whole"),
    [
        pytest.param(b"a 1\nb 2", b"a 1\n", id="cut line"),
        pytest.param(b"a 1", b"", id="only a cut line"),
        pytest.param(b"a 1\n" + b"x" * 200_000, b"a 1\n", id="long cut line"),
        pytest.param(b"", b"", id="empty"),
    ],
)
def test_a_line_that_was_not_written_whole_is_cut_off(make, tmp_path, left, whole):
    (tmp_path / "influxdb.spool").write_bytes(left)
    spool = make()
    spool.append(b"z 9\n")
    assert drained(spool) == whole + b"z 9\n"


def test_an_offset_beyond_the_file_begins_anew(make, tmp_path):
    (tmp_path / "influxdb.spool").write_bytes(b"a 1\n")
    assert drained(make(msgspec.structs.replace(STATE, offset=500))) == b"a 1\n"


def test_two_processes_cannot_have_one_spool(make, tmp_path):
    make()
    with pytest.raises(ArchiveError, match="are being written by another process"):
        Spool(tmp_path, STATE, 100)


def full(monkeypatch, room):
    """Leave room for so many bytes on the disk."""
    real, left = os.write, [room]

    def write(fd, data):
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        n = min(len(data), left[0])
        left[0] -= n
        return real(fd, data[:n])

    monkeypatch.setattr(module.os, "write", write)


def test_on_a_full_disk_points_wait_in_memory_and_the_file_ends_whole(make, tmp_path, monkeypatch):
    spool = make()
    full(monkeypatch, 6)
    spool.append(b"a 1\n")
    spool.append(b"b 2\n")
    spool.append(b"c 3\n")
    assert (
        spool.problem
        == f"{tmp_path}/influxdb.spool cannot be written: No space left on device; points for InfluxDB wait in memory, as far as they find room there"
    )
    assert (tmp_path / "influxdb.spool").read_bytes() == b"a 1\n"
    assert spool.waiting == 12
    assert drained(spool) == b"a 1\nb 2\nc 3\n"
    assert spool.lost == 0


def test_points_go_to_the_disk_again_when_there_is_room(make, tmp_path, monkeypatch):
    spool = make()
    full(monkeypatch, 0)
    spool.append(b"a 1\n")
    monkeypatch.undo()
    spool.append(b"b 2\n")
    assert spool.problem is None
    assert (tmp_path / "influxdb.spool").read_bytes() == b"a 1\nb 2\n"


def test_a_batch_from_memory_that_reached_the_disk_meanwhile_is_sent_again_and_nothing_is_lost(make, monkeypatch):
    spool = make()
    full(monkeypatch, 0)
    spool.append(b"a 1\n")
    batch = spool.read()
    monkeypatch.undo()
    spool.append(b"b 2\n")
    spool.done(batch)
    assert drained(spool) == b"a 1\nb 2\n"


def test_what_finds_no_room_at_all_is_counted(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MEMORY", 8)
    spool = make()
    full(monkeypatch, 0)
    for n in range(4):
        spool.append(b"a %d\n" % n)
    assert (spool.lost, spool.waiting) == (2, 8)
    close(spool)
    assert spool.lost == 4  # what waited in memory ends with the process


def test_the_limit_of_the_spool_is_kept_and_counted(make, tmp_path):
    spool = make(limit=8)
    for line in (b"a 1\n", b"b 2\n", b"c 3\nd 4\n"):
        spool.append(line)
    assert (spool.lost, spool.problem) == (2, "the spool has reached its limit of 0 MB; what does not fit is lost to InfluxDB")
    drained(spool)
    spool.append(b"e 5\n")  # there is room again
    assert drained(spool) == b"e 5\n"
    close(spool)
    assert read_state(tmp_path).lost == 2


def test_a_large_spool_is_emptied_when_all_is_delivered(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RECLAIM", 6)
    spool = make()
    spool.append(b"a 1\n")
    drained(spool)
    assert (tmp_path / "influxdb.spool").stat().st_size == 4
    spool.append(b"b 2\n")
    drained(spool)
    assert (tmp_path / "influxdb.spool").stat().st_size == 0
    assert read_state(tmp_path).offset == 0
    spool.append(b"c 3\n")
    assert drained(spool) == b"c 3\n"


def test_refused_lines_are_kept_with_the_reason_and_can_come_back(make, tmp_path):
    spool = make()
    spool.reject(b"a 1\n", "HTTP 400: no")
    spool.reject(b"b 2\n", "HTTP 413: large")
    assert (tmp_path / "influxdb.rejected").read_text() == "# HTTP 400: no\na 1\n# HTTP 413: large\nb 2\n"
    assert spool.readmit() == 2
    assert not (tmp_path / "influxdb.rejected").exists()
    assert drained(spool) == b"a 1\nb 2\n"
    assert spool.readmit() == 0


def test_a_damaged_state_is_one_sentence(tmp_path):
    assert read_state(tmp_path) is None
    (tmp_path / "influxdb.json").write_text("{")
    with pytest.raises(ArchiveError, match=r"influxdb\.json cannot be read"):
        read_state(tmp_path)


# --- Delivery ---


def refused(status, says="no", retry_after_s=None):
    return DatabaseError(f"InfluxDB answered HTTP {status}: {says}", says=says, status=status, retry_after_s=retry_after_s)


AWAY = DatabaseError("InfluxDB cannot be reached: refused")


class Db:
    """A server that answers as told, then well; `bad` lines are refused, `most` is the largest body it takes."""

    def __init__(self, *answers, bad=(), most=1 << 30):
        self.answers, self.bad, self.most = list(answers), set(bad), most
        self.got, self.posts = [], 0

    def post(self, lines):
        self.posts += 1
        answer = self.answers.pop(0) if self.answers else None
        if answer is not None:
            raise answer
        if len(lines) > self.most:
            raise refused(413, "too large")
        taken = [line for line in lines.splitlines(keepends=True) if line not in self.bad]
        self.got += taken
        if len(taken) < lines.count(b"\n"):
            raise refused(400, "partial write")  # as InfluxDB 1 does: the rest is stored


def delivery(spool, db):
    said = []
    return Delivery(spool, db.post, said.append, Random(1)), said


def test_points_are_sent_and_done(make):
    spool, db = make(), Db()
    sending, said = delivery(spool, db)
    assert sending.step() is None
    spool.append(b"a 1\nb 2\n")
    assert [sending.step(), sending.step()] == [0, None]
    assert (db.got, spool.waiting, sending.points, said) == ([b"a 1\n", b"b 2\n"], 0, 2, [])


def test_pauses_double_up_to_half_a_minute_and_begin_anew(make):
    spool, db = make(), Db(*[AWAY] * 12, None, AWAY)
    spool.append(b"a 1\n")
    sending, said = delivery(spool, db)
    for n in range(12):
        longest = min(FIRST_NS << n, LONGEST_NS)
        assert longest // 2 <= sending.step() <= longest
    assert sending.step() == 0
    assert said == [
        "InfluxDB cannot be reached: refused; points are kept, and it is tried again",
        "InfluxDB takes points again after: InfluxDB cannot be reached: refused",
    ]
    spool.append(b"b 2\n")
    assert sending.step() <= FIRST_NS


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_in_trouble_is_asked_again_and_its_retry_after_is_kept(make, status):
    spool, db = make(), Db(refused(status, retry_after_s=20), refused(status, retry_after_s=float("inf")))
    spool.append(b"a 1\n")
    sending, _ = delivery(spool, db)
    assert sending.step() == 20_000_000_000
    assert sending.step() == RETRY_AFTER_NS
    assert (sending.step(), db.got) == (0, [b"a 1\n"])


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_server_that_does_not_let_us_in_is_left_alone_and_said_so_once(make, status):
    spool, db = make(), Db(refused(status, "unauthorized"), refused(status))
    spool.append(b"a 1\n")
    sending, said = delivery(spool, db)
    assert [sending.step(), sending.shut_out, sending.step()] == [PAUSE_NS, True, PAUSE_NS]
    assert len(said) == 1
    assert f"HTTP {status}: unauthorized" in said[0]
    assert "no more is sent until that is put right" in said[0]
    assert spool.waiting == 4
    assert (sending.step(), sending.shut_out, db.got) == (0, False, [b"a 1\n"])


def test_the_end_makes_pauses_short_and_does_not_wait_as_long_as_it_is_told(make):
    spool, db = make(), Db(*[AWAY] * 8, refused(503, retry_after_s=100))
    spool.append(b"a 1\n")
    sending, _ = delivery(spool, db)
    for _ in range(3):
        sending.step()
    sending.hurry()
    assert sending.step() <= FIRST_NS
    assert all(sending.step() <= HURRIED_NS for _ in range(5))


@pytest.mark.parametrize("status", [400, 413, 422])
def test_one_line_that_is_always_refused_is_put_aside(make, status):
    spool, db = make(), Db(refused(status, "bad"))
    spool.append(b"a 1\n")
    sending, said = delivery(spool, db)
    assert [sending.step(), sending.step()] == [0, None]
    assert spool.rejected_path.read_text() == f"# HTTP {status}: bad\na 1\n"
    assert (spool.rejected, len(said), db.got) == (1, 1, [])


@given(
    lines=st.integers(1, 40),
    bad=st.sets(st.integers(0, 39)),
    troubles=st.lists(st.sampled_from([None, AWAY, refused(503)]), max_size=20),
)
def test_exactly_the_bad_lines_are_put_aside_whatever_else_happens(tmp_path_factory, lines, bad, troubles):
    every = [b"m f=%di\n" % n for n in range(lines)]
    wrong = [line for n, line in enumerate(every) if n in bad]
    spool = Spool(tmp_path_factory.mktemp("spool"), STATE, 1 << 20)
    db = Db(*troubles, bad=wrong)
    sending, _ = delivery(spool, db)
    spool.append(b"".join(every))
    while sending.step() is not None:
        pass
    kept = spool.rejected_path.read_bytes() if wrong else b""
    assert [line for line in kept.splitlines(keepends=True) if not line.startswith(b"#")] == wrong
    assert set(db.got) == set(every) - set(wrong)
    assert spool.close() is True


def test_a_body_that_is_too_large_is_halved_until_it_goes_through(make):
    spool, db = make(), Db(most=50)
    spool.append(b"m f=1i\n" * 100)
    sending, _ = delivery(spool, db)
    while sending.step() is not None:
        pass
    assert (len(db.got), spool.rejected, spool.waiting) == (100, 0, 0)


def test_a_crash_while_a_spool_is_emptied_can_only_send_points_again(make, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "RECLAIM", 6)
    seen, real = [], os.ftruncate
    monkeypatch.setattr(module.os, "ftruncate", lambda fd, size: (seen.append(read_state(tmp_path).offset), real(fd, size)))
    spool = make()
    for line in (b"a 1\n", b"b 2\n"):
        spool.append(line)
        drained(spool)
    assert seen == [0], "the offset goes first: the other way round what comes next would be skipped"
