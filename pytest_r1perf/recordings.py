"""Find recorded runs, and those among them that a test is judged on."""

import functools
from collections.abc import Iterable
from pathlib import Path

from pytest_r1perf.targets import Target
from r1perf.errors import R1perfError, UsageError
from r1perf.report import load as load_document
from r1perf.scenario import load
from r1perf.sla import Scope, scope_of
from r1perf.sla.archive import on_disk
from r1perf.summary import Document, read_document

Recordings = list[tuple[Path, Document]]
"""Archives and what their run.json holds."""


def archives(path: str, places: Iterable[Path]) -> list[Path]:
    """Return the archive at a path, or those in the folder there by name, which is by time; raises UsageError.

    Folders of `r1perf run --repeat` in the folder count too.
    """
    for place in places:
        found = place / on_disk(path)
        if (found / "run.json").is_file():
            return [found.resolve()]
        inside = [each.parent.resolve() for pattern in ("*/run.json", "*/*/run.json") for each in found.glob(pattern)]
        if inside:
            return sorted(inside)
    raise UsageError(f"{path}: no recorded run there: neither it nor a folder in it holds a run.json")


def chosen(paths: Iterable[Path], given: str, scenario: str | None, target: Target) -> Recordings:
    """Return the runs of a target and a scenario; raises UsageError where none is left, or different ones are.

    `given` is what named the runs, for the message.
    """
    runs = [(path, load_document(path)) for path in paths]
    if target is not None:
        runs = _of_target(runs, given, target)
    if scenario is not None:
        runs = _of_scenario(runs, given, scenario)
    names = sorted({f"{document.name} on {document.target}" for _, document in runs})
    if len(names) > 1:
        raise UsageError(f"{given}: the runs differ ({', '.join(names)}); name one, or choose with r1_target")
    return runs


@functools.cache
def scope(archive: Path) -> Scope | None:
    """Return what clauses on a recorded run may name; None where it cannot be read, which its tests will say."""
    try:
        written = read_document(archive)
        return scope_of(load(written.scenario), [(row.plan.name, row.plan.judged) for row in written.stages])
    except R1perfError:
        return None


def _of_target(runs: Recordings, given: str, target: Target) -> Recordings:
    """Keep the runs of a target, by its name or URL. A URL alone may change from run to run, so it only chooses."""
    table = {"url" if ":" in target else "name": target} if isinstance(target, str) else dict(target or {})
    kept = [run for run in runs if run[1].target == table.get("name") or run[1].url == table.get("url")]
    if not kept and "name" in table:
        there = ", ".join(sorted({document.target for _, document in runs}))
        raise UsageError(f"{given}: no run of the target {table['name']}; there: {there}")
    return kept or runs


def _of_scenario(runs: Recordings, given: str, scenario: str) -> Recordings:
    kept = [run for run in runs if run[1].name == scenario]
    if not kept:
        there = ", ".join(sorted({document.name for _, document in runs}))
        raise UsageError(f"{given}: no run of the scenario {scenario}; there: {there}")
    return kept
