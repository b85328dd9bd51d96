"""What stands beside the charts: each phase, figures equal to run.json's, and what it costs."""

from types import SimpleNamespace

import msgspec
import pytest
import unpatched  # noqa: F401
from played import Stand, mixed
from virtual_run import S

from r1perf.arrivals import Closed
from r1perf.collector import Verdict
from r1perf.launch.run import Ran
from r1perf.schedule import live_stage
from r1perf.sla import Verdict as Ruling
from r1perf.snapshot import Counter
from r1perf.swarm.page.state import TABLE, Kept, State, state

RUN, SNAPSHOTS = mixed()


@pytest.fixture
def stand():
    made = Stand()
    yield made
    made.stop()


def told(stand, stage=None):
    return stand.page._state(stage)


def test_idle_before_any_run(stand):
    assert msgspec.to_builtins(told(stand)) == {"phase": "idle"}


def test_preparing_says_what_people_are_told(stand):
    stand.prepare()
    stand.page.note("loading 3 of 12 MB")
    assert msgspec.to_builtins(told(stand)) == {"phase": "preparing", "sentence": "loading 3 of 12 MB", "loop": "open"}


@pytest.mark.parametrize("how", ["ran", "never prepared"])
def test_refused_says_why(stand, how):
    stand.prepare()
    stand.played.running = False
    if how == "ran":
        stand.played.ran = Ran(Verdict(2, "no worker is there", None), None)
    else:
        stand.page.refuse("no worker is there")
    found = told(stand)
    assert (found.phase, found.sentence, found.run) == ("refused", "no worker is there", None)
    stand.page.begin()
    stand.prepare()
    assert told(stand).phase == "preparing"


def rows(found):
    return {(row.metric, row.workload, row.stage): row for row in found.table}


def test_running_shows_what_run_json_would(stand):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS[:30]:
        stand.add(snapshot)
    found, built = told(stand), stand.document("running")
    assert (found.phase, found.stage, found.elapsed_s, found.loop) == ("running", "steady", 30.0, "open")
    assert found.counts == built.counts
    assert found.workload_counts == {row.name: row.counts for row in built.workloads}
    assert found.reasons == built.reasons
    assert found.throughput == built.throughput
    assert found.validity == built.validity
    assert rows(found) == {
        (row.metric, row.workload, row.stage): row for row in built.series if row.metric in TABLE and row.stage is None
    }
    assert [(stage.name, stage.start_s, stage.end_s) for stage in found.stages] == [
        ("warmup", 0.0, 5.0),
        ("ramp", 5.0, 15.0),
        ("steady", 15.0, 30.0),
        ("drain", None, None),
    ]
    assert found.run.window_s == 40.0


def test_stages_that_were_added_stand_before_the_drain(stand):
    stand.begin(RUN)
    for number, start_s in ((1, 20), (2, 25)):
        stand.played.summary.add_stage(live_stage(RUN.stages, number, 9.0, start_s * S))
    order = ["warmup", "ramp", "steady", "live-1", "live-2", "drain"]
    assert [stage.name for stage in told(stand).stages] == order
    assert [row.plan.name for row in stand.end().stages] == [*order[:3], "drain", "live-1", "live-2"], "by index, as in run.json"
    assert [stage.name for stage in told(stand).stages] == order


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize("stage", ["ramp", "steady", "drain"])
def test_figures_of_one_stage(stand, stage, running):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS:
        stand.add(snapshot)
    built = stand.document("finished")
    if not running:
        stand.end()
    found = told(stand, stage)
    wanted = {(row.metric, row.workload, row.stage): row for row in built.series if row.metric in TABLE and row.stage == stage}
    assert rows(found) == wanted
    assert wanted
    assert found.throughput == next(row.throughput for row in built.stages if row.plan.name == stage)


