"""The embedded simulated endpoint: a process of its own, as a server would be, that ends with this one."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from r1perf.errors import UsageError


def arguments(profile: str, options: dict[str, str]) -> list[str]:
    """Return the command line's arguments for what a target's URL says."""
    return [text for name, value in {"profile": profile, **options}.items() for text in (f"--{name.replace('_', '-')}", value)]


@contextmanager
def simulator(profile: str, options: dict[str, str]) -> Iterator[tuple[str, Callable[[], bool]]]:
    """Start one on a free port and give its URL (".../v1") and whether it still lives; raises UsageError with its own sentence where it refuses."""
    process = subprocess.Popen(
        [sys.executable, "-m", "r1perf.simulator", "--port", "0", "--parent-pipe", "0", *arguments(profile, options)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a Ctrl-C ends the load first, and then the endpoint
    )
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        try:
            said = process.stdout.readline()
            if not said.startswith("listening on "):
                last = process.stderr.read().strip().splitlines() or [f"it ended with exit code {process.wait()}"]
                raise UsageError(
                    f"the simulated endpoint cannot start: {last[-1].removeprefix('Error: ').removeprefix('r1perf: ')}"
                )
            yield said.removeprefix("listening on ").strip(), lambda: process.poll() is None
        finally:
            process.stdin.close()
            try:
                process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                process.kill()
