"""One schedule, whatever the number of workers; planned from the seed, a stream of randomness a dimension."""

import itertools

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r1perf.arrivals import Closed, Constant, Gamma, Poisson, Ramp, Stages
from r1perf.errors import ScenarioError
from r1perf.schedule import Share, plan, stage_name
from r1perf.units import Duration, Rate

S = 1_000_000_000
D = Duration.parse
MIX = {"aime": Share(weight=3), "chat": Share(weight=7)}
ONE = {"w": Share(weight=1)}


def poisson(rate, **fields):
    return Poisson(rate=Rate(rate), **fields)


def stages(*parts):
    return Stages(stages=parts)


RAMP_STEADY = stages(
    Ramp(name="ramp", start=Rate(1), end=Rate(10), duration=D("60s")), poisson(10, name="steady", duration=D("60s"))
)


def outline(made):
    """Return (name, start s, end s, judged, follows) of each stage."""
    return [(s.name, s.start_ns / S, None if s.end_ns is None else s.end_ns / S, s.judged, s.follows) for s in made.stages]


# --- Laws ---

arrivals_of_any_sort = st.sampled_from([
    poisson(20, duration=D("30s")), RAMP_STEADY, Constant(rate=Rate(5), duration=D("20s")),
    Gamma(rate=Rate(9), shape=0.3, duration=D("20s")), stages(Closed(sessions=7, duration=D("9s")), poisson(3, duration=D("9s"))),
])  # fmt: skip


@given(process=arrivals_of_any_sort, seed=st.integers(0, 2**63), n=st.integers(1, 40), m=st.integers(1, 4), own=st.booleans())
@settings(max_examples=60)
def test_shards_partition_the_schedule_for_any_n(process, seed, n, m, own):
    mix = MIX | ({"side": Share(arrivals=Constant(rate=Rate(2)))} if own else {})
    whole = plan(mix, process, seed=seed, warmup=D("3s"))
    shards = [whole.shard(i, n) for i in range(n)]
    parts = [list(shard) for shard in shards]
    merged = sorted(itertools.chain(*parts), key=lambda arrival: arrival.index)
    assert merged == list(whole)
    assert all(part == sorted(part, key=lambda arrival: arrival.offset_ns) for part in parts)
    assert {shard.digest() for shard in shards} == {whole.digest()}
    held = [(s.base, session) for shard in shards for s in shard.sessions for session in range(s.first, s.count, s.step)]
    assert sorted(held) == [(s.base, session) for s in whole.sessions for session in range(s.count)]
    # A shard of a shard is a part of the whole as well.
    again = list(itertools.chain(*(list(shards[0].shard(j, m)) for j in range(m))))
    assert sorted(again, key=lambda arrival: arrival.index) == parts[0]
    nested = [(s.base, k) for j in range(m) for s in shards[-1].shard(j, m).sessions for k in range(s.first, s.count, s.step)]
    assert sorted(nested) == [(s.base, k) for s in shards[-1].sessions for k in range(s.first, s.count, s.step)]


