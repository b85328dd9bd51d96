"""Tell people and programs what came of the clauses: a section of its own at the end, --r1-json, GitHub's step summary."""

import dataclasses
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pytest_r1perf import github
from pytest_r1perf.judging import LEFT_OUT
from pytest_r1perf.options import Options
from pytest_r1perf.records import Record, observed
from pytest_r1perf.run import Check
from r1perf import __version__
from r1perf.sla import Verdict, family
from r1perf.sla.render import needed

MARKS = {"pass": ("ok", "green"), "fail": ("FAIL", "red"), "error": ("ERROR", "red"), "inconclusive": ("?", "yellow")}
_MANY = {"pass": "passes", "fail": "fails", "error": "errors"}
_ORDER = ("error", "fail", "inconclusive", "pass")


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a failure is said to be; `message` is its headline."""

    path: str
    lineno: int
    message: str


@dataclasses.dataclass(frozen=True)
class Shown:
    """A verdict in place of a traceback: its text, and a headline for JUnit and for pytest's short summary."""

    text: str
    reprcrash: Place

    def toterminal(self, tw: Any) -> None:
        """Write the text."""
        first, _, rest = self.text.partition("\n")
        tw.line(first, red=True, bold=True)
        if rest:
            tw.line(rest)

    def __str__(self) -> str:
        """Return the text."""
        return self.text


def shown(made: Record, item: pytest.Item) -> Shown:
    """Return what stands for a failed clause."""
    path, line, _ = item.location
    head = made["text"].partition("\n")[0].partition("   [")[0]
    return Shown(made["text"], Place(path, (line or 0) + 1, f"{' '.join(head.split())}: {made['verdict']['says']}"))


def decided(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None], check: Check, made: Record) -> None:
    """Let the report of a test that its verdict has decided say so."""
    raised = None if call.excinfo is None else call.excinfo.value
    if isinstance(raised, pytest.fail.Exception) and raised.msg == check.text:
        report.longrepr = shown(made, item)  # type: ignore[assignment]
        report.r1_state = check.ruling  # type: ignore[attr-defined]
    elif isinstance(raised, pytest.skip.Exception) and check.skips:
        report.r1_state = "inconclusive"  # type: ignore[attr-defined]
    elif raised is None and check.observed:
        report.r1_state = "not proven"  # type: ignore[attr-defined]


class Reporter:
    """Gather the verdicts of the session where its reports arrive: in the one process, or in xdist's controller."""

    def __init__(self, config: pytest.Config, options: Options) -> None:
        self._config, self._options = config, options
        self.records: list[Record] = []
        self._unwritten: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the verdicts of a report."""
        self.records.extend(getattr(report, "r1_verdicts", ()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(
        self, report: pytest.CollectReport | pytest.TestReport
    ) -> tuple[str, str, tuple[str, dict[str, bool]]] | None:
        """Count an inconclusive verdict as such, and one that only the estimate decided."""
        if hasattr(report, "wasxfail"):
            return None
        match getattr(report, "r1_state", None):
            case "inconclusive":
                return "inconclusive", "?", ("INCONCLUSIVE", {"yellow": True})
            case "not proven":
                return "not proven", "?", ("NOT PROVEN", {"yellow": True})
        return None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files that were asked for; what cannot be written makes the command a wrong one."""
        if self._config.option.collectonly:
            return
        found, summary = self._unique(), os.environ.get("GITHUB_STEP_SUMMARY")
        if self._options.json is not None:
            self._write("--r1-json", self._options.json, "w", _json(found))
        if summary and found:
            self._write("GITHUB_STEP_SUMMARY", Path(summary), "a", github.summary(found))
        if self._unwritten:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print all verdicts, those that are not passes first, and the whole reckoning of the inconclusive ones."""
        for sentence in self._unwritten:
            terminalreporter.write_line(f"ERROR: {sentence}", red=True)
        found = self._unique()
        if not found or terminalreporter.verbosity <= -2:
            return
        terminalreporter.section("SLA verdicts")
        for made in found:
            mark, colour = MARKS[made["ruling"]]
            mark, colour = (f"{mark}?", "yellow") if observed(made) else (mark, colour)
            terminalreporter.write(f"{mark:<5} ", **{colour: True})
            terminalreporter.line(_line(made))
        for made in found:
            if made["ruling"] == "inconclusive":
                terminalreporter.line("")
                terminalreporter.line(made["text"])
        weak = _weak(found)
        if weak:
            terminalreporter.line("")
            terminalreporter.line(f"{weak} of the fails would not stand once all {len(found)} clauses are counted (Holm)")
        counts = Counter(f"{made['ruling']}, not proven" if observed(made) else made["ruling"] for made in found)
        terminalreporter.line("")
        terminalreporter.line("; ".join(_counted(n, ruling) for ruling, n in counts.items()))

    def _unique(self) -> list[Record]:
        """Return every clause of a test and run once (a body may check the same in each of its items), the worst first.

        Where there is no run, or an error, each item counts, as it does for pytest.
        """
        found: dict[tuple[object, ...], Record] = {}
        for made in self.records:
            alone = made["run_id"] is None or made["ruling"] == "error"
            test = made["test"] if alone else made["test"].partition("[")[0]
            found.setdefault((test, made["clause"], made["verdict"]["confidence"], made["run_id"], made["target"]), made)
        return sorted(found.values(), key=lambda made: (_ORDER.index(made["ruling"]), made["proven"]))

    def _write(self, what: str, path: Path, mode: str, text: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open(mode, encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            self._unwritten.append(f"{what}: {path} cannot be written: {error.strerror}")


def _json(found: list[Record]) -> str:
    counts = Counter(made["ruling"] for made in found)
    written = {"schema": 1, "r1perf": __version__, "counts": {ruling: counts[ruling] for ruling in _ORDER}, "verdicts": found}
    return json.dumps(written, indent=2) + "\n"


def _line(made: Record) -> str:
    verdict = msgspec.convert(made["verdict"], Verdict)
    target = "" if made["target"] is None else f"  [{made['target']}]"
    proven = "not proven: " if observed(made) else ""
    needs = needed(verdict) if made["ruling"] == "inconclusive" else None
    left_out = sum(LEFT_OUT in note for note in verdict.notes)
    more = [f"needs {needs}"] if needs else []
    more += [f"{left_out} {'run' if left_out == 1 else 'runs'} left out"] if left_out else []
    return "; ".join([f"{made['clause']}{target}  {proven}{verdict.says}", *more])


def _counted(n: int, ruling: str) -> str:
    word, comma, rest = ruling.partition(",")
    return f"{n} {word if n == 1 else _MANY.get(word, word)}{comma}{rest}"


def _weak(found: list[Record]) -> int:
    """Count the fails that do not stand for the whole family of clauses."""
    verdicts = [msgspec.convert(made["verdict"], Verdict) for made in found if made["ruling"] != "error"]
    return sum(one.holm is False for one in family(verdicts))
