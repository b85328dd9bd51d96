"""`r1perf run` as a user has it: real processes, real signals, real archives."""

import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from runs import BUSY, R1PERF

from r1perf.journal import read_requests

LONG = """
name = "long"
duration = "30s"
[target]
url = "simulate:tiny"
[workload.chat]
dataset = { kind = "chat" }
max_tokens = 400
[arrivals]
kind = "poisson"
rate = "10/s"
"""


class Run:
    """A run in the background; `wait` gives its exit code, `folder` its archive."""

    def __init__(self, tmp_path: Path, *arguments: str, **popen):
        self.runs = tmp_path / "runs"
        scenario = tmp_path / "long.toml"
        scenario.write_text(LONG)
        self.process = subprocess.Popen(
            [*R1PERF, "run", str(scenario), "--runs", str(self.runs), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, **popen,
        )  # fmt: skip

    def until(self, finished: int) -> None:
        """Wait until so many requests are in the workers' files."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if sum(path.read_bytes().count(b"\n") for path in self.runs.glob("*/requests.*.jsonl")) >= finished:
                return
            time.sleep(0.05)
        raise AssertionError(f"no {finished} requests ended in 30 s")

    def worker(self) -> int:
        """Return the process id of the worker."""
        for pid in Path("/proc").glob("[0-9]*"):
            try:
                command = (pid / "cmdline").read_bytes()
                status = (pid / "stat").read_text()
            except OSError:
                continue
            if b"r1perf.launch.child" in command and int(status.rpartition(")")[2].split()[1]) == self.process.pid:
                return int(pid.name)
        raise AssertionError("the run has no worker")

    def wait(self, seconds: float = 40) -> int:
        self.stdout, self.stderr = self.process.communicate(timeout=seconds)
        return self.process.returncode

    @property
    def folder(self) -> Path:
        (folder,) = self.runs.iterdir()
        return folder

    @property
    def document(self) -> dict:
        return json.loads((self.folder / "run.json").read_text())

    def lines(self) -> list:
        return [result for path in self.folder.glob("requests.*.jsonl") for result in read_requests(path)]


@pytest.fixture
def start(tmp_path):
    started = []

    def one(*arguments, **popen):
        started.append(Run(tmp_path, *arguments, **popen))
        return started[-1]

    yield one
    for run in started:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
        run.process.communicate()


def ended_well(run: Run, seconds: float = 40) -> None:
    """The run ended by itself; its exit code says whether it was valid, and only a busy machine may have made it invalid."""
    code = run.wait(seconds)
    for path in run.runs.rglob("run.json"):
        document = json.loads(path.read_text())
        assert document["status"] == "finished", run.stderr
        assert all(BUSY.search(reason) for reason in document["validity"]["reasons"]), document["validity"]
        assert code == 3 if document["validity"]["reasons"] else code in (0, 3), run.stderr
    assert list(run.runs.rglob("run.json")), run.stderr


def consistent(run: Run) -> None:
    """Every request that the document counts as ended is one line, once; and all counts add up."""
    counts = dict(run.document["counts"])
    scheduled, in_flight = counts.pop("scheduled"), counts.pop("in_flight")
    assert scheduled == sum(counts.values()) + in_flight
    ids = [result.id for result in run.lines()]
    assert len(ids) == len(set(ids)) == sum(n for outcome, n in counts.items() if outcome != "lost")


def test_a_run_ends_well_and_its_archive_tells_all(start):
    run = start("--duration", "3s")
    ended_well(run)
    assert run.stdout.splitlines()[-1] == str(run.folder)
    document = run.document
    assert document["counts"]["in_flight"] == 0
    assert document["counts"]["scheduled"] == document["counts"]["ok"] + document["counts"].get("truncated", 0)
    consistent(run)
    assert {path.name for path in run.folder.iterdir()} == {"run.json", "intervals.hlog", "requests.0.jsonl", "snapshots.0"}


def test_report_prints_the_same_tables_from_the_archive_alone(start):
    run = start("--duration", "2s")
    ended_well(run)
    reported = subprocess.run([*R1PERF, "report", str(run.folder)], capture_output=True, text=True, check=True).stdout
    assert reported in run.stdout
    assert "TTFT" in reported


def test_json_prints_run_json_and_nothing_else(start):
    run = start("--duration", "2s", "--json")
    ended_well(run)
    assert run.stdout == (run.folder / "run.json").read_text()


def test_quiet_prints_the_path_only(start):
    run = start("--duration", "2s", "--quiet")
    ended_well(run)
    assert run.stdout == f"{run.folder}\n"


def test_two_workers_are_one_run(start):
    run = start("--duration", "3s", "--workers", "2")
    ended_well(run)
    consistent(run)
    by_worker = [{result.arrival for result in read_requests(path)} for path in sorted(run.folder.glob("requests.*.jsonl"))]
    assert len(by_worker) == 2
    assert by_worker[0].isdisjoint(by_worker[1])
    assert {index % 2 for index in by_worker[0]} == {0}


def test_repeat_makes_a_folder_of_archives(start):
    run = start("--duration", "1s", "--repeat", "2", "--quiet")
    ended_well(run)
    folders = sorted(path for path in run.folder.iterdir())
    assert len(folders) == 2
    assert all((folder / "run.json").exists() for folder in folders)


def test_repeat_prints_one_json_array(start):
    run = start("--duration", "1s", "--repeat", "2", "--json")
    run.wait()
    kept = [json.loads(path.read_text()) for path in sorted(run.runs.rglob("run.json"), key=lambda path: path.parent.name)]
    assert len(kept) == 2
    assert json.loads(run.stdout) == kept


def test_ctrl_c_once_drains_and_completes_the_archive(start):
    run = start()
    run.until(5)
    run.process.send_signal(signal.SIGINT)
    assert run.wait() == 130
    assert run.document["status"] == "interrupted"
    assert "cancelled" not in run.document["counts"]
    consistent(run)


def test_ctrl_c_twice_cuts_and_still_completes_the_archive(start):
    run = start("--set", "workload.chat.max_tokens=20000", "--set", "target.url=simulate:slow")
    deadline = time.monotonic() + 20
    while not list(run.runs.glob("*/snapshots.0")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(2)
    run.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    run.process.send_signal(signal.SIGINT)
    assert run.wait(15) == 130
    assert run.document["counts"]["cancelled"] > 0
    consistent(run)


def test_a_ctrl_c_for_the_whole_process_group_does_the_same(start):
    run = start()
    run.until(5)
    os.killpg(run.process.pid, signal.SIGINT)
    assert run.wait() == 130
    consistent(run)


def test_a_killed_worker_is_reported_and_what_it_had_finished_is_counted(start):
    run = start()
    run.until(8)
    os.kill(run.worker(), signal.SIGKILL)
    assert run.wait() == 3
    assert "worker 0 was lost: killed by SIGKILL" in run.stderr
    document = run.document
    assert document["status"] == "failed"
    assert document["validity"]["valid"] is False
    assert "worker 0 was lost" in document["validity"]["reasons"]
    assert document["counts"]["ok"] >= 8
    consistent(run)


def test_a_terminated_worker_drains_and_says_so(start):
    run = start()
    run.until(5)
    os.kill(run.worker(), signal.SIGTERM)
    assert run.wait() == 3
    assert "the worker was asked to end by SIGTERM" in run.stderr
    assert "lost" not in run.document["counts"]
    consistent(run)


def test_a_stopped_worker_that_goes_on_loses_nothing_and_the_run_is_invalid(start):
    run = start("--duration", "5s")
    run.until(5)
    worker = run.worker()
    os.kill(worker, signal.SIGSTOP)
    time.sleep(3)
    os.kill(worker, signal.SIGCONT)
    assert run.wait() == 3
    assert any("late" in reason for reason in run.document["validity"]["reasons"])
    consistent(run)


def test_a_killed_collector_leaves_files_from_which_the_run_is_rebuilt(start):
    run = start()
    run.until(8)
    worker = run.worker()
    run.process.kill()
    run.process.wait()
    deadline = time.monotonic() + 20
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{worker}").exists(), "an orphaned worker ends by itself"
    assert run.document["status"] == "running"
    recovered = subprocess.run([*R1PERF, "recover", str(run.folder), "--write"], capture_output=True, text=True, check=False)
    assert recovered.returncode == 3
    assert "rebuilt from what its workers had" in recovered.stdout
    assert run.document["status"] == "interrupted"
    assert run.document["counts"]["ok"] >= 8
    consistent(run)


def test_a_full_disk_is_one_sentence_and_ends_the_run_in_order(start):
    # A limit on file size fails writes as a full disk does, without one.
    run = start(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000)))
    assert run.wait() == 3
    (sentence,) = [line for line in run.stderr.splitlines() if line.startswith("r1perf:")]
    assert re.fullmatch(r"r1perf: .*/(requests\.0\.jsonl|snapshots\.0) cannot be written: File too large", sentence)
    assert "Traceback" not in run.stderr
    assert run.document["status"] == "failed"


def test_a_lost_simulated_endpoint_is_told_and_ends_the_run(start):
    run = start()
    run.until(5)
    endpoint = next(
        int(pid.name) for pid in Path("/proc").glob("[0-9]*")
        if (pid / "cmdline").exists() and b"r1perf.simulator" in (pid / "cmdline").read_bytes()
        and int((pid / "stat").read_text().rpartition(")")[2].split()[1]) == run.process.pid
    )  # fmt: skip
    os.kill(endpoint, signal.SIGKILL)
    assert run.wait() == 3
    assert "r1perf: the simulated endpoint has ended" in run.stderr
    consistent(run)


def test_a_closed_terminal_ends_the_run_in_order(start):
    run = start()
    run.until(5)
    run.process.send_signal(signal.SIGHUP)
    assert run.wait() == 130
    assert run.document["status"] == "interrupted"
    consistent(run)


def test_a_reader_that_goes_away_is_no_failure(tmp_path):
    command = [*R1PERF, "check", "r1-mixed"]
    reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    reader.stdout.close()
    assert (reader.wait(30), reader.stderr.read()) == (0, b"")
    reader.stderr.close()


def test_a_broken_promise_is_told_by_the_exit_code_though_nobody_reads_on(tmp_path):
    command = [*R1PERF, "run", "smoke", "--sla", "p95(ttft) < 1us", "--runs", str(tmp_path / "runs")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()  # before the first line of progress: the run goes on to its end all the same
    said = process.stderr.read()
    process.stderr.close()
    (folder,) = (tmp_path / "runs").iterdir()
    document = json.loads((folder / "run.json").read_text())
    assert document["status"] == "finished", said
    assert process.wait(30) == (1 if document["validity"]["valid"] else 3), said
    assert "Traceback" not in said


CLOSED = ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh"]
"""Start a command without standard input, output and error: files and sockets that it opens would get their numbers."""


@pytest.mark.parametrize(("words", "code"), [(["schema"], 0), (["nope"], 2), (["judge", "nope"], 2), (["--version"], 0)], ids=str)
def test_closed_standard_streams_change_no_exit_code(words, code):
    for start in (CLOSED, ["sh", "-c", 'exec "$@" >&-', "sh"], ["sh", "-c", 'exec "$@" 2>/dev/full', "sh"]):
        done = subprocess.run([*start, *R1PERF, *words], capture_output=True, text=True, check=False)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_a_run_whose_standard_streams_are_closed_leaves_its_archive(tmp_path):
    command = [*CLOSED, *R1PERF, "run", "smoke", "--runs", str(tmp_path / "runs"), "--json"]
    code = subprocess.run(command, check=False).returncode
    (folder,) = (tmp_path / "runs").iterdir()
    document = json.loads((folder / "run.json").read_text())
    assert document["status"] == "finished"
    assert code == (0 if document["validity"]["valid"] else 3)
    lines = [json.loads(line) for path in folder.glob("*.jsonl") for line in path.read_text().splitlines()]
    assert lines, "nothing that was printed is in its files"


def test_output_that_cannot_be_written_is_one_sentence_and_no_broken_promise(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([*R1PERF, "check", "r1-mixed"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (3, "r1perf: the output cannot be written: No space left on device\n")


BAD = [
    pytest.param(
        ["provider-probe", "--url", "simulate:tiny", "--workers", "2"],
        "stage `eight` begins when the last session of stage `one` has ended, which several workers do not know of one another",
        id="workers that cannot know",
    ),
    pytest.param(["smoke", "--workers", "300"], "Invalid value for '--workers': 300 is not in the range 1<=x<=256.", id="range"),
    pytest.param(["smoke", "--confidense", "0.9"], "No such option '--confidense'. Did you mean '--confidence'?", id="option"),
    pytest.param(["missing.toml"], "missing.toml: no such file", id="missing file"),
    pytest.param(["{broken}"], "is not TOML", id="broken TOML"),
    pytest.param(
        ["smoke", "--set", "workload.chat.weigth=3"], "`workload.chat.weigth`: unknown; did you mean `weight`?", id="key"
    ),
    pytest.param(["smoke", "--rate", "-1/s"], '"-1/s" is not a rate', id="negative rate"),
    pytest.param(["smoke", "--set", "workload.chat.weight=0"], "weight", id="zero weight sum"),
    pytest.param(["smoke", "--set", "workload.chat.dataset.kind=mmlu"], "mmlu", id="unknown dataset"),
    pytest.param(["smoke", "--url", "http://127.0.0.1:1/v1", "--model", "m"], "cannot be reached", id="unreachable"),
    pytest.param(["smoke", "--set", "target.api_key_env=NO_SUCH_KEY"], "NO_SUCH_KEY is not set", id="no key"),
    pytest.param(["smoke", "--url", "simulate:nothing"], "nothing", id="unknown profile"),
    pytest.param(["smoke", "--bind", "127.0.0.1:1"], "--bind says where workers from elsewhere", id="nobody is waited for"),
]


@pytest.mark.parametrize(("arguments", "says"), BAD)
def test_bad_input_is_one_sentence_and_exit_2_and_leaves_nothing(tmp_path, arguments, says):
    broken = tmp_path / "broken.toml"
    broken.write_text("name = ")
    arguments = [argument.replace("{broken}", str(broken)) for argument in arguments]
    done = subprocess.run(
        [*R1PERF, "run", *arguments, "--runs", str(tmp_path / "runs")], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.returncode == 2
    assert says in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert done.stdout == ""
    assert not list((tmp_path / "runs").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--model", "gpt-nothing"], "HTTP 404", id="wrong model"),
        pytest.param(["--set", "target.api_key_env=WRONG_KEY"], "HTTP 401", id="wrong key"),
    ],
)
def test_a_wrong_target_is_exit_2(tmp_path, start_simulator, monkeypatch, arguments, says):
    monkeypatch.setenv("R1SIM_API_KEY", "right" if "WRONG_KEY" in arguments[1] else "")
    monkeypatch.setenv("WRONG_KEY", "very-secret-wrong")
    service = start_simulator("--profile", "tiny")
    done = subprocess.run(
        [*R1PERF, "run", "smoke", "--url", service.url, "--model", "deepseek-r1", *arguments, "--runs", str(tmp_path / "runs")],
        capture_output=True, text=True, timeout=40, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert says in done.stderr
    written = "".join(path.read_text("utf-8", "replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "very-secret-wrong" not in done.stdout + done.stderr + written
