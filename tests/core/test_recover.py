"""`r1perf recover`: what it says of a run, and with which exit code."""

import re
import shutil

import msgspec
import pytest
from click.testing import CliRunner
from virtual_run import a_run, play, traffic

from r1perf.cli.recover import command
from r1perf.cli.runs import command as runs_command
from r1perf.errors import ArchiveError, UsageError
from r1perf.journal import SnapshotsJournal
from r1perf.sinks.archive import write_document
from r1perf.sinks.hlog import HlogWriter
from r1perf.snapshot import Counter, encode
from r1perf.summary import Summary, document, load, read_document
from r1perf.summary.archived import unlose

END = "r1perf: the run did not come to its end; rebuilt from what its workers had written\n"
EARLY = {"status": "finished", "reason": "enough", "early": True}


def archive(folder, *, workers=("0", "1"), there=("0", "1"), adds_up=True, **more):
    """Leave a run of `workers`, with the files of those that are `there`."""
    built = document(Summary(a_run(workers=workers)), "running")
    write_document(folder, msgspec.structs.replace(built, **more))
    for worker in there:
        with SnapshotsJournal(folder, worker) as journal:
            for taken in play(traffic(), seconds=45):
                counters = [*taken.counters, *([] if adds_up else [Counter("scheduled", "chat", 1, 1)])]
                journal.write(encode(msgspec.structs.replace(taken, worker=worker, counters=counters)))


def recovered(*folders, write=False):
    return CliRunner().invoke(command, [*map(str, folders), *(["--write"] if write else [])], standalone_mode=False)


@pytest.mark.parametrize(
    ("more", "code", "status", "reasons", "says"),
    [
        pytest.param({}, 3, "interrupted", [], END, id="its collector died"),
        pytest.param({"status": "finished"}, 0, "finished", [], "", id="it had ended"),
        pytest.param(EARLY, 3, "finished", [], "r1perf: enough\n", id="it had ended early"),
        pytest.param({"there": ("0",)}, 3, "interrupted", ["worker 1's files are missing"], END, id="files are missing"),
        pytest.param(
            {"status": "finished", "there": ()}, 3, "finished",
            ["worker 0's files are missing", "worker 1's files are missing", "no request was sent"], "", id="nothing is there",
        ),
    ],
)  # fmt: skip
def test_what_is_said_of_a_rebuilt_run(tmp_path, monkeypatch, more, code, status, reasons, says):
    kept = []
    monkeypatch.setattr("r1perf.cli.recover.print_report", lambda built, console: kept.append(built))
    archive(tmp_path, **more)
    ran = recovered(tmp_path, write=not more.get("status"))
    (built,) = kept
    assert (ran.return_value, ran.stderr) == (code, says)
    assert (built.status, built.early, built.validity.reasons) == (status, bool(says), reasons)
    assert built.validity.valid is not bool(reasons)
    assert (read_document(tmp_path) == built) is not bool(more.get("status"))


def test_an_invalid_run_that_had_ended_is_exit_code_3(tmp_path):
    archive(tmp_path, status="finished", adds_up=False)
    ran = recovered(tmp_path)
    assert (ran.return_value, ran.stderr) == (3, "")
    assert "INVALID" in ran.stdout


def test_clauses_that_are_not_judged_are_named(tmp_path):
    archive(tmp_path, scenario={"sla": {"clauses": ["p95(ttft) < 1s"]}})
    assert recovered(tmp_path).stderr == f"note: clauses are not judged here; `r1perf judge {tmp_path}` does\n{END}"


def test_files_in_another_folder_are_not_missing(tmp_path):
    parts = [tmp_path / "master", tmp_path / "away"]
    for part in parts:
        part.mkdir()
    archive(parts[0], there=("0",))
    archive(parts[1], there=("1",))
    (parts[1] / "run.json").unlink()
    assert recovered(*reversed(parts)).return_value == 3
    assert load(parts[0]).validity.reasons == ["worker 1's files are missing"]
    recovered(*parts, write=True)
    assert read_document(parts[0]).validity.reasons == []
    recovered(*parts, write=True)  # a rebuilt one may be rebuilt again


def refusal(*folders, error=ArchiveError, write=False):
    """Return what is said, once it is seen that nothing was changed."""
    before = [(folder / "run.json").read_bytes() for folder in folders]
    ran = recovered(*folders, write=write)
    assert [(folder / "run.json").read_bytes() for folder in folders] == before
    assert isinstance(ran.exception, error)
    return str(ran.exception)


def test_two_runs_are_not_taken_for_one(tmp_path):
    parts = [tmp_path / "a", tmp_path / "b"]
    for part in parts:
        part.mkdir()
        archive(part, run_id=part.name)
    assert refusal(*parts, write=True) == f"{parts[0]} and {parts[1]} hold two runs, a and b"


def test_a_worker_s_files_lie_in_one_folder(tmp_path):
    parts = [tmp_path / "a", tmp_path / "b"]
    parts[0].mkdir()
    archive(parts[0])
    shutil.copytree(*parts)
    assert refusal(*parts, write=True) == f"{parts[0]} and {parts[1]} both hold files of a worker 0: a worker writes into one"
    assert recovered(parts[0], parts[0]).return_value == 3  # the same one twice is one


def test_the_end_of_a_run_that_goes_on_is_its_own(tmp_path):
    archive(tmp_path)
    log = HlogWriter(tmp_path / "intervals.hlog", 0)
    assert refusal(tmp_path, error=UsageError, write=True) == "the run goes on, and writes its run.json at its end"
    assert "the run goes on; rebuilt from what its workers have written so far" in recovered(tmp_path).output
    log.close()


def test_a_list_of_runs_tells_one_that_goes_on_from_one_that_was_killed(tmp_path):
    def line():
        (found,) = msgspec.json.decode(CliRunner().invoke(runs_command, [str(tmp_path), "--json"]).stdout)
        return found["status"], found.get("requests")

    archive(tmp_path)
    log = HlogWriter(tmp_path / "intervals.hlog", 0)
    assert line() == ("running", None)
    log.close()
    assert line() == ("interrupted", None)


@pytest.mark.parametrize("status", ["finished", "failed", "interrupted"])
def test_the_end_of_a_run_is_not_replaced(tmp_path, status):
    archive(tmp_path, status=status, reason=None if status == "finished" else "by Ctrl-C or a signal")
    assert re.match(
        rf"{tmp_path}/run.json is that of the run's own end \({status}\)", refusal(tmp_path, error=UsageError, write=True)
    )


def test_no_more_is_called_lost_than_the_runs_end_knows_of():
    """Of a workload and of a stage, over all counters together: what was called lost twice had ended once."""
    built = document(Summary(a_run()))
    stages = [msgspec.structs.replace(row, counts={"lost": 3} if row.plan.index == 1 else {}) for row in built.stages]
    rows = [msgspec.structs.replace(row, counts={"lost": 2} if row.name == "chat" else {"lost": 1}) for row in built.workloads]
    lost, ok = ("outcome.lost", "chat", 1), ("outcome.ok", "chat", 1)
    kept = [{lost: 1, ok: 5}, {lost: 7, ("outcome.lost", "chat", 0): 4}]
    unlose(kept, msgspec.structs.replace(built, stages=stages, workloads=rows))
    assert kept == [{lost: 1, ok: 5}, {lost: 1}]
