"""Make each run once, and give it to every test that declares it."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_r1perf.loading import Interrupted, carry_out
from pytest_r1perf.markers import Promise
from pytest_r1perf.messages import Done, Order
from pytest_r1perf.options import Options
from pytest_r1perf.progress import Shown
from pytest_r1perf.recordings import Recordings
from pytest_r1perf.run import Check, R1Run
from pytest_r1perf.sources import Live, Prepared, Recorded, Source, Sources
from pytest_r1perf.targets import Target
from pytest_r1perf.unmeasured import Unmeasured
from r1perf.budget import usd
from r1perf.errors import R1perfError
from r1perf.report import load as load_document
from r1perf.scenario import Scenario, resolved, simulated
from r1perf.summary import Document

Judging = Callable[[R1Run, str, float | None], Check]


@dataclasses.dataclass(frozen=True)
class Spent:
    """What loads took, in USD and in requests."""

    cost: float = 0.0
    requests: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        """Add two up."""
        return Spent(self.cost + other.cost, self.requests + other.requests)


@dataclasses.dataclass(frozen=True)
class Side:
    """The runs of one side, why there are no more, and what is said of those that are invalid and left out."""

    folders: tuple[Path, ...]
    stopped: str | None = None
    left_out: tuple[str, ...] = ()


class Runs:
    """The runs of a session. What went wrong with one is said to every test that shares it; it is not tried again."""

    def __init__(self, options: Options, sources: Sources, shown: Shown) -> None:
        self._options, self._sources, self._shown = options, sources, shown
        self._spent = Spent()
        self._made: dict[str, Side | R1perfError] = {}

    def run(
        self, source: Source, target: Target, baseline: tuple[Path, ...], asked: Callable[[], Iterable[Promise]], judge: Judging
    ) -> R1Run:
        """Return the run, made now where it has not been; raises Unmeasured or UsageError."""
        key = json.dumps([type(source).__name__, source.key, target], sort_keys=True, default=str)
        if key not in self._made:
            try:
                self._made[key] = self._side(source, target, asked)
            except R1perfError as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, R1perfError):
            raise made
        return R1Run(made.folders, baseline, made.stopped, made.left_out, tuple(asked()), judge=judge)

    def _side(self, source: Source, target: Target, asked: Callable[[], Iterable[Promise]]) -> Side:
        if isinstance(source, Recorded):
            return _valid(self._sources.chosen(source, target))
        made: list[tuple[Path, Document]] = []
        for number in range(source.load.repeat):
            prepared = self._prepared(source, target, asked())
            if isinstance(prepared, str):
                return dataclasses.replace(_valid(made), stopped=prepared)
            which = f", run {number + 1} of {source.load.repeat}" if source.load.repeat > 1 else ""
            made.append(self._load(source, prepared, which))
        return _valid(made)

    def _prepared(self, live: Live, target: Target, asked: Iterable[Promise]) -> Prepared | str:
        """Return what to run, or why the budget allows nothing more."""
        options = self._options
        cost = None if options.max_cost is None else options.max_cost - self._spent.cost
        requests = None if options.max_requests is None else options.max_requests - self._spent.requests
        if options.max_cost is not None and options.max_cost <= self._spent.cost:
            return f"--r1-max-cost: {usd(options.max_cost)} are spent, so nothing was sent"
        if requests is not None and requests <= 0:
            return f"--r1-max-requests: {options.max_requests:,} requests are sent, so nothing more was"
        return self._sources.prepared(live, target, asked, {"cost": cost, "requests": requests})

    def _load(self, live: Live, prepared: Prepared, which: str) -> tuple[Path, Document]:
        scenario = prepared.scenario
        self._shown.begin(f"{scenario.name} on {_where(scenario)}{which}")
        order = Order(resolved(scenario), str(prepared.base), str(self._options.archives), live.load.workers)
        title, ends = scenario.target.title, False
        try:
            done = carry_out(order, self._shown.tell)
        except Interrupted as error:
            done, ends = error.done or Done(_WRONG, _KILLED, None), True
        if done.folder is None:
            self._shown.end(f"{scenario.name} was not run")
            why = f"the load of {scenario.name} on {_where(scenario)} was not {'completed' if ends else 'sent'}: {done.sentence}"
            raise Unmeasured(why, target=title, ends=ends)
        folder = Path(done.folder)
        document = load_document(folder)
        self._spent += spent_by(document, scenario)
        self._shown.end(f"{scenario.name} is in {_relative(folder, self._options.invoked_in)}")
        if ends:
            raise Unmeasured(_unfinished(folder, document), target=title, folder=folder, ends=True)
        if done.code == _WRONG:
            raise Unmeasured(f"{done.sentence} (archive {folder})", target=title, folder=folder)
        return folder, document


def spent_by(document: Document, scenario: Scenario) -> Spent:
    """Return what a run took, with the requests that were sent to calibrate it."""
    cost, requests = 0.0, document.counts.get("scheduled", 0)
    for row in document.workloads:
        calibration = None if row.prompting is None else row.prompting.calibration
        if calibration is not None:  # its requests ask for one token each
            requests += calibration.requests
            cost += document.price.cost(calibration.input_tokens, 0, calibration.requests) or 0.0
    known = document.cost
    if known is not None and not known.untold:
        cost += known.usd or 0.0
    else:  # nobody knows what was billed
        bounds = (scenario.stop.cost, None if known is None else known.usd_most)
        cost += min((bound for bound in bounds if bound is not None), default=0.0)
    return Spent(cost, requests)


_WRONG = 2
_KILLED = "killed by a third Ctrl-C; `r1perf recover` completes what it wrote in the folder of runs"


def _valid(made: Recordings) -> Side:
    """Leave out what is invalid; raises Unmeasured where nothing is left, or where a run did not come to its end."""
    invalid = {}
    for folder, document in made:
        if document.status != "finished":
            raise Unmeasured(_unfinished(folder, document), target=document.target, folder=folder)
        if not document.validity.valid:
            invalid[folder] = "; ".join(document.validity.reasons)
    folders = tuple(folder for folder, _ in made if folder not in invalid)
    if invalid and not folders:
        folder, document = made[-1]
        says = (f"{folder.name} is invalid, so it says nothing on {document.target}: {why}" for folder, why in invalid.items())
        raise Unmeasured("\n".join(says), target=document.target, folder=folder)
    return Side(folders, left_out=tuple(f"{folder.name} was left out: it is invalid ({why})" for folder, why in invalid.items()))


def _unfinished(folder: Path, document: Document) -> str:
    return f"{folder.name} did not come to its end: {document.reason or document.status}"


def _where(scenario: Scenario) -> str:
    target = scenario.target
    if target.name is not None:
        return target.name
    return "the simulated endpoint" if simulated(target.url) is not None else f"{target.url}, {target.model}"


def _relative(path: Path, start: Path) -> str:
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)
