"""Write what came of a clause as plain data: it goes onto pytest's report, into JUnit's properties and into --r1-json."""

import dataclasses
import functools
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import pytest

from pytest_r1perf.markers import CONFIDENCE, Promise
from pytest_r1perf.options import Options
from pytest_r1perf.run import Check
from pytest_r1perf.unmeasured import Unmeasured
from r1perf.sla import Verdict, parse
from r1perf.summary import read_document


class Record(TypedDict):
    """One clause of one test.

    `test` is its id, `proven` says that a pass or a fail is, `archive` is a path from where pytest was started, `verdict` as in run.json.
    """

    test: str
    clause: str
    ruling: str  # pass, fail, inconclusive or error
    proven: bool
    target: str | None
    run_id: str | None
    archive: str | None
    text: str
    verdict: dict[str, Any]


_PROPERTIES = ("clause", "verdict", "over", "n", "n_eff", "value", "lower", "upper", "confidence")


def record(check: Check, item: pytest.Item, options: Options) -> Record:
    """Make the record of a check."""
    folder = check.run.folders[-1] if check.run.folders else None
    return Record(
        test=item.nodeid,
        clause=check.clause,
        ruling=check.ruling,
        proven=check.proven,
        target=check.verdict.target,
        run_id=None if folder is None else _run_id(folder),
        archive=None if folder is None else shown(folder, options),
        text=check.text,
        verdict=msgspec.to_builtins(check.verdict),
    )


def unmeasured(promise: Promise, test: str, error: Unmeasured, options: Options) -> Record:
    """Make the record of a clause that cannot be judged; where there is a run, it says which."""
    clause, sure = str(parse(promise.clause)), promise.confidence or CONFIDENCE
    verdict = Verdict(clause=clause, kind="none", verdict="error", says=str(error), confidence=sure, target=error.target)
    return Record(
        test=test,
        clause=clause,
        ruling="error",
        proven=False,
        target=error.target,
        run_id=None if error.folder is None else _run_id(error.folder),
        archive=None if error.folder is None else shown(error.folder, options),
        text=f"SLA ERROR  {clause}\n  {error}",
        verdict=msgspec.to_builtins(verdict),
    )


def observed(made: Record) -> bool:
    """Say whether what was observed has decided, without proof."""
    return made["ruling"] in ("pass", "fail") and not made["proven"]


def properties(made: Record) -> list[tuple[str, object]]:
    """Return JUnit properties; set on the item itself, since the fixture record_property warns under xunit2."""
    found = {name: made["verdict"].get(name) for name in _PROPERTIES} | {"verdict": made["ruling"]}
    given = {"proven": made["proven"], "target": made["target"], "run_id": made["run_id"], "archive": made["archive"]}
    return [(f"r1.{name}", value) for name, value in (found | given).items() if value is not None]


def with_rerun(check: Check, item: pytest.Item, options: Options) -> Check:
    """Say in the text how to look at this verdict again, on the recorded run."""
    if check.passed or not check.run.folders:
        return check
    # Of several runs of one side all are named, so that the same verdict comes out.
    words = ["pytest", "--r1-sla", *(f"--r1-run={shown(folder, options)}" for folder in _once(check.run.folders))]
    words += [f"--r1-baseline={shown(folder, options)}" for folder in _once(check.run.baseline)]
    rerun = f"  {'rerun':<10} {shlex.join([*words, item.nodeid])}"
    return dataclasses.replace(check, text=f"{check.text}\n{rerun}")


def _once(folders: Iterable[Path]) -> list[Path]:
    """Name each run by the first of its folders."""
    found: dict[str, Path] = {}
    for folder in folders:
        found.setdefault(_run_id(folder), folder)
    return list(found.values())


def shown(path: Path, options: Options) -> str:
    """Write a path from where pytest was started, where it lies below."""
    return os.path.relpath(path, options.invoked_in) if path.is_relative_to(options.invoked_in) else str(path)


@functools.cache
def _run_id(folder: Path) -> str:
    return read_document(folder).run_id
