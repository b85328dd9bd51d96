import errno
import os

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_run import S, a_run, play, traffic

from r1perf.errors import ArchiveError
from r1perf.journal import Appender, RequestsJournal, SnapshotsJournal, read_requests, read_snapshots, requests_path
from r1perf.recorder import Recorder
from r1perf.result import Outcome, Result
from r1perf.sinks.archive import write_document
from r1perf.snapshot import encode
from r1perf.summary import ALL, Summary, document, load, recover, validity


def write(folder, answers=None, worker="0"):
    """Write a worker's files; return its snapshots and results."""
    results, snapshots = [], []
    with RequestsJournal(folder, worker) as requests, SnapshotsJournal(folder, worker) as taken:

        def flip(snapshot, recorder):
            taken.write(encode(snapshot))
            requests.flush()
            taken.flush()

        def result(ended):
            results.append(ended)
            requests.write(ended)

        snapshots = play(traffic() if answers is None else answers, seconds=50, worker=worker, on_result=result, on_flip=flip)
    return snapshots, results


def test_what_was_written_is_read(tmp_path):
    snapshots, results = write(tmp_path)
    assert list(read_snapshots(tmp_path / "snapshots.0")) == snapshots
    assert list(read_requests(tmp_path / "requests.0.jsonl")) == results


def test_a_result_is_one_line_of_json_without_what_is_not_known(tmp_path):
    with RequestsJournal(tmp_path, "0") as journal:
        journal.write(
            Result(
                id="7.0", arrival=7, turn=0, workload="chat", stage=1, item=7, outcome=Outcome.TIMEOUT, reason="first_chunk",
                scheduled_ns=1, sent_ns=2, done_ns=9, chunks=3, chunks_by_stage={1: 2, 2: 1},
            )
        )  # fmt: skip
    assert requests_path(tmp_path, "0").read_text() == (
        '{"id":"7.0","arrival":7,"turn":0,"workload":"chat","stage":1,"item":7,"outcome":"timeout","reason":"first_chunk",'
        '"scheduled_ns":1,"sent_ns":2,"done_ns":9,"chunks":3,"chunks_by_stage":{"1":2,"2":1}}\n'
    )


def test_nothing_is_in_the_file_before_a_flush_and_all_of_it_after(tmp_path):
    journal = Appender(tmp_path / "file")
    journal.append(b"one")
    assert (tmp_path / "file").read_bytes() == b""
    journal.flush()
    journal.append(b"two")
    assert (tmp_path / "file").read_bytes() == b"one"
    journal.close()
    journal.close()
    assert (tmp_path / "file").read_bytes() == b"onetwo"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    return folder, *write(folder)


@given(st.data())
def test_a_file_that_was_cut_anywhere_gives_every_whole_record(whole, tmp_path_factory, data):
    folder, snapshots, results = whole
    for name, read, records in (("snapshots.0", read_snapshots, snapshots), ("requests.0.jsonl", read_requests, results)):
        all_bytes = (folder / name).read_bytes()
        cut = data.draw(st.integers(0, len(all_bytes)))
        path = tmp_path_factory.mktemp("cut") / name
        path.write_bytes(all_bytes[:cut])
        told = []
        got = list(read(path, told.append))
        assert got == records[: len(got)]
        held = sum(map(size_of, got))
        assert held <= cut
        assert cut - held < (size_of(records[len(got)]) if len(got) < len(records) else 1)
        assert bool(told) == (held != cut)


def size_of(record):
    return len(msgspec.json.encode(record)) + 1 if isinstance(record, Result) else len(encode(record)) + 4


@pytest.mark.parametrize(
    "tail", [b"\x00\x00\x00\x00\x00", b"\xff\xff\xff\xff" + b"x" * 90, b"\x00\x00\x00\x03abc"], ids=["zeros", "huge", "garbage"]
)
def test_damage_behind_the_last_snapshot_is_told(whole, tmp_path, tail):
    folder, snapshots, _ = whole
    path = tmp_path / "snapshots.0"
    path.write_bytes((folder / "snapshots.0").read_bytes() + tail)
    told = []
    assert list(read_snapshots(path, told.append)) == snapshots
    assert len(told) == 1
    assert told[0].startswith("snapshots.0: what follows byte ")


