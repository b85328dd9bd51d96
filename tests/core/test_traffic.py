"""Traffic on virtual time: who is sent when, what a failure or the end does, and that every scheduled request has one outcome."""

from collections import Counter

import pytest
from fake_traffic import MS, T0, FakeClient, S, Talks
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_run import a_run

from r1perf.arrivals import Closed, Constant, Stages
from r1perf.budget import Budget, Limits
from r1perf.datasets.prompts import Prompts
from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder
from r1perf.result import Outcome, Usage
from r1perf.schedule import Share, plan
from r1perf.source import WorkloadSource
from r1perf.summary import Summary
from r1perf.target import Price, Target
from r1perf.traffic import Traffic
from r1perf.units import Duration, Rate, Tokens
from r1perf.workload import Workload


class Ran:
    """What a simulated run left."""

    def __init__(self):
        self.results, self.limits, self.counters = [], [], Counter()


def drive(
    arrivals, *, talks=None, client=None, max_in_flight=1000, limits=Limits(), price=Price(), halt_ms=None, cut_ms=None, **planned
):
    """Run a plan on virtual time; `client` are FakeClient's options."""
    loop, ran = SimLoop(start_ns=T0), Ran()
    talks = talks or Talks()
    workload = Workload(dataset=Prompts(prompts=("x",)), max_tokens=Tokens(100))
    scheme = plan({"w": Share(1.0, None, talks.turns)}, arrivals, seed=1, **planned)
    ran.plan = scheme
    target = Target(url="http://x/v1", model="m")
    ran.client = FakeClient(loop, **(client or {}))

    def main():
        recorder = Recorder("0", scheme.stages, T0, S)
        traffic = Traffic(
            loop, scheme, T0, {"w": WorkloadSource(workload, talks, target)}, ran.client, recorder, seed=1,
            max_in_flight=max_in_flight, budget=Budget(limits, price), on_result=ran.results.append, on_limit=ran.limits.append,
        )  # fmt: skip
        runner = loop.spawn(traffic.run)
        if halt_ms is not None:
            loop.sleep_until(T0 + halt_ms * MS)
            traffic.halt()
        if cut_ms is not None:
            loop.sleep_until(T0 + cut_ms * MS)
            traffic.cancel()
        runner.join()
        assert traffic.drained()
        ran.ended_ms = (loop.now_ns() - T0) / MS
        snapshot = recorder.flip(loop.now_ns() + 1)
        ran.drain_ms = dict(snapshot.ended)[scheme.stages[-2].index] / MS if snapshot.ended else None
        for counter in snapshot.counters:
            ran.counters[counter.name] += counter.n
        summary = Summary(a_run(stages=scheme.stages, interval_ns=3600 * S))
        summary.merge(snapshot)
        summary.elapsed_ns = loop.now_ns() - T0
        told = {stage.name: summary.window(stage) for stage in scheme.stages}
        ran.windows_ms = {name: (window[0] / MS, window[1] / MS) for name, window in told.items() if window}

    loop.run(main)
    ran.outcomes = Counter(result.outcome for result in ran.results)
    assert ran.counters["scheduled"] == len(ran.results), "every scheduled request has exactly one outcome"
    return ran


def constant(rate="10/s", **more):
    return Constant(rate=Rate.parse(rate), **more)


def closed(sessions, **more):
    return Closed(sessions=sessions, **more)


@pytest.mark.parametrize(
    ("think_ms", "sent"),
    [
        pytest.param(5000, {0: 2}, id="longer than the window"),
        pytest.param(800, {0: 2, 900: 2}, id="past its end after a turn"),
        pytest.param(400, {0: 2, 500: 2, 1000: 2, 1100: 2, 1600: 2}, id="a conversation more"),
    ],
)
def test_a_session_that_thinks_past_the_window_begins_nothing_more(think_ms, sent):
    """It began one conversation after the other without a pause, each of one turn, until the window was over."""
    ran = drive(
        closed(2, ramp_up=Duration(0)),
        duration=Duration.seconds(1.7),
        talks=Talks(3, think_ms=think_ms),
        client={"service_ms": 100},
    )
    assert Counter(at for _, at in ran.client.sent) == sent


def test_open_loop_sends_on_time_while_answers_take_forever():
    ran = drive(constant(), duration=Duration.seconds(1), client={"service_ms": 60_000})
    assert [at for _, at in ran.client.sent] == [100.0 * n for n in range(10)]
    assert ran.outcomes == {Outcome.OK: 10}


