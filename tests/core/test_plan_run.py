"""What a plan promises is what a run sends: every kind of arrivals, ended in every way, beside workloads with arrivals of their own."""

import json
from collections import Counter

import pytest
from fake_traffic import T0, FakeClient, S, Talks
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_run import a_run

from r1perf.budget import Budget, Limits
from r1perf.check import Speed, check
from r1perf.datasets import Expected
from r1perf.errors import ScenarioError
from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder
from r1perf.scenario import load
from r1perf.source import WorkloadSource
from r1perf.summary import Summary
from r1perf.target import Price
from r1perf.traffic import Traffic

KINDS = {
    "constant": {"kind": "constant", "rate": "4/s"},
    "poisson": {"kind": "poisson", "rate": "4/s"},
    "gamma": {"kind": "gamma", "rate": "4/s", "shape": 0.5},
    "up": {"kind": "ramp", "start": "0/s", "end": "6/s", "duration": "4s"},
    "down": {"kind": "ramp", "start": "6/s", "end": "0/s", "duration": "4s"},
    "scarce": {"kind": "ramp", "start": "0.1/s", "end": "0/s", "duration": "1s"},
    "held": {"kind": "ramp", "start": "1/s", "end": "6/s", "duration": "2s", "hold": "1s"},
    "by request": {"kind": "ramp", "by": "request", "start": "2/s", "end": "6/s"},
    "trace": {"kind": "trace", "file": "t.jsonl"},
    "closed": {"kind": "closed", "sessions": 3},
}
PROCESSES = st.builds(
    lambda kind, ends: kind | ends,
    st.sampled_from(list(KINDS.values())),
    st.sampled_from([{}, {}, {"duration": "3s"}, {"requests": 5}, {"duration": "3s", "requests": 5}]),
)
MAIN = st.none() | PROCESSES | st.lists(PROCESSES, min_size=2, max_size=3).map(lambda parts: {"kind": "stages", "stages": parts})
OWN = st.lists(PROCESSES, max_size=2)
ENDS = st.sampled_from([{}, {"duration": "5s"}, {"requests": 10}, {"requests": 60}, {"duration": "5s", "requests": 10}])
AROUND = st.sampled_from([{}, {"warmup": "2s"}, {"cooldown": "2s"}, {"warmup": "2s", "cooldown": "2s"}])

