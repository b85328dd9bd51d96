"""Say which recorded runs may be compared: each once, on one side only, and of the same scenario."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from r1perf.errors import UsageError
from r1perf.summary import Document, read_document

_LOAD = ("workload", "arrivals", "duration", "requests", "warmup", "cooldown")
"""What of a scenario says which load is sent."""


class Picked(msgspec.Struct, frozen=True):
    """Runs that count, with what is said of them and of others."""

    runs: tuple[Path, ...]
    notes: tuple[str, ...] = ()


_Read = dict[str, tuple[Path, Document]]
"""Runs by their id."""


def distinct(runs: Iterable[Path]) -> Picked:
    """Take each run once, by its id: one run is no two, however its folder is written or copied. Raises ArchiveError."""
    read, notes = _read(runs)
    return Picked(tuple(run for run, _ in read.values()), tuple(notes))


def sides(run: Path, baseline: Sequence[Path], beside: Sequence[Path]) -> tuple[Picked, Picked]:
    """Return the runs of the baseline against which a run can be held, and those beside it.

    Raises ArchiveError, and UsageError where a run is on both sides.
    """
    mine, notes_on_mine = _read([run, *beside])
    theirs, notes_on_theirs = _read(baseline)
    for run_id in mine.keys() & theirs.keys():
        raise UsageError(f"{theirs[run_id][0]}: is on both sides of the comparison, and no run can be its own baseline")
    (_, written), *others = mine.values()
    return _alike(written, theirs.values(), notes_on_theirs), _alike(written, others, notes_on_mine)


def _read(runs: Iterable[Path]) -> tuple[_Read, list[str]]:
    found: _Read = {}
    notes = []
    for run in runs:
        document = read_document(run)
        first, _ = found.setdefault(document.run_id, (run, document))
        if found[document.run_id][1] is not document:
            notes.append(f"{run} counts once: {'it was given before' if first == run else f'it is the run of {first}'}")
    return found, notes


def _alike(written: Document, runs: Iterable[tuple[Path, Document]], notes: list[str]) -> Picked:
    """Keep the runs of the same scenario; where it has been changed since, say so."""
    kept = []
    for run, other in runs:
        if _named(other) != _named(written):
            notes.append(f"{run} was left out: it is of {_named(other)}, not of {_named(written)}")
            continue
        kept.append(run)
        differ = [f"`{key}`" for key in _LOAD if other.scenario.get(key) != written.scenario.get(key)]
        if differ:
            notes.append(f"{run} had another load than this run: its {', '.join(differ)} differ{'s' * (len(differ) == 1)}")
    return Picked(tuple(kept), tuple(notes))


def _named(written: Document) -> str:
    names = sorted(row.name for row in written.workloads)
    return f"the scenario {written.name} (workload{'s' * (len(names) > 1)} {', '.join(names)})"
