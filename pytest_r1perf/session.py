"""Judge in a test session: the plugin that `--r1-sla` registers."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_r1perf import records, reporting
from pytest_r1perf.items import marked, promise_of, test_of
from pytest_r1perf.judging import Judge
from pytest_r1perf.markers import Declared, MarkerError, Promise, Sla, declared
from pytest_r1perf.options import Options, options
from pytest_r1perf.plan import Asked, Planner
from pytest_r1perf.progress import Shown
from pytest_r1perf.run import Check, R1Run
from pytest_r1perf.runs import Runs
from pytest_r1perf.sources import Live, Source, Sources
from pytest_r1perf.targets import Target
from pytest_r1perf.unmeasured import Unmeasured
from r1perf.errors import R1perfError
from r1perf.sla import Baseline, require

RUN = pytest.StashKey[R1Run]()
ERROR = pytest.StashKey[Unmeasured]()
CHECKS = pytest.StashKey[list[Check]]()

_NOTHING = (Declared(None, None, ()), None, ())

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
        self._ended = False  # by Ctrl-C, during a load
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
        if config.option.collectonly:
            config.pluginmanager.register(Planner(self.asked, self.sources, self.options), "r1perf-plan")

    # --- Collection ---

    def promises(self, found: Declared, metafunc: pytest.Metafunc, *, takes_run: bool) -> list[Promise]:
        """Return a test's clauses, read and checked; raises MarkerError."""
        node, test = metafunc.definition, metafunc.definition.path
        try:
            source, baseline = self.sources.source(found, test), self.sources.baseline(found, test)
            if source is None:
                raise MarkerError("nothing to judge: r1_sla needs r1_load, r1_recorded or --r1-run")
            promises = list(dict.fromkeys(self._promises(found, source, test, takes_run=takes_run)))
            for promise in promises:
                self._check(promise, source, baseline)
        except R1perfError as error:
            raise MarkerError(str(error)) from error
        if not promises and not takes_run:
            raise MarkerError(
                "nothing to judge: there is no clause; give r1_sla some (on the test function, not in pytest.param), "
                "put [sla] into the scenario, or take r1_run"
            )
        self._declared[test_of(node)] = (found, source, baseline)
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
        """Read a clause; what depends on the target is checked when the run is prepared or chosen, before anything is sent."""
        clause = self.sources.parsed(promise.clause, source)
        if isinstance(clause.bound, Baseline) and not baseline:
            raise MarkerError(f"`{clause}` needs the runs to compare with: --r1-baseline, or baseline= in r1_load or r1_recorded")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Refuse loads under xdist: the controller ends the session, as for any wrong command."""
        if getattr(report, "r1_live", False) and not self._worker:
            raise pytest.UsageError(_LIVE_WITH_XDIST)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Never run a verdict again until it passes: two reruns triple the share of false passes."""
        if self.config.pluginmanager.hasplugin("rerunfailures"):
            for item in items:
                if marked(item):
                    item.add_marker(pytest.mark.flaky(reruns=0), append=False)

    @pytest.hookimpl(tryfirst=True)  # before a worker of xdist tells what it has collected, for which it is given work
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what will be asked of which run, so that a live run counts each clause exactly."""
        for item in session.items:
            _, source, _ = self._declared.get(test_of(item), _NOTHING)
            if isinstance(source, Live) and self._worker:
                refused = pytest.CollectReport(session.nodeid, "failed", _LIVE_WITH_XDIST, None, r1_live=True)
                self.config.hook.pytest_collectreport(report=refused)
                return
            if source is not None:
                self.asked.append(Asked(item.nodeid, test_of(item), source, self._aimed(item), promise_of(item)))

    def _aimed(self, item: pytest.Item) -> Target:
        """Return the target that an item is to be judged on, unless a fixture of its own knows better."""
        callspec = getattr(item, "callspec", None)
        target: Target = self.options.target if callspec is None else callspec.params.get("r1_target", self.options.target)
        return target

    # --- Runs ---

    def run(self, item: pytest.Item, target: Target) -> R1Run:
        """Return the run of a test; where there is none that says anything, the test is an error."""
        made = self._made(item, target)
        if isinstance(made, Unmeasured):
            self._ended |= made.ends
            item.stash[ERROR] = made
            pytest.fail(str(made), pytrace=False)
        item.stash[RUN] = made
        return made

    def _made(self, item: pytest.Item, target: Target) -> R1Run | Unmeasured:
        """Return the run of a test, or why there is none."""
        try:
            _, source, baseline = self._of(item)
            if source is None:
                return Unmeasured("r1_run needs r1_load, r1_recorded or --r1-run")
            if isinstance(source, Live) and self._worker:  # of a marker that a hook has added too late
                return Unmeasured(_LIVE_WITH_XDIST)
            return self.runs.run(
                source,
                target,
                baseline,
                lambda: self._asked(source),
                lambda run, text, sure: self._checked(item, run, text, sure),
            )
        except Unmeasured as error:
            return error
        except (R1perfError, MarkerError) as error:
            return Unmeasured(str(error), target=self.sources.title(source, target))

    def fits(self, item: pytest.Item, promise: Promise) -> None:
        """Judge an item's clause before its body: one that cannot be judged on this run is an error, as a run that says nothing."""
        run = item.stash[RUN]
        try:
            self.judge.check(run, promise.clause, promise.confidence)
        except R1perfError as error:
            folder = run.folders[-1] if run.folders else None
            made = Unmeasured(str(error), target=None if folder is None else run.document.target, folder=folder)
        else:
            return
        item.stash[ERROR] = made
        pytest.fail(str(made), pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """End the session when Ctrl-C has ended a load, and its test has been reported."""
        result = yield
        if self._ended:
            raise KeyboardInterrupt
        return result

    def _of(self, item: pytest.Item) -> tuple[Declared, Source | None, tuple[Path, ...]]:
        """Return what a test declares; one that only takes r1_run has none of it but the command line's."""
        name = test_of(item)
        if name not in self._declared:
            found = declared(item)
            self._declared[name] = (found, self.sources.source(found, item.path), self.sources.baseline(found, item.path))
        return self._declared[name]

    def _beside(self, item: pytest.Item) -> list[Asked]:
        """Return what else is asked of the run of an item."""
        source, target = self._of(item)[1], self._aimed(item)
        return [one for one in self.asked if (one.source, one.target) == (source, target) and one.item != item.nodeid]

    def _asked(self, source: Source) -> list[Promise]:
        """Return the clauses that tests ask of a load."""
        return [one.promise for one in self.asked if one.source == source and one.promise is not None]

    # --- Verdicts ---

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Judge the item's clause after the test's own body."""
        result = yield
        promise = promise_of(item)
        if promise is not None:
            check = self._checked(item, item.stash[RUN], promise.clause, promise.confidence)
            check.require()
        return result

    def _checked(self, item: pytest.Item, run: R1Run, text: str, sure: float | None) -> Check:
        made: Check | R1perfError
        try:
            made = self.judge.check(run, text, sure)
        except R1perfError as error:
            made = error
        if isinstance(made, R1perfError):
            pytest.fail(str(made), pytrace=False)
        check = records.with_rerun(made, item, self.options)
        item.stash.setdefault(CHECKS, []).append(check)
        return check

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put the verdicts on the report, which travels from xdist's workers to the controller, and into its properties."""
        checks, promise = item.stash.get(CHECKS, []), promise_of(item)
        item.stash[CHECKS] = []
        found = [records.record(check, item, self.options) for check in checks]
        error = item.stash.get(ERROR, None)
        if error is not None and promise is not None:
            found.append(records.unmeasured(promise, item.nodeid, error, self.options))
        for made in found:
            item.user_properties.extend(records.properties(made))
        if error is not None:
            del item.stash[ERROR]
            # Of a run that Ctrl-C has ended no other test will tell.
            others = self._beside(item) if error.ends else ()
            found += [records.unmeasured(one.promise, one.item, error, self.options) for one in others if one.promise]
        report = yield
        if found:
            report.r1_verdicts = found  # type: ignore[attr-defined]
        if checks and call.when == "call":
            reporting.decided(report, item, call, checks[-1], found[len(checks) - 1])
        return report
