"""Make each run once, and give it to every test that declares it."""

import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from pytest_r1perf.loading import carry_out
from pytest_r1perf.markers import Promise
from pytest_r1perf.messages import Order
from pytest_r1perf.options import Options
from pytest_r1perf.progress import Shown
from pytest_r1perf.run import Check, R1Run
from pytest_r1perf.sources import Live, Prepared, Recorded, Source, Sources, Target
from r1perf.errors import R1perfError, TargetError, UsageError
from r1perf.report import load as load_document
from r1perf.scenario import Scenario, resolved, simulated
from r1perf.summary import Document

Judging = Callable[[R1Run, str, float | None], Check]


class Unmeasured(R1perfError):
    """Say why a run is no measurement: it could not be made, did not come to its end, or is invalid."""


@dataclasses.dataclass
class Spent:
    """What the loads of this session have cost, in USD and in requests."""

    cost: float = 0.0
    requests: int = 0


class Runs:
    """The runs of a session. What went wrong with one is said to every test that shares it; it is not tried again."""

    def __init__(self, options: Options, sources: Sources, shown: Shown) -> None:
        self._options, self._sources, self._shown = options, sources, shown
        self._spent = Spent()
        self._made: dict[str, tuple[tuple[Path, ...], str | None] | R1perfError] = {}

    def run(
        self, source: Source, target: Target, baseline: tuple[Path, ...], asked: Callable[[], Iterable[Promise]], judge: Judging
    ) -> R1Run:
        """Return the run, made now where it has not been; raises Unmeasured or UsageError."""
        key = json.dumps([type(source).__name__, source.key, target], sort_keys=True, default=str)
        if key not in self._made:
            try:
                self._made[key] = self._folders(source, target, asked)
            except R1perfError as error:
                self._made[key] = error
        made = self._made[key]
        if isinstance(made, R1perfError):
            raise made
        folders, stopped = made
        return R1Run(folders, baseline, stopped, judge=judge)

    def _folders(
        self, source: Source, target: Target, asked: Callable[[], Iterable[Promise]]
    ) -> tuple[tuple[Path, ...], str | None]:
        if isinstance(source, Recorded):
            chosen = self._sources.chosen(source, target)
            for path, document in chosen:
                _measured(document, path)
            return tuple(path for path, _ in chosen), None
        folders: list[Path] = []
        for number in range(source.load.repeat):
            prepared = self._prepared(source, target, asked())
            if isinstance(prepared, str):
                return tuple(folders), prepared
            which = f", run {number + 1} of {source.load.repeat}" if source.load.repeat > 1 else ""
            folders.append(self._load(source, prepared, which))
        return tuple(folders), None

    def _prepared(self, live: Live, target: Target, asked: Iterable[Promise]) -> Prepared | str:
        """Return what to run, or why the budget allows nothing more."""
        options = self._options
        cost = None if options.max_cost is None else options.max_cost - self._spent.cost
        requests = None if options.max_requests is None else options.max_requests - self._spent.requests
        if cost is not None and cost <= 0:
            return f"--r1-max-cost: ${options.max_cost:,.2f} are spent, so nothing was sent"
        if requests is not None and requests <= 0:
            return f"--r1-max-requests: {options.max_requests:,} requests are sent, so nothing more was"
        try:
            return self._sources.prepared(live, target, asked, {"cost": cost, "requests": requests})
        except UsageError as error:
            if "stop.cost" in str(error) and cost is not None:
                raise UsageError(f"--r1-max-cost: {error}") from error
            raise

    def _load(self, live: Live, prepared: Prepared, which: str) -> Path:
        scenario = prepared.scenario
        self._shown.begin(f"{scenario.name} on {_where(scenario)}{which}")
        order = Order(resolved(scenario), str(prepared.base), str(self._options.archives), live.load.workers)
        done = carry_out(order, self._shown.tell)
        if done.folder is None:
            self._shown.end(f"{scenario.name} was not run")
            raise Unmeasured(f"the load of {scenario.name} on {_where(scenario)} was not sent: {done.sentence}")
        folder = Path(done.folder)
        document = load_document(folder)
        self._count(document, scenario)
        self._shown.end(f"{scenario.name} is in {_relative(folder, self._options.invoked_in)}")
        if done.code == _WRONG:
            raise TargetError(f"{done.sentence} (archive {folder})")
        _measured(document, folder)
        return folder

    def _count(self, document: Document, scenario: Scenario) -> None:
        """Add what a run has cost, with the requests that were sent to calibrate it."""
        spent = self._spent
        spent.requests += document.counts.get("scheduled", 0)
        for row in document.workloads:
            calibration = None if row.prompting is None else row.prompting.calibration
            if calibration is not None:  # its requests ask for one token each
                spent.requests += calibration.requests
                spent.cost += document.price.cost(calibration.input_tokens, 0, calibration.requests) or 0.0
        if document.cost is not None:
            spent.cost += document.cost.usd
        elif scenario.stop.cost is not None:
            spent.cost += scenario.stop.cost  # nobody knows what was billed


_WRONG = 2


def _measured(document: Document, folder: Path) -> None:
    """Raise Unmeasured where a run says nothing on the target."""
    if document.status != "finished":
        why = document.reason or document.status
        raise Unmeasured(f"{folder.name} did not come to its end: {why}")
    if not document.validity.valid:
        raise Unmeasured(
            f"{folder.name} is invalid, so it says nothing on {document.target}: {'; '.join(document.validity.reasons)}"
        )


def _where(scenario: Scenario) -> str:
    target = scenario.target
    if target.name is not None:
        return target.name
    return "the simulated endpoint" if simulated(target.url) is not None else f"{target.url}, {target.model}"


def _relative(path: Path, start: Path) -> str:
    return str(path.relative_to(start)) if path.is_relative_to(start) else str(path)