@given(process=arrivals_of_any_sort, seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_the_same_seed_gives_the_same_schedule_and_another_seed_another(process, seed):
    one, same, other = (plan(MIX, process, seed=s) for s in (seed, seed, seed + 1))
    assert (one.digest(), list(one), one.sessions) == (same.digest(), list(same), same.sessions)
    assert one.digest() != other.digest()


@given(process=arrivals_of_any_sort, seed=st.integers(0, 2**32), warmup=st.booleans(), cooldown=st.booleans())
@settings(max_examples=40)
def test_every_arrival_lies_in_its_stage_and_items_count_up(process, seed, warmup, cooldown):
    made = plan(MIX, process, seed=seed, warmup=D("4s") if warmup else None, cooldown=D("5s") if cooldown else None)
    assert [stage.index for stage in made.stages] == list(range(len(made.stages)))
    assert made.stages[-1].name == "drain"
    for arrival in made:
        stage = made.stages[arrival.stage]
        assert stage.start_ns <= arrival.offset_ns < stage.end_ns
    for name in MIX:
        items = [arrival.item for arrival in made if arrival.workload == name]
        assert sorted(items) == list(range(len(items)))
        judged = [a.item for a in made if a.workload == name and made.stages[a.stage].name not in ("warmup", "cooldown")]
        assert judged == list(range(len(judged)))


def test_poisson_stays_poisson_when_it_is_sharded_and_merged_again():
    """A leading tool's schedule draws each gap once a worker: lag-1 correlation 0.90, dispersion 8.9 with ten."""
    whole = plan(ONE, poisson(50), seed=7, requests=40_000)
    shards = [whole.shard(i, 10) for i in range(10)]
    merged = np.sort(np.concatenate([[arrival.offset_ns / S for arrival in shard] for shard in shards]))
    for at, abs_corr in ((merged, 0.02), (np.array([a.offset_ns / S for a in shards[3]]), 0.05)):
        counts = np.histogram(at, bins=np.arange(0, at[-1], 1.0 if len(at) > 10_000 else 10.0))[0]
        gaps = np.diff(at)
        assert np.corrcoef(gaps[:-1], gaps[1:])[0, 1] == pytest.approx(0, abs=abs_corr)
        # Every tenth arrival of a Poisson process is a gamma process of shape 10: far more regular.
        assert counts.var() / counts.mean() == pytest.approx(1.0 if len(at) > 10_000 else 0.1, abs=0.12)


def test_weights_share_the_conversations():
    made = plan(MIX | {"never": Share(weight=0)}, poisson(100), seed=1, duration=D("1000s"))
    counts = np.bincount(made.workload_of, minlength=3) / len(made)
    assert counts.tolist() == pytest.approx([0.3, 0.7, 0.0], abs=0.01)


def test_a_million_arrivals_stay_arrays_and_are_gone_through_lazily():
    made = plan(MIX, poisson(1000), seed=1, duration=D("1000s"))
    assert len(made) == pytest.approx(1_000_000, rel=0.01)
    first = list(itertools.islice(made.shard(1, 4), 3))
    assert [arrival.index for arrival in first] == [1, 5, 9]


# --- What a change leaves alone ---


def rows(made, stage, *, items=True):
    start = next(s.start_ns for s in made.stages if s.name == stage)
    return [(a.offset_ns - start, a.workload) + ((a.item,) if items else ()) for a in made if made.stages[a.stage].name == stage]


def test_a_change_to_one_stage_leaves_the_others_times_and_workloads():
    longer = stages(msgspec.structs.replace(RAMP_STEADY.stages[0], end=Rate(20)), RAMP_STEADY.stages[1])
    one, other = plan(MIX, RAMP_STEADY, seed=5), plan(MIX, longer, seed=5)
    assert rows(one, "steady", items=False) == rows(other, "steady", items=False)
    assert rows(one, "ramp") != rows(other, "ramp")


def test_equal_stages_have_times_and_workloads_of_their_own():
    made = plan(MIX, stages(poisson(10, duration=D("60s")), poisson(10, duration=D("60s"))), seed=5)
    one, other = rows(made, "poisson"), rows(made, "poisson-2")
    assert [row[0] for row in one[:100]] != [row[0] for row in other[:100]]
    assert [row[1] for row in one[:100]] != [row[1] for row in other[:100]]


def test_warmup_and_cooldown_leave_the_window_as_it_was():
    one = plan(MIX, RAMP_STEADY, seed=5)
    other = plan(MIX, RAMP_STEADY, seed=5, warmup=D("30s"), cooldown=D("20s"))
    for stage in ("ramp", "steady"):
        assert rows(one, stage) == rows(other, stage)


def test_weights_leave_the_times():
    one, other = plan(MIX, RAMP_STEADY, seed=5), plan(MIX | {"chat": Share(weight=1)}, RAMP_STEADY, seed=5)
    assert [a.offset_ns for a in one] == [a.offset_ns for a in other]
    assert [a.workload for a in one] != [a.workload for a in other]


def test_a_workload_with_arrivals_of_its_own_leaves_the_others():
    own = {"side": Share(arrivals=poisson(2))}
    one, other = plan(MIX, RAMP_STEADY, seed=5), plan(MIX | own, RAMP_STEADY, seed=5)
    assert [(a.offset_ns, a.workload, a.item) for a in other if a.workload != "side"] == [
        (a.offset_ns, a.workload, a.item) for a in one
    ]


# --- Stages ---


@pytest.mark.parametrize(
    ("process", "options", "expected"),
    [
        pytest.param(poisson(1, duration=D("10s")), {}, [("poisson", 0, 10, True, None), ("drain", 10, None, False, None)], id="one"),
        pytest.param(
            RAMP_STEADY, {"warmup": D("30s"), "cooldown": D("20s")},
            [("warmup", 0, 30, False, None), ("ramp", 30, 90, False, None), ("steady", 90, 150, True, None),
             ("cooldown", 150, 170, False, None), ("drain", 170, None, False, None)],
            id="ramp-then-steady",
        ),
        pytest.param(
            stages(Ramp(start=Rate(1), end=Rate(2), duration=D("5s"), hold=D("3s"), judged=True), poisson(1, duration=D("5s"), judged=False)), {},
            [("ramp", 0, 8, True, None), ("poisson", 8, 13, False, None), ("drain", 13, None, False, None)],
            id="judged-as-they-say",
        ),
        pytest.param(
            stages(poisson(1, duration=D("5s")), poisson(2, duration=D("5s"))), {"duration": D("30s")},
            [("poisson", 0, 15, True, None), ("poisson-2", 15, 30, True, None), ("drain", 30, None, False, None)],
            id="stretched",
        ),
        pytest.param(
            Ramp(start=Rate(1), end=Rate(2), duration=D("5s")), {"duration": D("30s")},
            [("ramp", 0, 30, True, None), ("drain", 30, None, False, None)], id="ramp-held-to-the-end",
        ),
        pytest.param(
            Closed(sessions=4), {"duration": D("30s"), "warmup": D("5s")},
            [("warmup", 0, 5, False, None), ("closed", 5, 35, True, None), ("drain", 35, None, False, None)], id="closed",
        ),
        pytest.param(
            stages(*(Closed(sessions=n, requests=500) for n in (1, 8))), {"warmup": D("5s")},
            [("warmup", 0, 5, False, None), ("closed", 0, None, True, 0), ("closed-2", 0, None, True, 1), ("drain", 0, None, False, 2)],
            id="closed-by-requests",
        ),
    ],
)  # fmt: skip
def test_stages_lie_one_after_the_other(process, options, expected):
    assert outline(plan(ONE, process, seed=1, **options)) == expected


def test_requests_end_the_window_and_leave_room_for_later_turns():
    made = plan(ONE, poisson(5), seed=1, requests=100, warmup=D("10s"))
    assert sum(made.stages[a.stage].name == "poisson" for a in made) == 100
    assert outline(made)[1:] == [("poisson", 10, None, True, None), ("drain", 0, None, False, 1)]  # 0 s after that stage's end


def test_a_ramp_holds_its_end_rate_until_the_last_request():
    made = plan(ONE, Ramp(start=Rate(1), end=Rate(3), duration=D("10s"), gaps="constant"), seed=1, requests=50)
    assert (len(made), made.times_ns[-1] / S) == (50, pytest.approx(10 + 29 / 3))


TO_NONE = Ramp(start=Rate(10), end=Rate(0), duration=D("2s"), gaps="constant")


@pytest.mark.parametrize(
    ("mix", "process", "requests", "says"),
    [
        pytest.param(ONE, TO_NONE, 10, None, id="reached"),
        pytest.param(ONE, TO_NONE, 50, "the ramp ends at 0/s: about 10 of 50 requests come", id="ramp to 0"),
        pytest.param({"w": Share(weight=1, turns=2.0)}, TO_NONE, 50, "the ramp ends at 0/s: about 20 of 50 requests come", id="turns"),
        pytest.param(ONE, stages(Constant(rate=Rate(10), duration=D("2s")), TO_NONE), 60, "the ramp ends at 0/s: about 30 of 60 requests come", id="stages"),
        pytest.param(ONE, stages(Constant(rate=Rate(10), requests=5), Constant(rate=Rate(1), duration=D("3s"))), 60,
                     "the arrivals end before `requests`: about 8 of 60 requests come", id="stages that end by their own"),
        pytest.param({"a": Share(arrivals=TO_NONE)}, None, 50, "the ramp ends at 0/s: about 10 of 50 requests come", id="own"),
        pytest.param({"a": Share(arrivals=TO_NONE)} | ONE, TO_NONE, 50, "the ramp ends at 0/s: about 20 of 50 requests come", id="own and shared"),
        pytest.param({"a": Share(arrivals=TO_NONE)} | ONE, TO_NONE, 20, None, id="reached together"),
        pytest.param(ONE, Closed(sessions=4), 50, None, id="closed"),
    ],
)  # fmt: skip
def test_a_plan_says_where_fewer_requests_come_than_were_to_end_it(mix, process, requests, says):
    made = plan(mix, process, seed=1, requests=requests)
    assert (made.short, made.shard(1, 2).short) == (says, says)


def test_requests_count_expected_turns():
    assert len(plan({"w": Share(weight=1, turns=2.5)}, poisson(5), seed=1, requests=100)) == 40


def test_requests_cut_stages_and_drop_those_after():
    made = plan(ONE, stages(Constant(rate=Rate(1), duration=D("10s")), poisson(1, duration=D("10s"))), seed=1, requests=4)
    assert [s.name for s in made.stages] == ["constant", "drain"]
    assert [a.offset_ns / S for a in made] == [0, 1, 2, 3]


def test_a_by_request_ramp_alone_has_the_times_of_the_seeds_own_stream():
    made = plan(ONE, Ramp(start=Rate(1), end=Rate(10), by="request"), seed=42, requests=400)
    random = np.random.RandomState(42)
    expected = np.cumsum([random.gamma(1.0, 1 / (1 + 9 * i / 399)) for i in range(400)])
    assert made.times_ns.tolist() == pytest.approx((expected * 1e9).tolist(), abs=2)


def test_workloads_with_arrivals_of_their_own_are_merged_by_time():
    own = {"a": Share(arrivals=Constant(rate=Rate(1))), "b": Share(arrivals=Constant(rate=Rate(2)))}
    made = plan(own, None, seed=1, duration=D("2s"), warmup=D("1s"), cooldown=D("1s"))
    assert [(a.offset_ns / S, a.workload, made.stages[a.stage].name, a.item) for a in made] == [
        (0, "a", "warmup", 2), (0, "b", "warmup", 4), (0.5, "b", "warmup", 5),
        (1, "a", "main", 0), (1, "b", "main", 0), (1.5, "b", "main", 1), (2, "a", "main", 1), (2, "b", "main", 2), (2.5, "b", "main", 3),
        (3, "a", "cooldown", 3), (3, "b", "cooldown", 6), (3.5, "b", "cooldown", 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("law", "cooling"),
    [
        pytest.param({"duration": D("3s")}, 0, id="its duration ends before the window"),
        pytest.param({"requests": 15}, 0, id="its requests end before the window"),
        pytest.param({"duration": D("6s")}, 10, id="both end at once"),
        pytest.param({}, 10, id="the window ends it"),
    ],
)
def test_what_has_ended_before_the_window_does_not_begin_again_in_the_cooldown(law, cooling):
    own = {"b": Share(arrivals=Constant(rate=Rate(5), **law))}
    parts = stages(*(Constant(name=name, rate=Rate(1), duration=D("3s")) for name in "xy"))
    made = plan(ONE | own, parts, seed=1, cooldown=D("2s"))
    came = [(a.workload, made.stages[a.stage].name) for a in made]
    assert (came.count(("b", "x")), came.count(("b", "cooldown")), came.count(("w", "cooldown"))) == (15, cooling, 2)


@pytest.mark.parametrize(("hold", "cooling"), [("5s", 0), ("8s", 6)])
def test_a_ramp_whose_hold_is_over_stays_away_from_the_cooldown(hold, cooling):
    ramp = Ramp(start=Rate(1), end=Rate(3), duration=D("2s"), hold=D(hold), gaps="constant")
    made = plan(ONE, ramp, seed=1, duration=D("10s"), cooldown=D("2s"))
    assert sum(made.stages[a.stage].name == "cooldown" for a in made) == cooling


def test_own_arrivals_end_with_the_requests_of_all():
    made = plan(ONE | {"a": Share(arrivals=Constant(rate=Rate(1)))}, Constant(rate=Rate(1)), seed=1, requests=5)
    assert [(a.offset_ns / S, a.workload) for a in made] == [(0, "w"), (0, "a"), (1, "w"), (1, "a"), (2, "w")]
    assert made.stages[0].end_ns is None


@pytest.mark.parametrize(
    ("mix", "process", "options", "message"),
    [
        (ONE, poisson(1), {}, "`arrivals`: needs an end: give `duration` or `requests`"),
        (ONE, stages(Closed(sessions=1, requests=5), poisson(1, duration=D("5s"))), {},
         "`arrivals.stages[1]`: an open-loop stage cannot come after a closed one that ends by requests"),
        (ONE, stages(Closed(sessions=1, requests=5)), {"duration": D("5s")},
         "`duration`: cannot stretch stages that end by requests; leave it out, or give each stage a duration"),
        (ONE, Closed(sessions=1, requests=5), {"cooldown": D("5s")},
         "`cooldown`: needs a window that ends by duration, not by closed-loop requests"),
        (ONE | {"a": Share(arrivals=poisson(1))}, Closed(sessions=1, requests=5), {},
         "`arrivals`: must end by duration where a workload has arrivals of its own"),
        ({"a": Share(arrivals=poisson(1))}, None, {},
         "`duration`: is missing: workloads with arrivals of their own need to know when the window ends"),
        (ONE, poisson(1e6), {"duration": D("1h")}, "`arrivals`: poisson 1e+06/s makes about 3,600,000,000 arrivals; at most 20,000,000 fit in a plan"),
        (ONE, Constant(rate=Rate(1e-5)), {"requests": 500_000},
         "`arrivals`: constant 1e-05/s has the last of 500,000 arrivals 578,703 days after the start; allowed: 365 days"),
        (ONE, Ramp(start=Rate(10), end=Rate(1e-6), duration=D("10s"), gaps="constant"), {"requests": 5_000},
         "`arrivals`: ramp 10/s to 1e-06/s, linear by time, constant gaps has the last of 5,000 arrivals 57,280 days after the start; allowed: 365 days"),
        (ONE, stages(poisson(1, duration=D("5s")), Constant(rate=Rate(1e-6), requests=99)), {},
         "`arrivals.stages[1]`: constant 1e-06/s has the last of 99 arrivals 1,134 days after the start; allowed: 365 days"),
        ({"a": Share(arrivals=Constant(rate=Rate(1e-6)))}, None, {"requests": 99},
         "`workload.a.arrivals`: constant 1e-06/s has the last of 99 arrivals 1,134 days after the start; allowed: 365 days"),
        (ONE, Constant(rate=Rate(0.01), duration=D("10s")), {"warmup": D("9000h")},
         "`arrivals`: constant 0.01/s has the last of 324,000 arrivals 375 days after the start; allowed: 365 days"),
        ({"w": Share(weight=0)}, poisson(1), {"duration": D("5s")}, "`arrivals`: no workload has a weight, so nothing would use these arrivals"),
    ],
)  # fmt: skip
def test_what_makes_no_run_is_refused(mix, process, options, message):
    with pytest.raises(ScenarioError) as caught:
        plan(mix, process, seed=1, **options)
    assert str(caught.value) == message


# --- Closed loop ---


def sessions_of(made):
    return [
        (s.stage, s.count, s.start_ns / S, None if s.end_ns is None else s.end_ns / S, s.conversations) for s in made.sessions
    ]


@pytest.mark.parametrize(
    ("process", "options", "expected"),
    [
        pytest.param(Closed(sessions=4), {"duration": D("30s")}, [(0, 4, 0, 30, None)], id="one"),
        pytest.param(Closed(sessions=4), {"duration": D("30s"), "warmup": D("5s"), "cooldown": D("9s")}, [(0, 4, 0, 44, None)],
                     id="through-warmup-and-cooldown"),
        pytest.param(stages(*(Closed(sessions=n, duration=D("10s")) for n in (8, 32, 16))), {},
                     [(0, 8, 0, 30, None), (1, 8, 10, 30, None), (1, 16, 10, 20, None)], id="up-and-down"),
        pytest.param(stages(*(Closed(sessions=n, duration=D("10s")) for n in (8, 2, 8))), {},
                     [(0, 2, 0, 30, None), (0, 6, 0, 10, None), (2, 6, 20, 30, None)], id="down-and-up"),
        pytest.param(stages(Closed(sessions=8, duration=D("10s")), poisson(1, duration=D("10s")), Closed(sessions=8, duration=D("10s"))), {},
                     [(0, 8, 0, 10, None), (2, 8, 20, 30, None)], id="apart"),
        pytest.param(stages(Closed(sessions=8, duration=D("10s")), Closed(sessions=8, duration=D("10s"), think_time=D("1s"))), {},
                     [(0, 8, 0, 10, None), (1, 8, 10, 20, None)], id="other-think-time"),
        pytest.param(stages(*(Closed(sessions=n, requests=500) for n in (1, 8))), {}, [(0, 1, 0, None, 500), (1, 8, 0, None, 500)], id="requests"),
    ],
)  # fmt: skip
def test_sessions_that_stages_share_go_on(process, options, expected):
    assert sessions_of(plan(ONE, process, seed=1, **options)) == expected


def test_session_s_takes_items_s_and_every_count_th_after():
    made = plan(ONE, Closed(sessions=4, requests=10), seed=1)
    (group,) = made.sessions
    taken = {s: [a.item for n in range(5) if (a := made.conversation(group, s, n))] for s in range(4)}
    assert taken == {0: [0, 4, 8], 1: [1, 5, 9], 2: [2, 6], 3: [3, 7]}
    assert made.conversation(group, 2, 2) is None


@given(seed=st.integers(0, 2**32), n=st.integers(1, 9), sessions=st.integers(1, 12), asked=st.permutations(range(8)))
@settings(max_examples=30)
def test_what_a_session_does_depends_on_no_shard_and_on_no_order(seed, n, sessions, asked):
    process = stages(Closed(sessions=sessions, requests=60), Closed(sessions=2, requests=40))
    whole = plan(MIX, process, seed=seed)
    reference = {
        (g.base, s, k): whole.conversation(g, s, k) for g in whole.sessions for s in range(g.count) for k in range(8)
    }  # fmt: skip
    for i in range(n):
        shard = plan(MIX, process, seed=seed).shard(i, n)
        for group in shard.sessions:
            for k in asked:
                for session in range(group.first, group.count, group.step):
                    assert shard.conversation(group, session, k) == reference[group.base, session, k]


def test_closed_loop_items_and_indexes_are_nobody_elses():
    process = stages(poisson(20, duration=D("5s")), Closed(sessions=3, duration=D("5s")), Closed(sessions=5, duration=D("5s")))
    made = plan(MIX | {"own": Share(arrivals=Closed(sessions=2))}, process, seed=3)
    arrivals = list(made) + [made.conversation(g, s, k) for g in made.sessions for s in range(g.count) for k in range(50)]
    assert len({a.index for a in arrivals}) == len(arrivals)
    assert len({(a.workload, a.item) for a in arrivals}) == len(arrivals)
    assert [s.workload for s in made.sessions] == [None, None, "own"]


def test_closed_loop_workloads_come_by_weight_and_take_items_in_turn():
    made = plan(MIX, Closed(sessions=10, requests=10_000), seed=1)
    (group,) = made.sessions
    taken = [made.conversation(group, s, n) for n in range(1000) for s in range(10)]
    assert sum(a.workload == "aime" for a in taken) / 10_000 == pytest.approx(0.3, abs=0.02)
    assert [a.item for a in taken if a.workload == "aime"] == list(range(sum(a.workload == "aime" for a in taken)))


# --- Live stages ---


def test_a_live_stage_depends_on_seed_and_number_alone_and_is_shared_out():
    whole = plan(MIX, poisson(2, duration=D("10s")), seed=1)
    other = plan(MIX, RAMP_STEADY, seed=1)
    stage, arrivals = whole.live(2, 5.0, 100 * S)
    rows = list(itertools.islice(arrivals, 10_000))
    assert (stage.name, stage.start_ns, stage.end_ns, stage.index) == ("live-2", 100 * S, None, len(whole.stages) + 1)
    assert stage_name(whole.stages, stage.index) == "live-2"
    assert [stage_name(whole.stages, known.index) for known in whole.stages] == ["poisson", "drain"]
    others = [msgspec.structs.replace(a, stage=stage.index) for a in itertools.islice(other.live(2, 5.0, 100 * S)[1], 10_000)]
    assert rows == others
    assert rows[0] != next(whole.live(3, 5.0, 100 * S)[1])
    parts = [list(itertools.islice(whole.shard(i, 3).live(2, 5.0, 100 * S)[1], 1000)) for i in range(3)]
    assert sorted(itertools.chain(*parts), key=lambda a: a.index) == rows[:3000]
    assert (rows[-1].offset_ns - 100 * S) / S == pytest.approx(2000, rel=0.05)
    assert {a.stage for a in rows} == {stage.index}


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-9, 1e9, float("inf"), float("nan")])
def test_no_live_stage_has_a_rate_at_which_nothing_or_too_much_would_come(rate):
    with pytest.raises(ValueError, match="arrivals cannot come at"):
        plan(MIX, poisson(2, duration=D("10s")), seed=1).live(1, rate, 0)


@pytest.mark.parametrize("rate", [Rate.LEAST, Rate.MOST])
def test_the_times_of_a_live_stage_fit_at_either_end(rate):
    _, arrivals = plan(MIX, poisson(2, duration=D("10s")), seed=1).live(1, rate, 0)
    times_ns = [arrival.offset_ns for arrival in itertools.islice(arrivals, 4000)]
    assert times_ns == sorted(times_ns)
    assert times_ns[-1] / S * rate == pytest.approx(4000, rel=0.1)


def test_a_shard_that_is_none_is_refused():
    with pytest.raises(ValueError, match="shard 3 of 3 does not exist"):
        plan(ONE, poisson(1, duration=D("5s")), seed=1).shard(3, 3)
