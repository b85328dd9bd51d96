"""A small project of a user, with recorded runs in it, and ways to run pytest there."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from archives import archive

T = TypeVar("T")

STRICT = ("-W", "error", "--strict-markers", "--strict-config", "-p", "no:cacheprovider")

# A limit on ttft or e2e bounds how late the generator may be; tests that load leave it time, since the machine is shared.
BUSY = re.compile(r"is invalid.*(requests were sent late|stood still|of a core|the wall clock of worker)")
"""What a busy machine does to a run; r1perf then says that it is invalid, which is right, and no fault of the plugin."""


def measured(attempt: Callable[[], T], said: Callable[[T], str]) -> T:
    """Try, and once more where the machine was too busy to measure; skip where it still is."""
    for _ in range(2):
        made = attempt()
        if not BUSY.search(said(made)):
            return made
    pytest.skip("the machine is too busy to measure: the run was invalid, twice")


class Project:
    """A folder with tests and recorded runs in `runs/`, and ways to run pytest there."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self._started: list[subprocess.Popen[str]] = []

    def tests(self, text: str, name: str = "test_it.py") -> None:
        """Write a file of tests."""
        (self.path / name).write_text(f"import pytest\n{text}")

    def file(self, name: str, text: str) -> Path:
        """Write any other file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def record(self, folder: str = "one", /, **run: Any) -> Path:
        """Record a run: see `archives.archive`."""
        return archive(self.path / "runs" / folder, **run)

    def run(self, *words: str) -> pytest.RunResult:
        """Run pytest in this process, warnings being errors."""
        return self.pytester.runpytest_inprocess(*STRICT, *words)

    def judge(self, *words: str) -> pytest.RunResult:
        """Run pytest with `--r1-sla`."""
        return self.run("--r1-sla", *words)

    def verdicts(self, *words: str) -> dict[str, str]:
        """Judge, and return the ruling of each clause by its test's id."""
        self.judge("--r1-json", "verdicts.json", *words)
        return {made["test"].partition("::")[2]: made["ruling"] for made in self.json("verdicts.json")["verdicts"]}

    def json(self, name: str) -> Any:
        """Read a JSON file."""
        return json.loads((self.path / name).read_text())

    def junit(self, *words: str) -> list[ET.Element]:
        """Judge, and return JUnit's test cases."""
        self.judge("--junitxml", "junit.xml", *words)
        return list(ET.parse(self.path / "junit.xml").getroot().iter("testcase"))

    def start(self, *words: str, **popen: Any) -> "subprocess.Popen[str]":
        """Start pytest in a process of its own."""
        command = [sys.executable, "-m", "pytest", *STRICT, *words]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT} | popen
        self._started.append(subprocess.Popen(command, cwd=self.path, text=True, env=kept, **given))
        return self._started[-1]

    def end(self) -> None:
        """End what still runs."""
        for process in self._started:
            if process.poll() is None:
                process.kill()
                process.communicate()

    def out(self, *words: str, seconds: float = 60) -> tuple[int, str]:
        """Run pytest in a process of its own; return its exit code and all that it printed."""
        process = self.start(*words)
        try:
            said, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            said, _ = process.communicate()
            raise AssertionError(f"it did not end in {seconds} s:\n{said}") from None
        return process.returncode, said

    @property
    def archives(self) -> list[Path]:
        """Return the archives of runs that were made."""
        return sorted(path.parent for path in (self.path / "runs").glob("*/run.json"))
