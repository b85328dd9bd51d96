"""Servers and clients of the bench: the truth server, the floors, `r1perf run` with its CPU."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from r1perf import clock
from r1perf.journal import read_snapshots

ROOT = Path(__file__).parents[1]
KIT = ROOT.parent / "shared" / "bench"
CACHE = ROOT / ".cache" / "bench"
PORT = 9000  # the floors speak to this port and no other


class Cpu(msgspec.Struct, frozen=True):
    """What a command took: CPU of it and its children, its exit code and output."""

    cpu_s: float
    wall_s: float
    code: int
    output: str


def available() -> str | None:
    """Return what is missing for the bench; None where all is there."""
    if not KIT.is_dir():
        return "the bench kit (sseserver.c and the floors) does not lie beside the repository, in ../shared/bench"
    return None if shutil.which("cc") else "there is no C compiler (cc)"


@contextmanager
def truth_server(ttft_ms: float = 100, itl_ms: float = 20, tokens: int = 250) -> Iterator[None]:
    """Stream on an exact timetable on `PORT`, and keep the truth."""
    CACHE.mkdir(parents=True, exist_ok=True)
    program = CACHE / "sseserver"
    subprocess.run(["cc", "-O2", "-w", "-o", program, KIT / "sseserver.c", "-lm"], check=True)
    flags = ["--port", str(PORT), "--ttft-ms", str(ttft_ms), "--itl-ms", str(itl_ms), "--tokens", str(tokens)]
    process = subprocess.Popen([program, *flags])
    try:
        for _ in range(100):
            try:
                stats()
                break
            except OSError:
                clock.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def stats() -> dict[str, Any]:
    """Return what the truth server knows."""
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/stats", timeout=5) as response:
        known: dict[str, Any] = json.load(response)
    return known


def reset() -> None:
    """Let the truth server forget."""
    urllib.request.urlopen(f"http://127.0.0.1:{PORT}/reset", data=b"{}", timeout=5).close()


def measured(command: list[str]) -> Cpu:
    """Run a command to its end."""
    before, start_ns = resource.getrusage(resource.RUSAGE_CHILDREN), clock.monotonic_ns()
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env={**os.environ, "NO_COLOR": "1"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cpu(cpu_s, (clock.monotonic_ns() - start_ns) / 1e9, done.returncode, done.stdout + done.stderr)


class Ran(msgspec.Struct, frozen=True):
    """A run of r1perf against the truth server: its CPU, that of its worker, and its document."""

    cpu: Cpu
    worker_cpu_s: float
    rss_bytes: int  # of its largest worker, at most
    document: dict[str, Any]

    def row(self, metric: str) -> dict[str, Any]:
        """Return the distribution of a metric over the judged window."""
        rows = [
            row for row in self.document["series"] if row["metric"] == metric and not row.get("workload") and not row.get("stage")
        ]
        return dict(rows[0])


def r1perf(scenario: str, *arguments: str) -> Ran:
    """Run a scenario given as text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "bench.toml"
        path.write_text(scenario)
        cpu = measured([sys.executable, "-m", "r1perf", "run", str(path), "--runs", f"{folder}/runs", "--quiet", *arguments])
        archives = list((Path(folder) / "runs").glob("*"))
        if len(archives) != 1:
            raise RuntimeError(f"the run left no archive:\n{cpu.output}")
        document = json.loads((archives[0] / "run.json").read_text())
        healths = [taken.health for file in archives[0].glob("snapshots.*") for taken in read_snapshots(file)]
    worker_s = sum(health.cpu_ns for health in healths) / 1e9
    return Ran(cpu, worker_s, max(health.rss_bytes for health in healths), document)


def closed(sessions: int, requests: int, tokens: int, engine: str = "fast") -> str:
    """Write the scenario of a closed loop against the truth server."""
    return f"""
name = "bench"
requests = {requests}
[target]
url = "http://127.0.0.1:{PORT}/v1"
model = "deepseek-r1"
engine = "{engine}"
[workload.w]
dataset = {{ kind = "prompts", prompts = ["hello"] }}
max_tokens = {tokens}
[arrivals]
kind = "closed"
sessions = {sessions}
"""
