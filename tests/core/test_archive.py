import errno
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from virtual_run import MS, Answer, S, a_run, play, traffic

from r1perf.errors import ArchiveError
from r1perf.histogram import HIGHEST, Counts
from r1perf.journal import SnapshotsJournal
from r1perf.schedule import Stage
from r1perf.sinks.archive import ArchiveSink, create, write_document
from r1perf.sinks.environment import environment
from r1perf.sinks.hlog import HlogWriter, line, read
from r1perf.snapshot import encode
from r1perf.summary import Interval, Summary, Validity, document, load, read_document
from r1perf.summary.archived import GOES_ON, NO_END, goes_on, unended

GOLDEN = Path(__file__).parents[1] / "golden"


def archived(folder, snapshots, order=lambda intervals: intervals):
    """Write a run's archive as a collector does; return its summary and its document."""
    sink, summary = ArchiveSink(folder), Summary(a_run())
    sink.open(summary.run)
    for snapshot in snapshots:
        summary.merge(snapshot)
    for interval in order([Interval.of(snapshot) for snapshot in snapshots]):
        sink.write(interval)
    built = document(summary)
    sink.close(built)
    return summary, built


# --- Folders and run.json ---


def test_two_runs_of_one_second_have_folders_of_their_own(tmp_path):
    started_ns = 1_767_323_045 * S + 999
    made = [create(tmp_path / "runs", "mixed", started_ns).name for _ in range(3)]
    assert made == ["20260102T030405Z-mixed", "20260102T030405Z-mixed-2", "20260102T030405Z-mixed-3"]


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(ArchiveError, match=r"no run archive can be made in .*runs: File exists"):
        create(tmp_path / "runs", "mixed", 0)


def test_run_json_is_there_from_the_start(tmp_path):
    sink = ArchiveSink(tmp_path)
    sink.open(a_run())
    written = read_document(tmp_path)
    assert (written.status, written.run()) == ("running", a_run())
    assert written.validity == Validity(False, ["the run has not ended"])  # a reader of this part alone must not take it for good
    sink.close(document(Summary(a_run())))
    assert read_document(tmp_path).status == "finished"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["intervals.hlog", "run.json"]


def test_room_is_kept_for_the_last_run_json_and_given_free_before_it_is_written(tmp_path, monkeypatch):
    sink, fsync, kept = ArchiveSink(tmp_path), os.fsync, []
    sink.open(a_run())
    reserve, first = tmp_path / ".reserve", (tmp_path / "run.json").stat().st_size
    assert reserve.stat().st_blocks * 512 >= reserve.stat().st_size == 131_072 + first
    monkeypatch.setattr("os.fsync", lambda fd: (kept.append(reserve.exists()), fsync(fd)))
    sink.close(document(Summary(a_run())))
    assert kept == [False]