def test_beyond_max_in_flight_arrivals_wait_and_their_delay_counts():
    ran = drive(constant(), duration=Duration.seconds(0.4), max_in_flight=1, client={"service_ms": 250})
    assert [at for _, at in ran.client.sent] == [0.0, 250.0, 500.0, 750.0]
    assert [result.scheduled_ns - T0 for result in ran.results] == [0, 100 * MS, 200 * MS, 300 * MS]


def test_a_request_whose_tokens_nobody_told_says_how_many_it_can_have_at_most():
    """A byte each of the prompt "0.0", 16 for the template and 16 for its one message; the workload bounds the answer."""
    ran = drive(constant("1/s"), duration=Duration.seconds(1), client={"service_ms": 500, "status": None}, cut_ms=200)
    assert [(one.outcome, one.input_most, one.output_most) for one in ran.results] == [(Outcome.CANCELLED, 3 + 32, 100)]
    assert (ran.counters["untold"], ran.counters["untold_input_most"], ran.counters["untold_output_tokens"]) == (1, 35, 0)
    ahead = {"service_ms": 500, "status": None, "told": Usage(input_tokens=7)}
    told = drive(constant("1/s"), duration=Duration.seconds(1), client=ahead, cut_ms=200)
    assert [(one.untold, one.output_most) for one in told.results] == [(False, 100)], (
        "what is still to come of it is bounded all the same"
    )
    refused = drive(
        constant("1/s"), duration=Duration.seconds(1), client={"outcomes": {"0.0": Outcome.OVERLOADED}, "status": 503}
    )
    assert [(one.outcome, one.input_most, one.output_most) for one in refused.results] == [(Outcome.OVERLOADED, None, None)]
    assert not refused.counters["untold"]


def test_turns_follow_their_answers_and_carry_the_history():
    ran = drive(constant("1/s"), duration=Duration.seconds(2), talks=Talks(3, think_ms=50), client={"service_ms": 100})
    assert ran.client.sent[:3] == [("0.0", 0.0), ("0.1", 150.0), ("0.2", 300.0)]
    assert [m.content for m in ran.client.calls[2].messages] == ["0.0", "answer to 0.0", "0.1", "answer to 0.1", "0.2"]
    assert ran.counters["conversations"] == ran.counters["conversations_done"] == 2


@pytest.mark.parametrize(
    ("answer", "grade", "read"),
    [
        pytest.param(r"\boxed{73}", "right", "73", id="short"),
        pytest.param("so " * 100_000 + r"\boxed{074}", "wrong", "074", id="long, on a thread"),
        pytest.param("I cannot say", "unanswered", None, id="no answer"),
        pytest.param(r"\boxed{" + "7" * 9_000 + "}", "wrong", "7" * 64, id="more digits than Python reads"),
    ],
)
def test_each_result_carries_its_grade_and_what_was_read(answer, grade, read):
    ran = drive(constant(), duration=Duration.seconds(0.2), talks=Talks(expected="73"), client={"answer": answer})
    assert [(result.grade, result.answer) for result in ran.results] == [(grade, read)] * 2
    assert ran.counters[f"grade.{grade}"] == 2


def test_nobody_waits_for_a_long_answer_to_be_graded(monkeypatch):
    threads = []

    class Watched(SimLoop):
        def offload(self, run, *args):
            threads.append(run.__name__)
            return super().offload(run, *args)

    monkeypatch.setitem(globals(), "SimLoop", Watched)
    for answer, offloaded in (("73 " * 600, []), ("73 " * 700, ["grade", "grade"])):
        ran = drive(constant(), duration=Duration.seconds(0.2), talks=Talks(expected="73"), client={"answer": answer})
        assert [result.grade for result in ran.results] == ["right", "right"]
        assert threads == offloaded


def test_an_answer_that_is_being_graded_when_the_run_is_cut_has_its_grade(monkeypatch):
    class Slow(SimLoop):
        def offload(self, run, *args):
            self.sleep_until(self.now_ns() + S)
            return super().offload(run, *args)

    monkeypatch.setitem(globals(), "SimLoop", Slow)
    ran = drive(
        constant(), duration=Duration.seconds(0.1), talks=Talks(expected="73"), client={"answer": "73 " * 700}, cut_ms=150
    )
    assert ran.ended_ms == 150
    assert [(result.outcome, result.grade) for result in ran.results] == [(Outcome.OK, "right")]


