"""Find what a test is judged on: a load to send, or recorded runs; read before anything is sent."""

import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from pytest_r1perf import recordings
from pytest_r1perf.markers import CONFIDENCE, Declared, Load, Promise
from pytest_r1perf.options import Options
from pytest_r1perf.recordings import Recordings, archives
from pytest_r1perf.targets import Target, Targets, title, toml
from r1perf.errors import ClauseError, R1perfError, UsageError
from r1perf.scenario import Scenario, Shorthands, folder, load
from r1perf.sla import Clause, Scope, outline, parse, scope_of
from r1perf.sla.files import load as load_clauses
from r1perf.summary import read_document


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

_OPTION = re.compile(r"--(\w+)")


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
        self._against = tuple(found for path in options.baseline for found in archives(path, [options.invoked_in]))
        self._targets = Targets(options.targets)

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
        if self._against:
            return self._against
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

    def parsed(self, text: str, source: Source) -> Clause:
        """Read a clause and check its names against a load's scenario, or recorded runs, one of which has to have them; raises ClauseError."""
        wrong = None
        for scope in self._scopes_of(source):
            try:
                return parse(text, scope)
            except ClauseError as error:
                wrong = wrong or error
        if wrong is not None:
            raise wrong
        return parse(text)

    def _scopes_of(self, source: Source) -> Iterator[Scope | None]:
        if isinstance(source, Live):
            scenario = self._scenario(source.load, source.scenario)
            known = scope_of(scenario, outline(scenario))
            yield Scope(workloads=known.workloads, stages=known.stages, unjudged=known.unjudged)
            return
        yield from map(recordings.scope, source.archives)

    def prepared(self, live: Live, target: Target, promises: Iterable[Promise], stops: Mapping[str, float | None]) -> Prepared:
        """Return the scenario to run: on this target, with these clauses, with these hard limits at most. Raises UsageError."""
        asked = list(promises)
        confidences = {promise.confidence or CONFIDENCE for promise in asked}
        over = [f"{path}={toml(value)}" for path, value in self._targets.keys(target)]
        scenario = self._scenario(live.load, live.scenario, over)
        key = json.dumps([live.key, over])
        judged = [f"sla.clauses={toml(list(dict.fromkeys(promise.clause for promise in asked)))}"]
        if len(confidences) == 1:  # the run's own verdicts, of exact counts, then are those of the tests
            judged.append(f"sla.confidence={toml(confidences.pop())}")
        if self._options.fail_fast:
            judged.append("sla.fail_fast=true")
        limits = []
        for name, most in stops.items():
            stated = getattr(scenario.stop, name)
            if most is not None and (stated is None or most < stated):
                limits.append(f"stop.{name}={toml(most)}")
        try:
            made = self._scenario(live.load, live.scenario, [*over, *judged, *limits])
        except UsageError as error:
            if "stop.cost" in str(error) and stops["cost"] is not None:
                raise UsageError(f"--r1-max-cost: {error}") from error
            raise
        return Prepared(made, folder(live.scenario), key)

    def chosen(self, recorded: Recorded, target: Target) -> Recordings:
        """Return the runs of the test's target and scenario; raises UsageError where none is left, or different ones are."""
        return recordings.chosen(recorded.archives, recorded.given, recorded.scenario, target)

    def title(self, source: Source | None, target: Target) -> str | None:
        """Return the name of a target that is not, or cannot be, measured."""
        if not isinstance(source, Live):
            return title(target)
        try:
            over = [f"{path}={toml(value)}" for path, value in self._targets.keys(target)]
            return self._scenario(source.load, source.scenario, over).target.title
        except R1perfError:  # one that there is none of
            return title(target)

    def _scenario(self, declared: Load, scenario: str, over: Iterable[str] = ()) -> Scenario:
        given = {name: getattr(declared, name) for name in ("url", "model", "rate", "sessions", "requests", "duration")}
        sets = [f"{name}={toml(value)}" for name in ("warmup", "seed") if (value := getattr(declared, name)) is not None]
        sets += [f"{path}={toml(value)}" for path, value in declared.set.items()]
        try:
            return load(scenario, [*sets, *over, *self._options.sets], Shorthands(**given))
        except UsageError as error:
            if str(error).startswith("--"):  # an option of `r1perf run`, which here is an argument
                raise UsageError("r1_load: " + _OPTION.sub(r"`\1`", str(error))) from error
            raise

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