def test_a_disk_without_room_for_an_archive_is_told_before_the_run(tmp_path, monkeypatch):
    def full(fd, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(ArchiveError, match=r"has no room for a run archive: No space left on device"):
        ArchiveSink(tmp_path).open(a_run())
    assert not (tmp_path / ".reserve").exists()


def test_a_file_system_that_keeps_no_room_has_an_archive_all_the_same(tmp_path, monkeypatch):
    def unsupported(fd, offset, length):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr("os.posix_fallocate", unsupported)
    archived(tmp_path, [])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["intervals.hlog", "run.json"]


def test_a_last_run_json_that_cannot_be_written_says_how_to_complete_it(tmp_path, monkeypatch):
    sink = ArchiveSink(tmp_path)
    sink.open(a_run())

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    says = (
        rf"run\.json cannot be written: No space left on device; with room on the disk `r1perf recover {tmp_path}` completes it$"
    )
    with pytest.raises(ArchiveError, match=says):
        sink.close(document(Summary(a_run())))


def test_a_document_comes_back_from_its_file(tmp_path):
    _, built = archived(tmp_path, play(traffic(), seconds=50))
    assert read_document(tmp_path) == built


def test_run_json_is_replaced_at_once_or_not_at_all(tmp_path, monkeypatch):
    write_document(tmp_path, document(Summary(a_run()), "running"))
    before = (tmp_path / "run.json").read_bytes()

    def full(fd):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ArchiveError, match=r"run\.json cannot be written: No space left on device"):
        write_document(tmp_path, document(Summary(a_run())))
    assert (tmp_path / "run.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_a_run_that_goes_on_is_neither_interrupted_nor_has_it_lost_anything(tmp_path):
    sink, summary, played = ArchiveSink(tmp_path), Summary(a_run()), play(traffic(), seconds=50)
    sink.open(a_run())
    with SnapshotsJournal(tmp_path, "0") as journal:
        for snapshot in played[:20]:
            journal.write(encode(snapshot))
            summary.merge(snapshot)
    assert summary.pending("0") > 0
    built = load(tmp_path)
    assert (built.status, built.reason, built.early) == ("running", GOES_ON, False)
    assert built.validity == Validity(False, [GOES_ON])
    assert (built.counts, built.series) == (document(summary).counts, document(summary).series)
    sink._log.close()  # as a kill does
    killed = load(tmp_path)
    assert (killed.status, killed.reason, killed.counts["lost"]) == ("interrupted", NO_END, summary.pending("0"))


def test_the_log_says_that_a_run_goes_on_until_run_json_is_written(tmp_path, monkeypatch):
    sink, seen = ArchiveSink(tmp_path), []
    monkeypatch.setattr("r1perf.sinks.archive.write_document", lambda folder, built: seen.append(goes_on(tmp_path)))
    assert not goes_on(tmp_path)
    monkeypatch.setattr("r1perf.sinks.archive._reserve", lambda folder: None)
    sink.open(a_run())
    sink.close(document(Summary(a_run())))
    assert (seen, goes_on(tmp_path)) == ([False, True], False)


def test_golden_run_json(tmp_path):
    """The format of run.json: a change here is a change of the schema, and belongs into docs/archive.md."""
    archived(tmp_path, play(traffic()[35:60], seconds=50))
    written = (tmp_path / "run.json").read_text()
    assert written == (GOLDEN / "run.json").read_text()


def test_series_hold_ms_and_tokens_of_workloads_and_stages(tmp_path):
    summary, _ = archived(tmp_path, play(traffic(), seconds=50))
    rows = {
        (row["metric"], row.get("workload"), row.get("stage")): row
        for row in json.loads((tmp_path / "run.json").read_text())["series"]
    }
    counts = summary.counts("itl", "chat", 2)
    row = rows["itl", "chat", "steady"]
    assert (row["unit"], row["count"], row["min"], row["max"]) == ("ms", counts.count, counts.least / 1000, counts.most / 1000)
    assert [row[name] for name in ("p50", "p75", "p90", "p95", "p99", "p999")] == [
        value / 1000 for value in counts.percentiles(("50", "75", "90", "95", "99", "99.9"))
    ]
    assert row["mean"] == round(counts.total / counts.count / 1000, 3)
    both = rows["output_tokens", None, None]
    assert (both["unit"], both["max"]) == ("tokens", summary.counts("output_tokens").most)
    assert ("thinking", "chat", None) not in rows  # never measured: absent


# --- The log ---


def test_the_log_merges_to_the_runs_own_counts(tmp_path):
    summary, _ = archived(tmp_path, play(traffic(), seconds=50))
    names = [stage.name for stage in summary.stages]
    logged: dict[tuple[str, str, int], Counts] = {}
    for entry in read(tmp_path / "intervals.hlog"):
        metric, workload, stage = entry.tag.split(".")
        logged.setdefault((metric, workload, names.index(stage)), Counts()).add(entry.counts)
    assert {key: counts.buckets for key, counts in logged.items()} == {
        key: counts.buckets for key, counts in summary.series.items()
    }


def test_other_tools_read_the_log(tmp_path):
    """hdrh's reader stands for the Java, C, Go and JavaScript ones: times, tags and counts are what was written."""
    summary, _ = archived(tmp_path, play(traffic(), seconds=50))
    reader = HistogramLogReader(str(tmp_path / "intervals.hlog"), HdrHistogram(1, HIGHEST, 3))
    total, starts = HdrHistogram(1, HIGHEST, 3), []
    try:
        while (histogram := reader.get_next_interval_histogram()) is not None:
            if histogram.get_tag() == "ttft.chat.steady":
                total.add(histogram)
                starts.append((histogram.get_start_time_stamp(), histogram.get_end_time_stamp()))
    finally:
        reader.input_file.close()
    counts = summary.counts("ttft", "chat", 2)
    assert total.get_total_count() == counts.count
    at = np.flatnonzero(np.frombuffer(total.counts, dtype=np.uint64)).tolist()
    assert at == counts.sparse()[0]
    assert reader.get_start_time_sec() == 1_767_323_045.0
    base_ms = 1_767_323_045_000
    assert starts == [(base_ms + at_s * 1000, base_ms + (at_s + 10) * 1000) for at_s in (10, 20, 30)]


def test_the_form_of_the_log(tmp_path):
    writer = HlogWriter(tmp_path / "log", 1_767_323_045_500_000_000)
    writer.write(10 * S, 10 * S, {"itl.chat.steady": Counts.of([20_000, 1_999_999]), "ttft.chat.steady": Counts()})
    writer.close()
    encoded = Counts.of([20_000, 1_999_999]).encode()
    assert encoded.startswith("HISTFAAA")
    assert (tmp_path / "log").read_text() == (
        "#[Logged by r1perf; tags are metric.workload.stage; values in us, those of token metrics in tokens]\n"
        "#[Histogram log format version 1.3]\n"
        "#[StartTime: 1767323045.500 (seconds since epoch), Fri Jan 02 03:04:05 UTC 2026]\n"
        "#[BaseTime: 1767323045.500 (seconds since epoch)]\n"
        '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"\n'
        f"Tag=itl.chat.steady,10.000,10.000,1999.999,{encoded}\n"
    )


def test_lines_are_written_as_soon_as_they_are_full(tmp_path):
    sink = ArchiveSink(tmp_path)
    sink.open(a_run())
    seen = []
    for taken in play(traffic(), seconds=22):
        sink.write(Interval.of(taken))
        seen.append(max((entry.start_s for entry in read(tmp_path / "intervals.hlog")), default=None))
    assert seen == [None] * 10 + [0.0] * 10 + [10.0] * 2
    sink.close(document(Summary(a_run())))
    assert [entry.length_s for entry in read(tmp_path / "intervals.hlog") if entry.start_s == 20.0][:1] == [2.0]


def test_late_data_has_a_line_of_its_own_and_is_counted_once(tmp_path):
    snapshots = play(traffic(), seconds=50)
    summary, _ = archived(tmp_path, snapshots, order=lambda intervals: [*intervals[:5], *intervals[6:], intervals[5]])
    total = Counts.merged(entry.counts for entry in read(tmp_path / "intervals.hlog") if entry.tag == "itl.chat.ramp")
    assert total.buckets == summary.counts("itl", "chat", 1).buckets


CUTS = {
    "line-cut": (lambda text: text[:-20], 1),
    "end-missing": (lambda text: text[:-1], 1),
    "no-histogram": (lambda text: text + "Tag=a.b.c,1.000,1.000\n", 2),
    "other-text": (lambda text: text + "garbage\n", 2),
    "not-ascii": (lambda text: text + "Tag=\u00e4,1.000,1.000,1.000,HISTFAAA\n", 2),
}


@pytest.mark.parametrize(("damage", "left"), CUTS.values(), ids=CUTS.keys())
def test_damaged_lines_are_left_out_and_told(tmp_path, damage, left):
    path = tmp_path / "log"
    good = line("a.b.c", 0, S, Counts.of([1]))
    path.write_text(damage(f"#[BaseTime: 0.000 (seconds since epoch)]\n{good}\n{good}\n"))
    told = []
    assert [entry.tag for entry in read(path, told.append)] == ["a.b.c"] * left
    assert len(told) == 1
    assert told[0].startswith("log: line ")


def test_a_full_disk_ends_the_log_with_a_whole_line(tmp_path, monkeypatch):
    writer = HlogWriter(tmp_path / "log", 0)
    before = (tmp_path / "log").read_bytes()

    class Full:
        def __init__(self, file):
            self._file, self._room = file, 7

        def write(self, data):
            if not self._room:
                raise OSError(errno.ENOSPC, "No space left on device")
            self._room -= 7
            return self._file.write(data[:7])

        def __getattr__(self, name):
            return getattr(self._file, name)

    monkeypatch.setattr(writer, "_file", Full(writer._file))
    with pytest.raises(ArchiveError, match=r"log cannot be written: No space left on device"):
        writer.write(0, S, {"a.b.c": Counts.of([1])})
    writer.close()
    assert (tmp_path / "log").read_bytes() == before


# --- The environment ---


def test_the_environment_names_versions_host_and_commit(tmp_path):
    found = environment(tmp_path)
    assert {"python", "r1perf", "gevent", "numpy"} <= set(found["versions"])
    assert found["host"]["cpus"] >= 1
    assert "git" not in found
    git = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run([*git, "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "file").write_text("one")
    subprocess.run([*git, "add", "file"], cwd=tmp_path, check=True)
    subprocess.run([*git, "commit", "-q", "-m", "first"], cwd=tmp_path, check=True)
    state = environment(tmp_path)["git"]
    assert (len(state["commit"]), state["dirty"]) == (40, False)
    (tmp_path / "file").write_text("two")
    assert environment(tmp_path)["git"]["dirty"]


def test_a_stage_that_was_never_planned_is_one_of_the_web_uis(tmp_path):
    run = a_run()
    sink = ArchiveSink(tmp_path)
    sink.open(run)
    interval = Interval(0)
    interval.series["itl", "chat", 5] = Counts.of([1])
    sink.write(interval)
    sink.close(document(Summary(run)))
    assert run.stages[-1].name == "drain"
    assert run.stages[-1].index == 3
    assert [entry.tag for entry in read(tmp_path / "intervals.hlog")] == ["itl.chat.live-2"]


def test_of_a_run_that_goes_on_tokens_count_when_they_come():
    """Ten answers at a time, 20 s each and one begun every 2 s: 100 chunks/s, of which at 40 s half of the last 20 s belongs to no ended one."""
    answers = [Answer(workload="chat", at_ns=n * 2 * S + 1, ttft_ns=100 * MS, gap_ns=100 * MS, chunks=200) for n in range(20)]
    stages = (Stage(0, "steady", 0, 60 * S, judged=True, says=""), Stage(1, "drain", 60 * S, None, judged=False, says=""))
    summary = Summary(a_run(stages=stages))
    for snapshot in play(answers, seconds=60, stages=stages)[:40]:
        summary.merge(snapshot)
    came = sum(
        counter.n
        for snapshot in play(answers, seconds=60, stages=stages)[:40]
        for counter in snapshot.counters
        if counter.name == "chunks"
    )
    known = document(summary).throughput.output_tokens_per_s
    assert unended(summary, alive=True).throughput.output_tokens_per_s == pytest.approx(came / 40, rel=0.02)
    assert known < 0.8 * came / 40
