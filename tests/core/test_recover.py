"""`r1perf recover`: what it says of a run, and with which exit code."""

import msgspec
import pytest
from click.testing import CliRunner
from virtual_run import a_run, play, traffic

from r1perf.cli.recover import command
from r1perf.journal import SnapshotsJournal
from r1perf.sinks.archive import write_document
from r1perf.snapshot import Counter, encode
from r1perf.summary import Summary, document, load, read_document

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
def test_what_is_said_of_a_rebuilt_run(tmp_path, more, code, status, reasons, says):
    archive(tmp_path, **more)
    ran = recovered(tmp_path, write=True)
    built = read_document(tmp_path)
    assert (ran.return_value, ran.stderr) == (code, says)
    assert (built.status, built.early, built.validity.reasons) == (status, bool(says), reasons)
    assert built.validity.valid is not bool(reasons)


def test_an_invalid_run_that_had_ended_is_exit_code_3(tmp_path):
    archive(tmp_path, status="finished", adds_up=False)
    ran = recovered(tmp_path)
    assert (ran.return_value, ran.stderr) == (3, "")
    assert "INVALID" in ran.stdout


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
