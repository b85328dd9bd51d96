"""A swarm of real processes against a simulated endpoint that keeps the truth."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

from services import ROOT, free_port

from r1perf import clock
from r1perf.journal import read_requests

LOCUST = [sys.executable, "-m", "locust", "--headless", "--only-summary"]
R1PERF = [sys.executable, "-m", "r1perf"]
LOCUSTFILES = ROOT / "locustfiles"

BUSY = re.compile(r"requests were sent late|stood still|of a core|the wall clock of worker")
"""What a busy machine does to a run; r1perf then says that it is invalid, which is right, and no fault of it."""

OPEN = """
name = "swarmed"
duration = "{duration}"
[target]
url = "{url}"
model = "deepseek-r1"
provider = "vllm"
{workloads}
[arrivals]
{arrivals}
"""

MIX = """
[workload.chat]
dataset = { kind = "chat" }
max_tokens = 200
weight = 3
[workload.aime]
dataset = { kind = "aime" }
max_tokens = 200
"""

LONG = """
[workload.long]
dataset = { kind = "synthetic", input_tokens = 64, output_tokens = 800 }
"""
"""Streams of about five seconds, on a server that can be ordered to a length."""

POISSON = 'kind = "poisson"\nrate = "20/s"'


class Swarm:
    """Processes of one test; what still runs at its end is killed."""

    def __init__(self, folder: Path, simulator, truth: Path):
        self.folder, self.simulator, self.truth = folder, simulator, truth
        self.runs = folder / "runs"
        self.port = free_port()
        self.processes: list[subprocess.Popen] = []
        self.outputs: dict[int, Path] = {}

    def scenario(self, *, duration="4s", workloads=MIX, arrivals=POISSON) -> Path:
        path = self.folder / "swarmed.toml"
        path.write_text(OPEN.format(url=self.simulator.url, duration=duration, workloads=workloads, arrivals=arrivals))
        return path

    def start(self, *command, cwd=None, **popen) -> subprocess.Popen:
        """Start a process whose output goes to a file, in a process group of its own."""
        output = self.folder / f"output.{len(self.processes)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT,
                cwd=cwd or self.folder, start_new_session=True, **popen,
            )  # fmt: skip
        self.processes.append(process)
        self.outputs[process.pid] = output
        return process

    def locust(self, *arguments, locustfile=LOCUSTFILES / "smoke.py", **popen) -> subprocess.Popen:
        """Start plain Locust: a single process, or with --processes, --master or --worker."""
        ports = ["--master-port", self.port]
        if "--worker" not in arguments:
            ports += ["--master-bind-port", self.port]
        return self.start(*LOCUST, "-f", locustfile, *ports, *arguments, **popen)

    def master(self, scenario: Path, workers: int, *arguments) -> subprocess.Popen:
        """Start `r1perf run` that waits for workers."""
        return self.start(
            *R1PERF,
            "run",
            scenario,
            "--expect-workers",
            workers,
            "--bind",
            f"127.0.0.1:{self.port}",
            "--runs",
            self.runs,
            *arguments,
        )

    def worker(self, *before, cwd=None) -> subprocess.Popen:
        """Start `r1perf worker`."""
        return self.start(*before, *R1PERF, "worker", "--master", f"127.0.0.1:{self.port}", cwd=cwd)

    def output(self, process: subprocess.Popen) -> str:
        return self.outputs[process.pid].read_text(errors="replace")

    def wait(self, process: subprocess.Popen, seconds: float = 60) -> int:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still runs after {seconds} s:\n{self.output(process)[-3000:]}") from None

    def until(self, finished: int, seconds: float = 60, run: int = 1) -> None:
        """Wait until so many requests are in the workers' files of the n-th run."""
        until_ns = clock.monotonic_ns() + int(seconds * 1e9)
        while clock.monotonic_ns() < until_ns and any(process.poll() is None for process in self.processes):
            for folder in sorted(self.runs.glob("*"))[run - 1 :]:
                if sum(path.read_bytes().count(b"\n") for path in folder.glob("requests.*.jsonl")) >= finished:
                    return
            clock.sleep(0.05)
        said = "\n".join(self.output(process)[-1500:] for process in self.processes)
        raise AssertionError(f"no {finished} requests ended in {seconds} s, or while anything ran:\n{said}")

    def until_said(self, process: subprocess.Popen, text: str, seconds: float = 40) -> None:
        """Wait until a process has printed this."""
        until_ns = clock.monotonic_ns() + int(seconds * 1e9)
        while text not in self.output(process):
            assert clock.monotonic_ns() < until_ns, f"it never said {text}:\n{self.output(process)[-1500:]}"
            clock.sleep(0.05)

    def interrupt_group(self, process: subprocess.Popen) -> None:
        os.killpg(process.pid, signal.SIGINT)

    # --- What is left ---

    @property
    def archive(self) -> Path:
        (folder,) = self.runs.iterdir()
        return folder

    @property
    def document(self) -> dict:
        return json.loads((self.archive / "run.json").read_text())

    def pid(self, worker: str) -> int:
        """Return a worker's process, from run.json."""
        return self.document["environment"]["workers"][worker]["pid"]

    def lines(self, worker: str = "*") -> list:
        return [result for path in sorted(self.archive.glob(f"requests.{worker}.jsonl")) for result in read_requests(path)]

    def truths(self) -> list[dict]:
        """Return what the endpoint knows of the requests since t0: before it, workers look at the models and calibrate."""
        t0_ns = self.document["started_ns"] if list(self.runs.iterdir()) else 0
        truths = [json.loads(line) for line in self.truth.read_bytes().splitlines()]
        return [
            truth for truth in truths
            if truth["endpoint"] != "models" and truth["received_ns"] + truth["wall_offset_ns"] >= t0_ns - 1_000_000
        ]  # fmt: skip

    def close(self) -> None:
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def whole(swarm: Swarm, killed_ns: int | None = None) -> None:
    """Nothing is lost and nothing is there twice: run.json, the workers' files and the endpoint tell the same requests.

    What the endpoint served and we have no line for was cut before its head came, or was in flight on a worker when it was
    killed, at `killed_ns`.
    """
    counts = dict(swarm.document["counts"])
    scheduled, in_flight = counts.pop("scheduled"), counts.pop("in_flight")
    lost = counts.pop("lost", 0)
    lines = swarm.lines()
    assert scheduled == sum(counts.values()) + lost
    assert in_flight == 0
    assert Counter(str(line.outcome) for line in lines) == Counter(counts)
    assert len({line.id for line in lines}) == len(lines)
    sent = [line for line in lines if line.sent_ns is not None]
    truths = {truth["id"]: truth for truth in swarm.truths()}
    ours = {line.request_id for line in sent if line.request_id}
    assert ours <= truths.keys()
    strange = [truth for name, truth in truths.items() if name not in ours]
    if killed_ns is None:
        assert all(truth["ending"] == "aborted" for truth in strange)
        assert len(strange) <= sum(line.request_id is None for line in sent) + lost
    else:
        for truth in strange:
            assert truth["received_ns"] + truth["wall_offset_ns"] <= killed_ns
            assert truth["ended_ns"] + truth["wall_offset_ns"] >= killed_ns - 10**9, "what had ended before is on disk"
    shards = len(swarm.document["workers"])
    for worker in swarm.document["workers"]:
        assert {line.arrival % shards for line in swarm.lines(worker)} <= {int(worker)}


def ended_well(swarm: Swarm, code: int) -> None:
    """The run ended by itself; its exit code says whether it was valid, and only a busy machine may have made it invalid."""
    document = swarm.document
    assert document["status"] == "finished"
    reasons = document["validity"]["reasons"]
    assert all(BUSY.search(reason) for reason in reasons), reasons
    assert code == (3 if reasons else 0)