def test_a_fault_of_the_grader_ends_no_run_and_is_told_once(monkeypatch, capsys):
    def broken(*args, **options):
        raise ValueError("a fault of the grader")

    monkeypatch.setattr("r1perf.source.grade", broken)
    ran = drive(constant(), duration=Duration.seconds(0.3), talks=Talks(expected="73"))
    assert [result.grade for result in ran.results] == ["unanswered"] * 3
    assert capsys.readouterr().err.count("ValueError: a fault of the grader") == 1


def test_as_much_of_an_answer_is_kept_as_it_is_needed_for():
    kept = {}
    for expected, turns in ((None, 1), (None, 2), ("73", 1)):
        ran = drive(constant(), duration=Duration.seconds(0.1), talks=Talks(turns, expected=expected))
        kept[expected, turns] = [call.keep_answer for call in ran.client.calls]
    assert kept == {(None, 1): [0], (None, 2): [200_000], ("73", 1): [1_000_000]}


def test_a_failed_turn_ends_its_conversation_and_the_rest_is_counted():
    ran = drive(
        constant("1/s"), duration=Duration.seconds(1), talks=Talks(4, 10), client={"outcomes": {"0.1": Outcome.SERVER_ERROR}}
    )
    assert [i for i, _ in ran.client.sent] == ["0.0", "0.1"]
    assert ran.counters["abandoned_turns"] == 2
    assert ran.counters["conversations_done"] == 0


def test_no_turn_starts_after_the_windows_end():
    ran = drive(constant("1/s"), duration=Duration.seconds(1), talks=Talks(5), client={"service_ms": 400})
    assert [at for _, at in ran.client.sent] == [0.0, 400.0, 800.0]
    assert ran.counters["abandoned_turns"] == 2


def test_closed_sessions_start_apart_and_go_on_when_ready():
    ran = drive(
        closed(3, ramp_up=Duration.parse("10ms"), think_time=Duration.parse("5ms")), requests=7, client={"service_ms": 100}
    )
    assert ran.client.sent == [("0.0", 0), ("1.0", 10), ("2.0", 20), ("3.0", 105), ("4.0", 115), ("5.0", 125), ("6.0", 210)]
    assert all(result.sent_ns == result.scheduled_ns for result in ran.results)


def test_closed_sessions_start_nothing_after_the_stages_end():
    ran = drive(closed(1), duration=Duration.seconds(1), client={"service_ms": 300})
    assert [at for _, at in ran.client.sent] == [0, 300, 600, 900]
    assert ran.ended_ms == 1200


def test_a_closed_session_waits_as_long_as_the_server_asks():
    ran = drive(
        closed(1), requests=2, client={"service_ms": 100, "outcomes": {"0.0": Outcome.RATE_LIMITED}, "retry_after_ns": 7 * S}
    )
    assert ran.client.sent == [("0.0", 0), ("1.0", 7100)]
    assert ran.counters["backoff_ns"] == 7 * S


@pytest.mark.parametrize(
    ("seconds", "retry_after_s", "ends", "paused_ms", "ended_ms"),
    [
        pytest.param(5, 3600, {}, 2 * 4900, 5000, id="the window ends before the pause"),
        pytest.param(60, 30, {"halt_ms": 2100}, 2 * 2000, 2100, id="the run is halted within the pause"),
        pytest.param(60, 100, {"halt_ms": 5000}, 2 * 4900, 5000, id="halted, the pause would outlast the window"),
        pytest.param(60, 30, {"cut_ms": 2100}, 2 * 2000, 2100, id="the run is cut within the pause"),
        pytest.param(60, 100, {"cut_ms": 5000}, 2 * 4900, 5000, id="cut, the pause would outlast the window"),
    ],
)
def test_a_pause_that_is_cut_short_counts_as_far_as_it_came(seconds, retry_after_s, ends, paused_ms, ended_ms):
    client = {
        "service_ms": 100,
        "outcomes": {f"{n}.0": Outcome.RATE_LIMITED for n in range(2)},
        "retry_after_ns": retry_after_s * S,
    }
    ran = drive(closed(2, ramp_up=Duration(0)), client=client, duration=Duration.seconds(seconds), **ends)
    assert len(ran.client.sent) == 2
    assert ran.counters["backoff_ns"] == paused_ms * MS
    assert ran.ended_ms == ended_ms


