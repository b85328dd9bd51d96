"""Whole runs of the command line, and what they leave: exit code, output, archive."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec

from r1perf.journal import read_requests
from r1perf.result import Result
from r1perf.simulator.truth import Truth

R1PERF = [sys.executable, "-m", "r1perf"]

BUSY = re.compile(r"requests were sent late|stood still|of a core|the wall clock of worker")
"""What a busy machine does to a run; r1perf then says that it is invalid, which is right, and no fault of it."""


class Ran:
    """One command that was carried out; `runs` is where its archives are."""

    def __init__(self, process: "subprocess.Popen[str]", runs: Path, seconds: float) -> None:
        self.runs = runs
        try:
            self.stdout, self.stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            self.stdout, self.stderr = process.communicate()
            raise AssertionError(f"it did not end in {seconds} s: {self.stdout}\n{self.stderr}") from None
        self.code = process.returncode

    @property
    def folder(self) -> Path:
        """Return the one archive."""
        folders = [path.parent for path in self.runs.rglob("run.json")]
        assert len(folders) == 1, self.stderr
        return folders[0]

    @property
    def document(self) -> dict:
        """Return run.json."""
        return json.loads((self.folder / "run.json").read_text())

    @property
    def results(self) -> list[Result]:
        """Return every line of every worker, in the order in which the requests ended."""
        return [result for path in sorted(self.folder.glob("requests.*.jsonl")) for result in read_requests(path)]

    def written(self) -> str:
        """Return all that is anywhere in the archives."""
        return "".join(path.read_text("utf-8", "replace") for path in self.runs.rglob("*") if path.is_file())


def start(runs: Path, *words: str | Path, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """Begin `r1perf run` with its archives in `runs`."""
    command = [*R1PERF, "run", *map(str, words), "--runs", str(runs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **(env or {})})


def run(runs: Path, *words: str | Path, env: dict[str, str] | None = None, seconds: float = 60) -> Ran:
    """Carry out `r1perf run`."""
    return Ran(start(runs, *words, env=env), runs, seconds)


def ended(ran: Ran) -> None:
    """Check that a run ended by itself, lost nothing and agrees with itself; only a busy machine may have made it invalid."""
    document = ran.document
    assert "Traceback" not in ran.stdout + ran.stderr
    assert document["status"] == "finished", ran.stderr
    reasons = document["validity"]["reasons"]
    assert all(BUSY.search(reason) for reason in reasons), reasons
    assert ran.code == (3 if reasons or "reason" in document else 0), ran.stderr
    adds_up(ran)


def adds_up(ran: Ran) -> None:
    """Check that every scheduled request is one line with one outcome, and that run.json counts the same."""
    counts = dict(ran.document["counts"])
    scheduled, in_flight = counts.pop("scheduled"), counts.pop("in_flight")
    results = ran.results
    assert in_flight == 0
    assert scheduled == sum(counts.values()) == len(results)
    assert len({result.id for result in results}) == len(results)
    assert counts == dict(Counter(str(result.outcome) for result in results))


def refused(ran: Ran, says: str) -> None:
    """Check that nothing was begun: one sentence, exit code 2, no archive."""
    assert ran.code == 2, ran.stderr
    assert re.search(says, ran.stderr), ran.stderr
    assert ran.stderr.startswith("r1perf: ")
    assert len(ran.stderr.strip().splitlines()) == 1, ran.stderr
    assert ran.stdout == ""
    assert not list(ran.runs.rglob("*")), list(ran.runs.rglob("*"))


def truths(path: Path) -> list[Truth]:
    """Read the simulated endpoint's log of what it did."""
    return [msgspec.json.decode(line, type=Truth) for line in path.read_bytes().splitlines()]
