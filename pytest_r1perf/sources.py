"""Find what a test is judged on: a load to send, or recorded runs; read before anything is sent."""

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_r1perf.markers import CONFIDENCE, Declared, Load, Promise, did_you_mean
from pytest_r1perf.options import Options
from r1perf.errors import UsageError
from r1perf.report import load as load_document
from r1perf.scenario import Scenario, Shorthands, folder, load
from r1perf.sla.files import load as load_clauses
from r1perf.summary import Document, read_document

Target = str | Mapping[str, Any] | None
"""What `r1_target` may be: a name of r1_targets, a URL, or a table as a scenario's [target]."""


@dataclasses.dataclass(frozen=True)
class Live:
    """A load to send. `scenario` is a path, or a name that r1perf knows."""

    load: Load
    scenario: str

    @property
    def key(self) -> str:
        """Return what tests that share it have in common, the target apart."""
        return json.dumps(
            [self.scenario, dataclasses.asdict(dataclasses.replace(self.load, baseline=None))], sort_keys=True, default=str
        )


@dataclasses.dataclass(frozen=True)
class Recorded:
    """Recorded runs, among which those of the test's target and scenario count."""

    archives: tuple[Path, ...]
    scenario: str | None = None  # its name, where the test declares one
    given: str = "r1_recorded"

    @property
    def key(self) -> str:
        """Return what tests that share it have in common."""
        return f"{self.archives}"


Source = Live | Recorded

Recordings = list[tuple[Path, Document]]
"""Archives and what their run.json holds."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A scenario that can be run as it is, the folder of its files, and what tests that share its run have in common."""

    scenario: Scenario
    base: Path
    key: str


class Sources:
    """Read sources, targets and clause files, each once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._given = tuple(found for path in options.runs for found in archives(path, [options.invoked_in]))
        self.promised = tuple(self._from_files(options.sla_files))
        self._targets = _targets(options.targets) if options.targets else {}

    def source(self, declared: Declared, test: Path) -> Source | None:
        """Return what a test in this file is judged on; None where it says nothing. Raises UsageError."""
        scenario = None if declared.load is None else self._path(declared.load.scenario, test)
        if self._given:
            name = None if declared.load is None or scenario is None else self._scenario(declared.load, scenario).name
            return Recorded(self._given, name, "--r1-run")
        if declared.recorded is not None:
            found = (each for path in declared.recorded.paths for each in archives(path, self._places(test)))
            return Recorded(tuple(found))
        if declared.load is None or scenario is None:
            return None
        self._scenario(declared.load, scenario)
        return Live(declared.load, scenario)

    def baseline(self, declared: Declared, test: Path) -> tuple[Path, ...]:
        """Return the runs that a test's `baseline` clauses compare with; the command line comes first."""
        if self._options.baseline:
            return tuple(found for path in self._options.baseline for found in archives(path, [self._options.invoked_in]))
        stated = next((each.baseline for each in (declared.load, declared.recorded) if each and each.baseline), ())
        paths = (stated,) if isinstance(stated, str) else stated
        return tuple(found for path in paths for found in archives(path, self._places(test)))

    def own(self, source: Source) -> tuple[Promise, ...]:
        """Return the clauses of the scenario itself."""
        if isinstance(source, Live):
            sla = self._scenario(source.load, source.scenario).sla
            clauses, confidence = sla.clauses, sla.confidence
        else:
            stated = read_document(source.archives[-1]).scenario.get("sla", {})
            clauses, confidence = tuple(stated.get("clauses", ())), stated.get("confidence", CONFIDENCE)
        return tuple(Promise(clause, None if confidence == CONFIDENCE else confidence) for clause in clauses)

    def file(self, name: str, test: Path) -> tuple[Promise, ...]:
        """Return the clauses of a file that a marker names."""
        return tuple(self._from_files([next((p for p in self._candidates(name, test) if p.is_file()), Path(name))]))

    def scenario(self, live: Live) -> Scenario:
        """Return the scenario of a load, on its own target."""
        return self._scenario(live.load, live.scenario)

    def prepared(self, live: Live, target: Target, promises: Iterable[Promise], stops: Mapping[str, float | None]) -> Prepared:
        """Return the scenario to run: on this target, with these clauses, with these hard limits at most. Raises UsageError."""
        asked = list(promises)
        confidences = {promise.confidence or CONFIDENCE for promise in asked}
        over = [f"{path}={_toml(value)}" for path, value in self._target(target)]
        scenario = self._scenario(live.load, live.scenario, over)
        key = json.dumps([live.key, over])
        judged = [f"sla.clauses={_toml(list(dict.fromkeys(promise.clause for promise in asked)))}"]
        if len(confidences) == 1:  # the run's own verdicts, of exact counts, then are those of the tests
            judged.append(f"sla.confidence={_toml(confidences.pop())}")
        if self._options.fail_fast:
            judged.append("sla.fail_fast=true")
        limits = []
        for name, most in stops.items():
            stated = getattr(scenario.stop, name)
            if most is not None and (stated is None or most < stated):
                limits.append(f"stop.{name}={_toml(most)}")
        return Prepared(self._scenario(live.load, live.scenario, [*over, *judged, *limits]), folder(live.scenario), key)

    def chosen(self, recorded: Recorded, target: Target) -> Recordings:
        """Return the runs of the test's target and scenario; raises UsageError where none is left, or different ones are."""
        runs = [(path, load_document(path)) for path in recorded.archives]
        if target is not None:
            runs = _of_target(runs, recorded, target)
        if recorded.scenario is not None:
            runs = _of_scenario(runs, recorded)
        names = sorted({f"{document.name} on {document.target}" for _, document in runs})
        if len(names) > 1:
            raise UsageError(f"{recorded.given}: the runs differ ({', '.join(names)}); name one, or choose with r1_target")
        return runs

    def _scenario(self, declared: Load, scenario: str, over: Iterable[str] = ()) -> Scenario:
        given = {name: getattr(declared, name) for name in ("url", "model", "rate", "sessions", "requests", "duration")}
        sets = [f"{name}={_toml(value)}" for name in ("warmup", "seed") if (value := getattr(declared, name)) is not None]
        sets += [f"{path}={_toml(value)}" for path, value in declared.set.items()]
        return load(scenario, [*sets, *over, *self._options.sets], Shorthands(**given))

    def _target(self, target: Target) -> Iterator[tuple[str, Any]]:
        """Go through the keys that a target lays over the scenario's own."""
        if isinstance(target, str) and target in self._targets:
            yield from _flat("target", {"name": target} | self._targets[target])
        elif isinstance(target, str) and ":" in target:
            yield "target.url", target
        elif isinstance(target, str):
            known = did_you_mean(target, self._targets) if self._targets else "there is no r1_targets file that says where it is"
            raise UsageError(f"r1_target: unknown target `{target}`; {known}")
        elif isinstance(target, Mapping):
            yield from _flat("target", target)
        elif target is not None:
            raise UsageError(f"r1_target must be a name, a URL or a table of a target's keys, not {target!r}")

    def _from_files(self, files: Iterable[Path]) -> Iterator[Promise]:
        for file in files:
            found = load_clauses(file)
            yield from (Promise(str(clause), found.confidence) for clause in found.clauses)

    def _places(self, test: Path) -> list[Path]:
        return [test.parent, self._options.rootdir, self._options.invoked_in]

    def _candidates(self, name: str, test: Path) -> list[Path]:
        return [place / name for place in self._places(test)]

    def _path(self, scenario: str, test: Path) -> str:
        return next((str(path) for path in self._candidates(scenario, test) if path.is_file()), scenario)


