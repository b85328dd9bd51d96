"""Judge in a test session: the plugin that `--r1-sla` registers."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_r1perf import records, reporting
from pytest_r1perf.judging import Judge
from pytest_r1perf.markers import NAMES, PROMISE, Declared, MarkerError, Promise, Sla, declared
from pytest_r1perf.options import Options, options
from pytest_r1perf.plan import Asked, plan
from pytest_r1perf.progress import Shown
from pytest_r1perf.run import Check, R1Run
from pytest_r1perf.runs import Runs
from pytest_r1perf.sources import Live, Source, Sources, Target
from r1perf.errors import R1perfError
from r1perf.sla import Baseline, Scope, outline, parse, require, scope_of

RUN = pytest.StashKey[R1Run]()
ERROR = pytest.StashKey[str]()
CHECKS = pytest.StashKey[list[Check]]()

_LIVE_WITH_XDIST = (
    "a load cannot be sent under xdist: several workers would each send it, and measure each other; "
    "leave -n out (-n0), or judge a recorded run with --r1-run"
)


class Session:
    """What holds for one session: sources read, runs made, verdicts given."""

    def __init__(self, config: pytest.Config) -> None:
        self.options: Options = options(config)
        self.config = config
        self._worker = hasattr(config, "workerinput")
        self._declared: dict[str, tuple[Declared, Source | None, tuple[Path, ...]]] = {}
        self._refused: set[str] = set()
        self.asked: list[Asked] = []
        try:
            require()
            self.sources = Sources(self.options)
        except R1perfError as error:
            raise pytest.UsageError(str(error)) from error
        self.runs = Runs(self.options, self.sources, Shown(config))
        self.judge = Judge(self.options.inconclusive)
        if not self._worker:
            config.pluginmanager.register(reporting.Reporter(config, self.options), "r1perf-report")

    # --- Collection ---

    def promises(self, found: Declared, metafunc: pytest.Metafunc, *, takes_run: bool) -> list[Promise]:
        """Return a test's clauses, read and checked; raises MarkerError."""
        node, test = metafunc.definition, metafunc.definition.path
        try:
            source, baseline = self.sources.source(found, test), self.sources.baseline(found, test)
            if source is None:
                raise MarkerError("nothing to judge: r1_sla needs r1_load, r1_recorded or --r1-run")
            if isinstance(source, Live) and self._worker:
                self._refused.add(str(node.parent.nodeid if node.parent else ""))
                raise MarkerError(_LIVE_WITH_XDIST)
            promises = list(dict.fromkeys(self._promises(found, source, test, takes_run=takes_run)))
            for promise in promises:
                self._check(promise, source, baseline)
        except R1perfError as error:
            raise MarkerError(str(error)) from error
        if not promises and not takes_run:
            raise MarkerError(
                "nothing to judge: there is no clause; give r1_sla some, put [sla] into the scenario, or take r1_run"
            )
        self._declared[_name(node)] = (found, source, baseline)
        return promises

    def _promises(self, found: Declared, source: Source, test: Path, *, takes_run: bool) -> Iterator[Promise]:
        markers = found.sla or (() if takes_run else (Sla(clauses=()),))
        for sla in markers:
            stated = [Promise(clause) for clause in sla.clauses]
            if sla.file is not None:
                stated += self.sources.file(sla.file, test)
            elif not sla.clauses:
                stated += self.sources.own(source)
            yield from (Promise(p.clause, sla.confidence or p.confidence) for p in stated)
        yield from self.sources.promised

    def _check(self, promise: Promise, source: Source, baseline: tuple[Path, ...]) -> None:
        """Read a clause; what depends on the target is checked when the run is prepared, still before anything is sent."""
        scope = None
        if isinstance(source, Live):
            scenario = self.sources.scenario(source)
            known = scope_of(scenario, outline(scenario))
            scope = Scope(workloads=known.workloads, stages=known.stages, unjudged=known.unjudged)
        clause = parse(promise.clause, scope)
        if isinstance(clause.bound, Baseline) and not baseline:
            raise MarkerError(f"`{clause}` needs the runs to compare with: --r1-baseline, or baseline= in r1_load or r1_recorded")

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Let the controller of xdist know that a worker would have had to send a load."""
        made = yield
        if collector.nodeid in self._refused:
            made.r1_live = True  # type: ignore[attr-defined]
        return made

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Refuse loads under xdist: the controller ends the session, as for any wrong command."""
        if getattr(report, "r1_live", False) and not self._worker:
            raise pytest.UsageError(_LIVE_WITH_XDIST)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Never run a verdict again until it passes: two reruns triple the share of false passes."""
        if self.config.pluginmanager.hasplugin("rerunfailures"):
            for item in items:
                if any(item.get_closest_marker(name) for name in NAMES):
                    item.add_marker(pytest.mark.flaky(reruns=0), append=False)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note which clauses will be asked of which run, so that a live run counts each exactly."""
        for item in session.items:
            promise = _promise(item)
            source = None if promise is None else self._of(item)[1]
            if promise is not None and source is not None:
                target = item.callspec.params.get("r1_target", self.options.target)  # type: ignore[attr-defined]
                self.asked.append(Asked(_name(item), source, target, promise))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the plan where nothing is to run."""
        if self.config.option.collectonly and self.asked:
            terminalreporter.section("SLA plan")
            for line in plan(self.asked, self.sources, self.options):
                terminalreporter.line(line)

    # --- Runs ---

    def run(self, item: pytest.Item, target: Target) -> R1Run:
        """Return the run of a test; where there is none that says anything, the test is an error."""
        made = self._made(item, target)
        if isinstance(made, str):
            item.stash[ERROR] = made
            pytest.fail(made, pytrace=False)
        item.stash[RUN] = made
        return made

    def _made(self, item: pytest.Item, target: Target) -> R1Run | str:
        """Return the run of a test, or why there is none."""
        try:
            _, source, baseline = self._of(item)
            if source is None:
                return "r1_run needs r1_load, r1_recorded or --r1-run"
            return self.runs.run(
                source,
                target,
                baseline,
                lambda: self._asked(source),
                lambda run, text, sure: self._checked(item, run, text, sure),
            )
        except (R1perfError, MarkerError) as error:
            return str(error)

    def _of(self, item: pytest.Item) -> tuple[Declared, Source | None, tuple[Path, ...]]:
        """Return what a test declares; one that only takes r1_run has none of it but the command line's."""
        name = _name(item)
        if name not in self._declared:
            found = declared(item)
            self._declared[name] = (found, self.sources.source(found, item.path), self.sources.baseline(found, item.path))
        return self._declared[name]

    def _asked(self, source: Source) -> list[Promise]:
        """Return the clauses that tests ask of a load."""
        return [one.promise for one in self.asked if one.source == source]

    # --- Verdicts ---

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge the item's clause after the test's own body."""
        result = yield
        promise = _promise(item)
        if promise is not None:
            check = self._checked(item, item.stash[RUN], promise.clause, promise.confidence)
            check.require()
        elif any(item.get_closest_marker(name) for name in NAMES) and RUN not in item.stash:
            pytest.fail("nothing was judged: r1_sla works on test functions and methods of plain classes", pytrace=False)
        return result

    def _checked(self, item: pytest.Item, run: R1Run, text: str, sure: float | None) -> Check:
        made: Check | R1perfError
        try:
            made = self.judge.check(run, text, sure)
        except R1perfError as error:
            made = error
        if isinstance(made, R1perfError):
            item.stash[ERROR] = str(made)
            pytest.fail(str(made), pytrace=False)
        check = records.with_rerun(made, item, self.options)
        item.stash.setdefault(CHECKS, []).append(check)
        return check

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the verdicts on the report, which travels from xdist's workers to the controller, and into its properties."""
        checks, promise = item.stash.get(CHECKS, []), _promise(item)
        item.stash[CHECKS] = []
        found = [records.record(check, item, self.options) for check in checks]
        if promise is not None and ERROR in item.stash:
            found.append(records.unmeasured(promise.clause, item, item.stash[ERROR]))
            del item.stash[ERROR]
        for made in found:
            item.user_properties.extend(records.properties(made))
        report = yield
        if found:
            report.r1_verdicts = found  # type: ignore[attr-defined]
        if checks and call.when == "call":
            _show(report, item, call, checks[-1], found[len(checks) - 1])
        return report


def _show(report: pytest.TestReport, item: pytest.Item, call: pytest.CallInfo[None], check: Check, made: records.Record) -> None:
    """Let the report of a test that its verdict has decided say so."""
    raised = None if call.excinfo is None else call.excinfo.value
    if isinstance(raised, pytest.fail.Exception) and raised.msg == check.text:
        report.longrepr = reporting.shown(made, item)  # type: ignore[assignment]
        report.r1_state = check.ruling  # type: ignore[attr-defined]
    elif isinstance(raised, pytest.skip.Exception) and check.skips:
        report.r1_state = "inconclusive"  # type: ignore[attr-defined]
    elif raised is None and not check.proven:
        report.r1_state = "not proven"  # type: ignore[attr-defined]


def _name(item: pytest.Item) -> str:
    """Return the id of a test without what its parameters add."""
    parent = item.parent.nodeid if item.parent is not None else ""
    return f"{parent}::{getattr(item, 'originalname', item.name)}"


def _promise(item: pytest.Item) -> Promise | None:
    callspec = getattr(item, "callspec", None)
    promise = None if callspec is None else callspec.params.get(PROMISE)
    return promise if isinstance(promise, Promise) else None