def test_a_closed_session_backs_off_longer_with_every_failure():
    bad = {f"{n}.0": Outcome.SERVER_ERROR for n in range(6)}
    ran = drive(closed(1), requests=7, client={"service_ms": 0, "outcomes": bad})
    gaps = [after - before for (_, before), (_, after) in zip(ran.client.sent, ran.client.sent[1:], strict=False)]
    for n, gap in enumerate(gaps):
        assert 500 * 2**n <= gap <= 1500 * 2**n
    assert ran.counters["backoff_ns"] == pytest.approx(sum(gaps) * MS, rel=1e-9)


def test_turns_of_a_run_that_ends_by_requests_are_all_scheduled_and_the_drain_begins_with_the_last():
    ran = drive(constant("10/s"), requests=6, talks=Talks(3, think_ms=50), client={"service_ms": 100})
    # Two conversations of three expected turns; the last turn is due at 100 ms + 2 (100 + 50) ms.
    assert [i for i, _ in ran.client.sent] == ["0.0", "1.0", "0.1", "1.1", "0.2", "1.2"]
    assert ran.counters["abandoned_turns"] == 0
    assert ran.drain_ms == 400


def test_the_drain_of_sessions_that_end_by_requests_begins_with_their_last_request():
    ran = drive(closed(2, ramp_up=Duration.parse("10ms")), requests=3, client={"service_ms": 100})
    assert ran.client.sent == [("0.0", 0), ("1.0", 10), ("2.0", 100)]
    assert ran.drain_ms == 100


def test_halt_wakes_who_rests_and_drops_who_waits():
    # One is in flight, two wait for a place, none has begun to think.
    ran = drive(constant(), duration=Duration.seconds(10), max_in_flight=1, client={"service_ms": 5000}, halt_ms=250)
    assert ran.outcomes == {Outcome.OK: 1, Outcome.DROPPED: 2}
    assert ran.ended_ms == 5000
    ran = drive(constant("1/s"), duration=Duration.seconds(60), talks=Talks(2, think_ms=50_000), halt_ms=500)
    assert ran.ended_ms == 500
    assert ran.counters["abandoned_turns"] == 1