def archives(path: str, places: Iterable[Path]) -> list[Path]:
    """Return the archive at a path, or those in the folder there by name, which is by time; raises UsageError.

    Folders of `r1perf run --repeat` in the folder count too.
    """
    if "://" in path:
        raise UsageError(
            f"{path}: recorded runs are read from folders, since a database has no single requests; give the run's archive"
        )
    for place in places:
        found = place / path
        if (found / "run.json").is_file():
            return [found.resolve()]
        inside = [each.parent.resolve() for pattern in ("*/run.json", "*/*/run.json") for each in found.glob(pattern)]
        if inside:
            return sorted(inside)
    raise UsageError(f"{path}: no recorded run there: neither it nor a folder in it holds a run.json")


def _targets(file: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"r1_targets: {file} cannot be read: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f'r1_targets: {file}: `{name}` must be a table, as [vllm] with url = "..."')
    return tables


def _of_target(runs: Recordings, recorded: Recorded, target: Target) -> Recordings:
    """Keep the runs of a target, by its name or URL. A URL alone may change from run to run, so it only chooses."""
    table = {"url" if ":" in target else "name": target} if isinstance(target, str) else dict(target or {})
    kept = [run for run in runs if run[1].target == table.get("name") or run[1].url == table.get("url")]
    if not kept and "name" in table:
        there = ", ".join(sorted({document.target for _, document in runs}))
        raise UsageError(f"{recorded.given}: no run of the target {table['name']}; there: {there}")
    return kept or runs


def _of_scenario(runs: Recordings, recorded: Recorded) -> Recordings:
    kept = [run for run in runs if run[1].name == recorded.scenario]
    if not kept:
        there = ", ".join(sorted({document.name for _, document in runs}))
        raise UsageError(f"{recorded.given}: no run of the scenario {recorded.scenario}; there: {there}")
    return kept


def _flat(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{path}.{key}", value)
        else:
            yield f"{path}.{key}", value


def _toml(value: Any) -> str:
    """Write a value as TOML: that is JSON, but for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
