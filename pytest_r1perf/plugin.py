"""Be the pytest plugin: options, markers, fixtures, and one test item a clause.

Everything that needs r1perf itself is in `session`, which is imported for `--r1-sla` alone.
"""

import inspect
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_r1perf import options
from pytest_r1perf.ids import clause_id
from pytest_r1perf.items import marked, test_of, unjudged
from pytest_r1perf.markers import MARKERS, NAMES, PROMISE, Declared, MarkerError, Promise, declared
from pytest_r1perf.run import R1Run

if TYPE_CHECKING:
    from pytest_r1perf.session import Session

SESSION: "pytest.StashKey[Session]" = pytest.StashKey()
MADE_OF = pytest.StashKey[dict[str, Declared]]()
"""What each test declared when its items were made."""

NEEDS = "needs --r1-sla"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--r1-*` and `r1_*`."""
    options.add(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers; with `--r1-sla` also what judges."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
    config.stash[MADE_OF] = {}
    if config.option.r1_sla:
        from pytest_r1perf.session import Session

        session = Session(config)
        config.stash[SESSION] = session
        config.pluginmanager.register(session, "r1perf-session")
    elif config.option.r1_run or config.option.r1_baseline:
        raise pytest.UsageError("--r1-run and --r1-baseline judge nothing without --r1-sla")


@pytest.fixture
def r1_target(request: pytest.FixtureRequest) -> Any:
    """Name the target under test: a name of the ini file's r1_targets, a URL, or a table of a target's keys.

    Parametrise it, or override it in a conftest.py, for instance with the URL of a server that a fixture started.
    """
    return getattr(request, "param", request.config.option.r1_target)


@pytest.fixture
def r1_run(request: pytest.FixtureRequest, r1_target: Any) -> R1Run:
    """Give the run that the test's r1_load or r1_recorded declares, or `--r1-run`; made once for all tests that declare it."""
    session = request.config.stash.get(SESSION, None)
    if session is None:
        pytest.skip(NEEDS)
    return session.run(request.node, r1_target)


@pytest.fixture
def _r1_clause(request: pytest.FixtureRequest, r1_target: Any) -> Promise | None:
    """Make the run that the item's clause is judged on. `r1_target` is named so that it can be parametrised."""
    promise: Promise | None = getattr(request, "param", None)
    if promise is not None:
        request.getfixturevalue("r1_run")
        request.config.stash[SESSION].fits(request.node, promise)
    return promise


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(collector: pytest.Module | pytest.Class, name: str, obj: object) -> None:
    """Let marked tests, and no others, use the fixture of their clause."""
    function = getattr(obj, "__func__", obj)
    if not inspect.isfunction(function) or not collector.funcnamefilter(name):
        return
    own: list[pytest.Mark] = getattr(function, "pytestmark", [])
    used = any(mark.name == "usefixtures" and PROMISE in mark.args for mark in own)
    if not used and any(mark.name in NAMES for mark in (*own, *collector.iter_markers())):
        pytest.mark.usefixtures(PROMISE)(function)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one item a clause."""
    if not marked(metafunc.definition):
        return
    session = metafunc.config.stash.get(SESSION, None)
    takes_run = "r1_run" in metafunc.fixturenames
    promises: list[Promise] = []
    wrong = None
    try:
        found = metafunc.config.stash[MADE_OF][test_of(metafunc.definition)] = declared(metafunc.definition)
        promises = _written(found) if session is None else session.promises(found, metafunc, takes_run=takes_run)
    except MarkerError as error:
        wrong = f"{metafunc.definition.nodeid}: {error}"
    if wrong is not None:
        pytest.fail(wrong, pytrace=False)
    if promises:
        metafunc.parametrize(PROMISE, promises, indirect=True, ids=[clause_id(promise) for promise in promises])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip marked tests without `--r1-sla`, so that a unit run never reaches an endpoint."""
    if SESSION in config.stash:
        return
    for item in items:
        if marked(item):
            item.add_marker(pytest.mark.skip(reason=NEEDS), append=False)


@pytest.hookimpl(tryfirst=True)  # before a worker of xdist tells what it has collected, for which it is given work
def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse markers that came after the items were made: as for any wrong marker, collection fails."""
    for item in session.items:
        wrong = late(item)
        if wrong is not None:
            session.config.hook.pytest_collectreport(report=pytest.CollectReport(item.nodeid, "failed", wrong, None))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Never pass a test that has had a marker since."""
    result = yield
    wrong = late(item)
    if wrong is not None:
        pytest.fail(wrong, pytrace=False)
    return result


def late(item: pytest.Item) -> str | None:
    """Say which marker of an item nobody judges."""
    wrong = unjudged(item, item.config.stash[MADE_OF].get(test_of(item)))
    return None if wrong is None else f"{item.nodeid}: {wrong}"


def _written(found: Declared) -> list[Promise]:
    """Return the clauses as the markers have them, unread: what is skipped loads nothing."""
    return list(dict.fromkeys(_promises(found)))


def _promises(found: Declared) -> Iterator[Promise]:
    for sla in found.sla:
        yield from (Promise(clause, sla.confidence) for clause in sla.clauses)