LASTS_MS = 100  # each answer
LASTS_S = LASTS_MS / 1000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("traces")
    rows = [{"timestamp": 700 * i, "input_length": 10, "output_length": 5} for i in range(12)]
    (made / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return made


class Short(Talks):
    """Conversations of one turn, whose answer is one token."""

    def __init__(self):
        super().__init__()
        self.expected = Expected(1, 50.0, 1.0)


def planned(folder, main, own, **keys):
    """Return the scenario, its items and its plan: workload `w` has the main arrivals, `o0`, `o1` ... their own."""
    shared = {} if main is None else {"w": {}}
    workloads = shared | {f"o{n}": {"arrivals": process} for n, process in enumerate(own)}
    each = {"dataset": {"kind": "chat"}, "max_tokens": 100}
    raw = {
        "name": "x", "target": {"url": "http://h/v1", "model": "m"}, "workload": {name: each | more for name, more in workloads.items()},
    }  # fmt: skip
    scenario = load(raw | ({} if main is None else {"arrivals": main}) | keys)
    items = {name: Short() for name in scenario.workload}
    return scenario, items, scenario.plan(items, folder)


def ran(scenario, items, plan):
    """Run the plan on virtual time; return requests by workload and stage, and how long each stage was, in s."""
    loop, results, lengths = SimLoop(start_ns=T0), [], {}
    sources = {name: WorkloadSource(workload, items[name], scenario.target) for name, workload in scenario.workload.items()}

    def main():
        recorder = Recorder("0", plan.stages, T0, S)
        traffic = Traffic(
            loop, plan, T0, sources, FakeClient(loop, LASTS_MS), recorder, seed=1, max_in_flight=10_000,
            budget=Budget(Limits(), Price()), on_result=results.append, on_limit=print,
        )  # fmt: skip
        traffic.run()
        assert traffic.drained()
        summary = Summary(a_run(stages=plan.stages, interval_ns=3600 * S))
        summary.merge(recorder.flip(loop.now_ns() + 1))
        summary.elapsed_ns = loop.now_ns() - T0
        windows = {stage.name: summary.window(stage) for stage in plan.stages}
        lengths.update({name: (window[1] - window[0]) / S for name, window in windows.items() if window})

    loop.run(main)
    names = {stage.index: stage.name for stage in plan.stages}
    return Counter((result.workload, names[result.stage]) for result in results), lengths


def shown(scenario, items, plan):
    """Return what `check` shows, by workload and stage."""
    made = check(scenario, items, plan, Speed(ttft_s=LASTS_S, tokens_per_s=1e12))
    return {(row.workload, row.stage): row for row in made.rows}


@given(main=MAIN, own=OWN, ends=ENDS, around=AROUND, seed=st.integers(0, 100))
@settings(max_examples=250)
def test_every_plan_can_be_run_and_sends_what_check_shows(folder, main, own, ends, around, seed):
    try:
        scenario, items, plan = planned(folder, main, own, seed=seed, **ends, **around)
    except ScenarioError:
        return
    for stage in plan.stages[:-1]:
        assert stage.end_ns is None or stage.end_ns > stage.start_ns
    for group in plan.sessions:
        assert group.end_ns is None or group.end_ns > group.start_ns
    for arrival in plan:
        stage = plan.stages[arrival.stage]
        assert stage.start_ns <= arrival.offset_ns < (stage.end_ns or arrival.offset_ns + 1)
    rows = shown(scenario, items, plan)
    sent, lengths = ran(scenario, items, plan)
    assert set(rows) == set(sent)
    for (workload, stage), row in rows.items():
        n = sent[workload, stage]
        assert row.requests == (n if row.exact else pytest.approx(n, rel=0.1, abs=4))
        # Sessions hold a stage that requests end open until their answers: at most one answer more.
        assert row.seconds == pytest.approx(lengths.get(stage, 0), rel=0.1, abs=1.2 * LASTS_S)


def outline(plan):
    """Return (name, start s, end s) of each stage, rounded up from the 1 ns after a last arrival."""
    return [(s.name, round(s.start_ns / S, 6), None if s.end_ns is None else round(s.end_ns / S, 6)) for s in plan.stages[:-1]]


CONSTANT, CLOSED = KINDS["constant"], KINDS["closed"]
TWO = {"kind": "stages", "stages": [CONSTANT | {"duration": "3s"}, CONSTANT | {"duration": "3s", "rate": "8/s"}]}


@pytest.mark.parametrize(
    ("main", "own", "keys", "stages", "sessions"),
    [
        pytest.param(CONSTANT, [CLOSED], {"requests": 9}, [("constant", 0, None)], [(0, 2)], id="requests of the run"),
        pytest.param(CONSTANT, [CLOSED], {"requests": 9, "duration": "9s"}, [("constant", 0, None)], [(0, 2)], id="before its duration"),
        pytest.param(CONSTANT | {"requests": 5}, [CLOSED], {"duration": "9s"}, [("constant", 0, None)], [(0, 1)], id="requests of the process"),
        pytest.param(None, [CONSTANT, CLOSED], {"requests": 9, "duration": "9s"}, [("main", 0, None)], [(0, 2)], id="all with their own"),
        pytest.param(
            CONSTANT, [CLOSED], {"requests": 9, "warmup": "2s", "cooldown": "3s"}, [("warmup", 0, 2), ("constant", 2, 4), ("cooldown", 4, 7)], [(0, 7)],
            id="warmup and cooldown",
        ),
        pytest.param(
            CONSTANT, [CLOSED | {"duration": "3s"}], {"duration": "9s", "warmup": "2s"}, [("warmup", 0, 2), ("constant", 2, 11)], [(0, 5)],
            id="duration from the window's start",
        ),
        pytest.param(
            CONSTANT, [CLOSED | {"requests": 50}], {"duration": "9s", "warmup": "2s"}, [("warmup", 0, 2), ("constant", 2, 11)], [(2, 11)],
            id="requests from the window's start",
        ),
        pytest.param(CLOSED, [CONSTANT], {"requests": 9, "duration": "9s"}, [("closed", 0, None)], [(0, 2)], id="main ones as well"),
        pytest.param(TWO, [CONSTANT], {"requests": 20}, [("constant", 0, None)], [], id="no stage after the last request"),
        pytest.param(
            TWO, [CONSTANT], {"requests": 20, "cooldown": "1s"}, [("constant", 0, 2.25), ("cooldown", 2.25, 3.25)], [], id="cooldown behind the last request",
        ),
        pytest.param(KINDS["down"], [], {"requests": 99}, [("ramp", 0, 4)], [], id="ramp to 0, too few for the requests"),
        pytest.param(KINDS["scarce"], [], {"requests": 99}, [("ramp", 0, 1)], [], id="ramp to 0, without an arrival"),
        pytest.param(None, [KINDS["down"]], {"requests": 99}, [("main", 0, 4)], [], id="ramp to 0 of a workload's own"),
        pytest.param(None, [KINDS["scarce"]], {"requests": 99}, [("main", 0, 1)], [], id="the same, without an arrival"),
        pytest.param(
            None, [KINDS["scarce"], CONSTANT | {"duration": "2s"}], {"requests": 99, "warmup": "1s"}, [("warmup", 0, 1), ("main", 1, 3)], [],
            id="the longest of all",
        ),
    ],
)  # fmt: skip
def test_requests_and_durations_end_stages_and_sessions(folder, main, own, keys, stages, sessions):
    scenario, items, plan = planned(folder, main, own, seed=1, **keys)
    assert outline(plan) == stages
    assert [(s.start_ns / S, round(s.end_ns / S, 6)) for s in plan.sessions] == sessions
    sent, _ = ran(scenario, items, plan)
    assert set(shown(scenario, items, plan)) == set(sent)


def test_cooldown_goes_on_at_the_last_rate_that_was_reached(folder):
    scenario, items, plan = planned(folder, TWO, [], requests=4, cooldown="2s")
    sent, _ = ran(scenario, items, plan)
    assert sent == {("w", "constant"): 4, ("w", "cooldown"): 8}


TOGETHER = CLOSED | {"ramp_up": "0s"}


@pytest.mark.parametrize(
    ("closed", "keys"),
    [
        pytest.param({"sessions": 400, "ramp_up": "50ms"}, {"duration": "5s"}, id="longer than the run"),
        pytest.param({"sessions": 50, "ramp_up": "50ms"}, {"duration": "5s", "warmup": "1s"}, id="into the window"),
        pytest.param({"sessions": 50, "ramp_up": "50ms", "requests": 2000}, {}, id="until so many requests"),
    ],
)
def test_check_shows_that_sessions_start_one_after_the_other(folder, closed, keys):
    scenario, items, plan = planned(folder, {"kind": "closed"} | closed, [], **keys)
    sent, lengths = ran(scenario, items, plan)
    rows = shown(scenario, items, plan)
    assert {key: row.requests for key, row in rows.items()} == {key: pytest.approx(n, rel=0.05) for key, n in sent.items()}
    assert {row.stage: row.seconds for row in rows.values()} == {
        row.stage: pytest.approx(lengths[row.stage], rel=0.05) for row in rows.values()
    }


def test_check_shows_sessions_that_end_before_their_stage_for_their_own_time(folder):
    scenario, items, plan = planned(folder, CONSTANT, [TOGETHER | {"duration": "3s"}], duration="9s")
    row = shown(scenario, items, plan)["o0", "constant"]
    assert (row.seconds, row.requests, row.requests_per_s, row.in_flight) == (
        9,
        pytest.approx(90),
        pytest.approx(10),
        pytest.approx(3),
    )


def test_check_shows_a_number_of_requests_no_larger_than_there_is_time_for(folder):
    scenario, items, plan = planned(folder, TOGETHER, [], duration="5s", requests=1000)
    (row,) = shown(scenario, items, plan).values()
    assert (row.seconds, row.conversations) == (5, pytest.approx(150))


def test_requests_do_not_end_sessions_alone(folder):
    with pytest.raises(ScenarioError) as caught:
        planned(folder, None, [CLOSED], duration="5s", requests=9)
    assert str(caught.value) == (
        "`requests`: does not go with closed-loop arrivals alone; give each workload its own, as `workload.o0.arrivals.requests`"
    )
