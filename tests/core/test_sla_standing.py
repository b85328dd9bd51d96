"""How clauses stand while a run goes on: what a look costs, and that it changes nothing."""

from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_run import S, a_run

from r1perf.scenario import load
from r1perf.schedule import Stage
from r1perf.sla import Clusters, Standing, Tallied, Tally, Terms, parse
from r1perf.summary import Summary
from r1perf.summary.run import PlannedRequests

CLAUSES = ("p95(ttft) < 10s", "error_rate < 5 %")
STAGES = (
    Stage(0, "poisson", 0, 1000 * S, judged=True, says=""),
    Stage(1, "drain", 1000 * S, None, judged=False, says=""),
)
SCENARIO = load({
    "name": "x", "duration": "1000s", "target": {"url": "http://h/v1", "model": "m"}, "arrivals": {"kind": "poisson", "rate": "2/s"},
    "workload": {"w": {"dataset": {"kind": "chat"}}}, "sla": {"clauses": list(CLAUSES)},
})  # fmt: skip


def standing(intervals, over=0, ahead=0):
    """A run of two requests an interval, of which `over` missed; `ahead` more in flight have missed already."""
    summary = Summary(a_run(stages=STAGES, workloads=("w",), planned=(PlannedRequests("w", 0, 2000),)))
    summary.elapsed_ns = intervals * S
    made = Standing(SCENARIO, Terms(tuple(map(parse, CLAUSES))), summary)
    for k in range(intervals):
        rows = [Tally(clause, k, n=2, over=over, causes={"slow": over} if over else {}) for clause in range(len(CLAUSES))]
        late = [Tally(0, k, n=ahead, over=ahead, causes={"slow": ahead})] if ahead else []
        encode = msgspec.msgpack.encode
        made.add(SimpleNamespace(worker="0", k=k, tallies=encode(rows), ahead=encode(late)))
    return made


@pytest.fixture
def additions(monkeypatch):
    """Count the additions of rows."""
    made, add = [], Tally.__add__
    monkeypatch.setattr(Tally, "__add__", lambda self, other: made.append(other) or add(self, other))
    return made


def test_a_look_adds_up_what_is_new_and_not_the_run_again(additions):
    seen = []
    for intervals in (10, 500):
        run = standing(intervals, ahead=3)
        additions.clear()
        assert run.broken() is None
        seen.append(len(additions))
    assert seen == [2, 2]  # the one row of what is in flight: to its interval, and to its clause


def test_a_look_changes_nothing():
    run, other = standing(900, over=1, ahead=5), standing(900, over=1, ahead=5)
    first = run.broken()
    assert (first.clause, first.over) == (CLAUSES[0], 905)
    assert run.broken() == first
    assert run.verdicts((), None) == other.verdicts((), None)
    assert [verdict.over for verdict in run.verdicts((), None)] == [900, 900]


rows = st.lists(
    st.builds(
        lambda clause, k, n, over, m: Tally(clause, k, n=n + over, over=over, causes={"slow": over} if over else {}, requests=Clusters.of([(m, 1)])),
        st.integers(0, 2), st.integers(-1, 3), st.integers(0, 5), st.integers(0, 5), st.integers(1, 9),
    ),
    max_size=20,
)  # fmt: skip


@given(rows, rows, st.randoms(use_true_random=False))
def test_totals_are_the_sums_of_all_rows_in_any_order(one, more, random):
    tallied = Tallied()
    tallied.add(one)
    both = tallied.plus(more)
    shuffled, again = [*one, *more], Tallied()
    random.shuffle(shuffled)
    again.add(shuffled)
    for clause in range(3):
        assert tallied.total(clause) == sum((row for row in one if row.clause == clause), start=Tally(clause, -1))
        assert both.total(clause) == again.total(clause)
        assert both.met(clause, range(-1, 4)) == again.met(clause, range(-1, 4))