def test_the_end_is_the_document(stand):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS:
        stand.add(snapshot)
    clause = Ruling(
        clause="p95(ttft) < 1ms", kind="share", verdict="fail", says="171 of 171 missed", confidence=0.95, n=171, over=171
    )
    built = stand.end("interrupted", "by Ctrl-C or SIGTERM", sla=[msgspec.to_builtins(clause)])
    found = told(stand)
    assert (found.phase, found.status, found.sentence) == ("ended", "interrupted", "by Ctrl-C or SIGTERM")
    assert found.counts == built.counts
    assert found.validity == built.validity
    assert found.throughput == built.throughput
    assert rows(found) == {(r.metric, r.workload, r.stage): r for r in built.series if r.metric in TABLE and r.stage is None}
    assert [(one.clause, one.verdict, one.says) for one in found.sla] == [("p95(ttft) < 1ms", "fail", "171 of 171 missed")]
    assert found.sla[0].lines.startswith("SLA FAIL  p95(ttft) < 1ms")
    assert found.now is None


@pytest.mark.parametrize(
    ("stages", "said", "phase"), [(30, "running", "running"), (30, "draining", "draining"), (43, "running", "draining")]
)
def test_draining_after_the_window_or_when_asked(stand, stages, said, phase):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS[:stages]:
        stand.add(snapshot)
    stand.page.show(said)
    assert told(stand).phase == phase


def test_counts_need_not_add_up_before_the_end(stand):
    stand.begin(RUN)
    stand.add(msgspec.structs.replace(SNAPSHOTS[0], counters=[*SNAPSHOTS[0].counters, Counter("scheduled", "chat", 0, 1)]))
    assert told(stand).validity.valid
    stand.end()
    assert told(stand).validity.reasons[0].startswith("the counts do not add up")


def test_clauses_wait_for_the_end(stand):
    stand.begin(RUN, SimpleNamespace(arrivals=Closed(sessions=2), sla=SimpleNamespace(clauses=("error_rate < 1%",))))
    stand.add(SNAPSHOTS[0])
    found = told(stand)
    assert [(one.clause, one.verdict) for one in found.sla] == [("error_rate < 1%", None)]
    assert found.loop == "closed"


def test_an_unknown_stage_has_no_figures(stand):
    stand.begin(RUN)
    for snapshot in SNAPSHOTS[:20]:
        stand.add(snapshot)
    found = state(stand.played, stand.page.history, "running", "nowhere")
    assert (found.table, found.throughput) == ([], None)


class Ticking:
    """A clock, and how often the state was made; making it takes `cost_ns`."""

    def __init__(self, cost_ns=0):
        self.ns, self.cost_ns, self.made = 0, cost_ns, []

    def make(self, stage):
        self.ns += self.cost_ns
        self.made.append(stage)
        return State(phase="idle", sentence=f"{len(self.made)}")


@pytest.mark.parametrize(
    ("cost_ms", "asked_ms", "made"),
    [
        (0, range(0, 3000, 10), 3),  # 100 browsers, each once a second
        (10, range(0, 3000, 10), 3),
        (100, range(0, 6000, 100), 3),  # a twentieth of the time at most
    ],
)
def test_state_is_made_once_a_second_whoever_asks(cost_ms, asked_ms, made):
    ticking = Ticking(cost_ms * 1_000_000)
    kept = Kept(ticking.make, lambda: ticking.ns)
    for ms in asked_ms:
        ticking.ns = max(ticking.ns, ms * 1_000_000)
        kept.encoded(None, "run 1")
    assert len(ticking.made) == made


def test_another_phase_is_seen_at_once():
    ticking = Ticking()
    kept = Kept(ticking.make, lambda: ticking.ns)
    first = kept.encoded(None, "running")
    assert kept.encoded(None, "running") == first
    assert kept.encoded(None, "ended") != first
    assert kept.encoded("steady", "ended") != kept.encoded(None, "ended")
    assert ticking.made == [None, None, "steady"]
    kept.encoded("ramp", "the next run")
    assert set(kept._kept) == {"ramp"}  # it does not grow with the runs