TWO = Stages(stages=(constant("5/s", duration=Duration.seconds(10)), constant("1/s", duration=Duration.seconds(10))))
LASTED = [
    # Answers take 6 s: what runs when nothing is sent any more is the drain.
    pytest.param(constant("5/s"), {"requests": 10}, None, {"constant": (0, 1800), "drain": (1800, 7800)}, id="requests end it"),
    pytest.param(
        constant("5/s"), {"requests": 10, "warmup": Duration.seconds(1)}, None,
        {"warmup": (0, 1000), "constant": (1000, 2800), "drain": (2800, 8800)}, id="requests end it after a warmup",
    ),
    pytest.param(closed(1, ramp_up=Duration(0)), {"requests": 2}, None, {"closed": (0, 6000), "drain": (6000, 12_000)}, id="sessions end it"),
    pytest.param(constant("5/s"), {"duration": Duration.seconds(2)}, None, {"constant": (0, 2000), "drain": (2000, 7800)}, id="its time ends it"),
    pytest.param(constant("5/s"), {"duration": Duration.seconds(60)}, 3100, {"constant": (0, 3100), "drain": (3100, 9000)}, id="halted"),
    pytest.param(TWO, {}, 3100, {"constant": (0, 3100), "drain": (3100, 9000)}, id="halted before the second stage"),
    pytest.param(TWO, {}, 12_500, {"constant": (0, 10_000), "constant-2": (10_000, 12_500), "drain": (12_500, 18_000)}, id="halted in the second"),
    pytest.param(
        Stages(stages=(closed(1, requests=9), closed(1, requests=9))), {}, 3000, {"closed": (0, 3000), "drain": (3000, 6000)},
        id="halted before sessions that follow others",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("arrivals", "planned", "halt_ms", "windows"), LASTED)
def test_stages_and_the_drain_lie_where_they_really_were(arrivals, planned, halt_ms, windows):
    ran = drive(arrivals, client={"service_ms": 6000}, halt_ms=halt_ms, **planned)
    assert {name: (round(begin), round(end)) for name, (begin, end) in ran.windows_ms.items()} == windows


def test_what_is_due_at_the_moment_of_the_halt_was_never_scheduled():
    # At 300 ms an arrival is started, and in the same moment all is halted, before its conversation has begun.
    ran = drive(constant(), duration=Duration.seconds(10), halt_ms=300)
    assert ran.outcomes == {Outcome.OK: ran.counters["scheduled"]}
    assert ran.counters["abandoned_turns"] == 0


def test_cancel_cuts_what_is_in_flight():
    ran = drive(constant(), duration=Duration.seconds(10), client={"service_ms": 60_000}, halt_ms=250, cut_ms=400)
    assert ran.outcomes == {Outcome.CANCELLED: 3}
    assert ran.ended_ms == 400


def test_cancel_reaches_sessions():
    ran = drive(closed(4), duration=Duration.seconds(10), client={"service_ms": 60_000}, halt_ms=100, cut_ms=150)
    assert ran.outcomes == {Outcome.CANCELLED: 4}


def test_the_token_limit_is_never_passed_and_what_is_past_it_was_never_scheduled():
    # Each is reserved at 100 and settles at 10: the third finds 10 + 100 spent and held, and would pass 150 with its own 100.
    ran = drive(
        constant(),
        duration=Duration.seconds(10),
        client={"service_ms": 150, "output_tokens": 10},
        limits=Limits(output_tokens=250),
    )
    spent = sum(result.usage.output_tokens or 0 for result in ran.results)
    assert spent <= 250
    assert len(ran.limits) == 1
    assert "the limit of 250 output tokens could be passed" in ran.limits[0]
    assert ran.counters["scheduled"] == len(ran.client.sent)


def test_the_cost_limit_counts_input_at_one_token_a_byte():
    price = Price(input_per_1m=1e6, output_per_1m=0.0)  # $1 a token
    ran = drive(constant(), duration=Duration.seconds(10), client={"service_ms": 10_000}, limits=Limits(cost=70.0), price=price)
    # "0.0" is three bytes, and a template may add 32 tokens: two requests hold $70, the third would pass it.
    assert len(ran.client.sent) == 2
    assert ran.limits == [
        "the limit of $70.00 could be passed: $0 spent so far, 2 requests in flight may cost $70.00, the next one $35.00"
    ]


def test_the_request_limit_is_a_ceiling():
    ran = drive(constant(), duration=Duration.seconds(10), client={"service_ms": 50}, limits=Limits(requests=7))
    assert len(ran.client.sent) == ran.counters["scheduled"] == 7
    assert ran.limits == ["the limit of 7 requests is reached"]


def test_the_request_limit_holds_beside_a_cost_limit_and_is_shared_out():
    limits = Limits(cost=1e9, requests=7).share(2)
    assert limits.requests == 3
    ran = drive(
        constant(), duration=Duration.seconds(10), client={"service_ms": 50}, limits=limits, price=Price(output_per_1m=1.0)
    )
    assert len(ran.client.sent) == 3


@settings(max_examples=60)
@given(
    outcomes=st.dictionaries(
        st.builds("{}.{}".format, st.integers(0, 12), st.integers(0, 2)),
        st.sampled_from([Outcome.SERVER_ERROR, Outcome.TIMEOUT, Outcome.RATE_LIMITED, Outcome.STREAM_BROKEN]),
        max_size=8,
    ),
    open_loop=st.booleans(),
    places=st.integers(1, 5),
    halt_ms=st.one_of(st.none(), st.integers(0, 900)),
    cut=st.booleans(),
)
def test_whatever_happens_every_scheduled_request_has_one_outcome(outcomes, open_loop, places, halt_ms, cut):
    arrivals = constant("20/s") if open_loop else closed(4)
    ran = drive(
        arrivals, duration=Duration.seconds(0.7), talks=Talks(3, 20), max_in_flight=places, halt_ms=halt_ms,
        cut_ms=950 if cut and halt_ms is not None else None, client={"service_ms": 130, "outcomes": outcomes},
    )  # fmt: skip
    ids = [result.id for result in ran.results]
    assert len(set(ids)) == len(ids)
    turns = ran.counters["scheduled"] + ran.counters["abandoned_turns"]
    assert turns == 3 * ran.counters["conversations"]