def test_a_damaged_line_costs_itself_alone(whole, tmp_path):
    folder, _, results = whole
    lines = (folder / "requests.0.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = b'{"id":"oops"}\n'
    (tmp_path / "requests.0.jsonl").write_bytes(b"".join(lines))
    told = []
    assert list(read_requests(tmp_path / "requests.0.jsonl", told.append)) == results[:3] + results[4:]
    assert told[0].startswith("requests.0.jsonl: line 4 was left out: ")


def test_a_full_disk_is_one_sentence_and_leaves_whole_records(tmp_path, monkeypatch):
    journal = Appender(tmp_path / "file")
    journal.append(b"first\n")
    journal.flush()
    real = os.write
    room = [4]

    def full(fd, data):
        if not room[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = min(len(data), room[0])
        room[0] -= taken
        return real(fd, data[:taken])

    journal.append(b"second\n")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(ArchiveError, match=r"file cannot be written: No space left on device$"):
            journal.flush()
    assert (tmp_path / "file").read_bytes() == b"first\n"
    journal.close()  # there is room again
    assert (tmp_path / "file").read_bytes() == b"first\nsecond\n"


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(ArchiveError, match=r"snapshots\.0 cannot be opened: No such file or directory"):
        SnapshotsJournal(tmp_path / "none", "0")
    with pytest.raises(ArchiveError, match="cannot be read: No such file"):
        list(read_requests(tmp_path / "requests.0.jsonl"))


def test_what_stands_in_a_file_twice_is_read_once_and_told(tmp_path):
    snapshots, results = write(tmp_path)
    for name in ("requests.0.jsonl", "snapshots.0"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes() * 2)
    told = []
    assert list(read_requests(tmp_path / "requests.0.jsonl", told.append)) == results
    assert list(read_snapshots(tmp_path / "snapshots.0", told.append)) == snapshots
    n, size = len(results), (tmp_path / "snapshots.0").stat().st_size // 2
    assert told == [
        f"requests.0.jsonl: line {n + 1} was left out: request {results[0].id} has a line already; and {n - 1} more for such a reason",
        f"snapshots.0: record at byte {size} was left out: interval 0 has one already; and {len(snapshots) - 1} more for such a reason",
    ]


# --- Recovery ---


def archive(folder, status="running", workers=("0",)):
    write_document(folder, document(Summary(a_run(workers=workers)), status))


def test_a_recovered_summary_equals_the_live_one(tmp_path):
    archive(tmp_path, workers=("0", "1"))
    live = Summary(a_run(workers=("0", "1")))
    for worker in ("0", "1"):
        for snapshot in write(tmp_path, worker=worker)[0]:
            live.merge(snapshot)
    recovered = recover(tmp_path)
    assert document(recovered) == document(live)


def test_workers_files_may_lie_in_several_folders(tmp_path):
    parts = [tmp_path / name for name in ("main", "fetched")]
    for folder in parts:
        folder.mkdir()
    archive(parts[0], workers=("0", "1"))
    for folder, worker in zip(parts, ("0", "1"), strict=True):
        write(folder, worker=worker)
    assert sum(recover(*reversed(parts)).outcomes().values()) == 2 * len(traffic())


def cut_snapshots(folder, keep):
    """Let the worker die with `keep` snapshots on disk."""
    path = folder / "snapshots.0"
    kept = list(read_snapshots(path))[:keep]
    path.unlink()
    with SnapshotsJournal(folder, "0") as journal:
        for snapshot in kept:
            journal.write(encode(snapshot))


def test_requests_that_ended_after_the_last_snapshot_are_recovered_and_the_rest_is_lost(tmp_path):
    archive(tmp_path)
    _, results = write(tmp_path)
    cut_snapshots(tmp_path, keep=23)
    died_ns = 1_000 * S + 23 * S
    lines = (tmp_path / "requests.0.jsonl").read_bytes().splitlines(keepends=True)
    upto = next(n for n, result in enumerate(results) if result.done_ns >= died_ns + S * 9 // 10)
    (tmp_path / "requests.0.jsonl").write_bytes(b"".join(lines[:upto]))
    summary = recover(tmp_path)
    ended = results[:upto]
    assert [result.scheduled_ns >= died_ns for result in ended if result.done_ns >= died_ns].count(False) == 7
    for outcome in (Outcome.OK, Outcome.OVERLOADED, Outcome.TIMEOUT):
        assert summary.outcomes().get(outcome, 0) == sum(result.outcome is outcome for result in ended)
    well = [result for result in ended if result.outcome in (Outcome.OK, Outcome.TRUNCATED)]
    assert summary.counts("e2e", stage=ALL).total == sum((result.last_ns - result.scheduled_ns) // 1000 for result in well)
    assert summary.counter("window_output_tokens", stage=ALL) == sum(result.usage.output_tokens for result in well)
    flying = {result.id for result in results[upto:] if result.scheduled_ns < died_ns}
    assert summary.outcomes()[Outcome.LOST] == len(flying) > 0
    # Each first chunk once: seen live by the last snapshot, or told by a line behind it.
    began = [r for r in results if r.first_ns and (r.first_ns < died_ns or (r.id in {e.id for e in ended}))]
    assert summary.counts("ttft", stage=ALL).count == len(began)
    assert validity(summary).reasons == ["worker 0 was lost", f"{len(flying)} requests in flight on a lost worker had no end"]


@pytest.mark.parametrize("keep", [45, 23, 10])
def test_conversations_behind_the_last_snapshot_are_counted(tmp_path, keep):
    """All of these have one turn, as the snapshots tell: each request that ended well ended one."""
    archive(tmp_path)
    live = Summary(a_run())
    for snapshot in write(tmp_path, [one for one in traffic() if one.outcome is not Outcome.TRUNCATED])[0]:
        live.merge(snapshot)
    cut_snapshots(tmp_path, keep=keep)
    summary = recover(tmp_path)
    for name in ("conversations", "conversations_done"):
        assert summary.counter(name, stage=ALL) == live.counter(name, stage=ALL) > 0


def test_of_several_turns_nobody_knows_which_was_the_last(tmp_path):
    archive(tmp_path)
    _, results = write(tmp_path)
    (tmp_path / "requests.0.jsonl").unlink()
    with RequestsJournal(tmp_path, "0") as requests:
        for result in results:
            requests.write(msgspec.structs.replace(result, turn=result.arrival % 2))
    cut_snapshots(tmp_path, keep=23)
    known, summary = Summary(a_run()), recover(tmp_path)
    for snapshot in read_snapshots(tmp_path / "snapshots.0"):
        known.merge(snapshot)
    begun = [r for r in results if r.scheduled_ns >= 1_023 * S and not r.arrival % 2]
    assert summary.counter("conversations", stage=ALL) == known.counter("conversations", stage=ALL) + len(begun)
    assert summary.counter("conversations_done", stage=ALL) == known.counter("conversations_done", stage=ALL)


def test_a_worker_that_died_before_its_first_snapshot(tmp_path):
    archive(tmp_path)
    _, results = write(tmp_path)
    (tmp_path / "snapshots.0").unlink()
    summary = recover(tmp_path)
    assert sum(summary.outcomes().values()) == len(results)
    assert summary.counts("e2e", stage=ALL).count == sum(r.outcome in (Outcome.OK, Outcome.TRUNCATED) for r in results)


def test_a_run_that_never_ended_is_loaded_from_its_workers_files(tmp_path):
    archive(tmp_path)
    write(tmp_path)
    loaded = load(tmp_path)
    assert (loaded.status, loaded.early, loaded.counts["scheduled"]) == ("interrupted", True, len(traffic()))
    assert loaded.reason == "the run did not come to its end; rebuilt from what its workers had written"
    assert loaded.validity.reasons == []
    archive(tmp_path, status="finished")
    assert load(tmp_path).counts["scheduled"] == 0  # a finished run is what its run.json says


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (None, "is not a run archive: run.json cannot be read"),
        ("{", "run.json cannot be read: Input data was truncated"),
        ("{}", "run.json cannot be read: Object missing required field"),
    ],
    ids=["none", "cut", "other"],
)
def test_what_is_not_an_archive_is_one_sentence(tmp_path, text, sentence):
    if text is not None:
        (tmp_path / "run.json").write_text(text)
    with pytest.raises(ArchiveError, match=sentence):
        load(tmp_path)


def test_a_newer_schema_is_refused(tmp_path):
    newer = msgspec.structs.replace(document(Summary(a_run()), "finished"), schema=2)
    write_document(tmp_path, newer)
    with pytest.raises(ArchiveError, match="has schema 2; this version of r1perf reads schema 1"):
        load(tmp_path)


def test_a_recorder_that_goes_on_after_a_dead_one_does_not_repeat_its_intervals():
    recorder = Recorder("0", a_run().stages, S, S)
    recorder.skip_to(6)
    assert recorder.flip(2 * S).k == 7
