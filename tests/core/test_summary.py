import random
from functools import cache

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_run import MS, STAGES, T0, Answer, S, a_run, play, traffic

from r1perf.histogram import Counts
from r1perf.recorder import Recorder
from r1perf.result import Outcome
from r1perf.schedule import Stage
from r1perf.snapshot import Counter, Health, Series, Snapshot
from r1perf.summary import ALL, Interval, Summary, cost, document, little, rates, recent, stationarity, validity
from r1perf.summary.readings import Read, Readings
from r1perf.summary.stationarity import judge, rises
from r1perf.target import Price, System

HEALTH = Health(in_flight=0, waiting=0, cpu_ns=0, wall_ns=S, loop_lag_max_ns=0, delay_max_ns=0, rss_bytes=0)


def snapshot(k=0, worker="0", series=(), counters=(), health=HEALTH, ended=(), in_flight=(), **more):
    return Snapshot(worker, k, list(series), list(counters), health, list(in_flight), list(ended), **more)


def series(metric, values, workload="chat", stage=1):
    counts = Counts.of(values)
    return Series(metric, workload, stage, *counts.sparse(), counts.count, counts.total, counts.least, counts.most)


def merged(*snapshots, **changes):
    summary = Summary(a_run(**changes))
    for taken in snapshots:
        summary.merge(taken)
    return summary


@cache
def mixed():
    """Three workers' snapshots of one run."""
    return tuple(taken for n in range(3) for taken in play(traffic(n), seconds=50, worker=str(n)))


def everything(summary):
    read = list(summary.read([(0, 99 * S)]))
    return summary.series, summary.counters, read, summary.in_flight, summary.ended, summary.levels((0, 99 * S), waiting=True)


@settings(max_examples=30)
@given(st.randoms(use_true_random=False), st.integers(0, 40))
def test_order_and_duplicates_of_snapshots_do_not_matter(shuffle: random.Random, repeated):
    reference = merged(*mixed())
    order = [*mixed(), *mixed()[:repeated]]
    shuffle.shuffle(order)
    summary = Summary(a_run())
    assert sum(summary.merge(taken) for taken in order) == len(mixed())
    assert everything(summary) == everything(reference)


def test_the_document_does_not_depend_on_the_order_either():
    assert document(merged(*reversed(mixed()))) == document(merged(*mixed()))


def test_several_workers_equal_one_that_recorded_everything():
    parts = traffic(5)
    whole = merged(*play(parts, seconds=50))
    split = merged(*(taken for n in range(3) for taken in play(parts[n::3], seconds=50, worker=str(n))))
    assert split.series == whole.series
    assert split.counters == whole.counters


def test_intervals_add_up_to_the_summary():
    snapshots = mixed()
    intervals = [Interval.of(*(taken for taken in snapshots if taken.k == k)) for k in range(50)]
    summary = merged(*snapshots)
    for key, counts in summary.series.items():
        assert Counts.merged(interval.series[key] for interval in intervals if key in interval.series) == counts
    assert summary.counters == {
        key: n for key in summary.counters if (n := sum(interval.counters.get(key, 0) for interval in intervals))
    }


def test_none_asks_for_judged_stages_and_all_for_every_one():
    summary = merged(snapshot(series=[series("ttft", [10 * stage + 1], stage=stage) for stage in range(4)]))
    assert sorted(summary.counts("ttft").buckets) == [11, 21]
    assert sorted(summary.counts("ttft", stage=ALL).buckets) == [1, 11, 21, 31]
    assert sorted(summary.counts("ttft", stage=3).buckets) == [31]
    assert summary.counts("ttft", "aime").count == 0


def test_scheduled_is_the_sum_of_outcomes_and_in_flight_all_the_time():
    summary = Summary(a_run())
    for taken in play(traffic(), seconds=50):
        summary.merge(taken)
        assert summary.counter("scheduled", stage=ALL) == sum(summary.outcomes().values()) + summary.in_flight
    assert summary.in_flight == 0
    assert sum(summary.outcomes().values()) == len(traffic())


def test_outcomes_and_reasons():
    summary = merged(*play(traffic(), seconds=50))
    expected = {outcome: sum(plan.outcome is outcome for plan in traffic()) for outcome in Outcome}
    assert summary.outcomes() == {outcome: n for outcome, n in expected.items() if n}
    assert summary.reasons(Outcome.OVERLOADED) == {"503": expected[Outcome.OVERLOADED]}
    assert summary.reasons(Outcome.OK) == {}


# --- Lost workers ---


def test_what_a_dead_worker_had_due_is_lost_once():
    due = [Counter("scheduled", "chat", 1, 7), Counter("outcome.ok", "chat", 1, 4), Counter("scheduled", "aime", 2, 2)]
    flying = msgspec.structs.replace(HEALTH, in_flight=4, waiting=1)
    summary = merged(snapshot(counters=due, health=flying), snapshot(worker="1", counters=due[:1], health=flying))
    assert (summary.pending("0"), summary.in_flight) == (5, 10)
    assert [summary.lose("0"), summary.lose("0")] == [5, 0]
    assert summary.outcomes() == {Outcome.OK: 4, Outcome.LOST: 5}
    assert summary.counter("outcome.lost", "aime", 2) == 2
    assert summary.in_flight == 5
    assert "worker 0 was lost" in validity(summary).reasons


# --- Windows and rates ---


def test_windows_are_planned_or_told_and_end_where_the_run_has_come_to():
    summary = merged(*(snapshot(k) for k in range(20)))
    assert [summary.window(stage) for stage in STAGES] == [(0, 5 * S), (5 * S, 15 * S), (15 * S, 20 * S), None]
    summary.merge(snapshot(20, ended=[(2, 20 * S + 7)]))
    assert summary.window(STAGES[2]) == (15 * S, 20 * S + 7)


def test_a_stage_behind_an_open_end_has_its_window_when_that_has_ended():
    stages = (
        Stage(0, "requests", 0, None, judged=True, says=""),
        Stage(1, "cooldown", 0, 2 * S, judged=False, says="", follows=0),
        Stage(2, "drain", 2 * S, None, judged=False, says="", follows=0),
    )
    summary = merged(*(snapshot(k) for k in range(8)), stages=stages)
    assert [summary.window(stage) for stage in stages] == [(0, 8 * S), None, None]
    summary.merge(snapshot(8, ended=[(0, 5 * S)]))
    summary.merge(snapshot(7, worker="1", ended=[(0, 6 * S)]))
    assert [summary.window(stage) for stage in stages] == [(0, 6 * S), (6 * S, 8 * S), (8 * S, 9 * S)]


HALTED = [
    # A stage that runs, one that follows by the plan, one that follows when its requests have ended; then what is told.
    pytest.param((10, 20, None), [(0, 4)], [(0, 4), (10, 19), None], id="a stage that is over early, the next as planned"),
    pytest.param((10, 20, None), [(0, 4), (1, 4)], [(0, 4), None, (4, 19)], id="halted in the first of two"),
    pytest.param((10, 20, None), [(0, 10), (1, 12)], [(0, 10), (10, 12), (12, 19)], id="halted in the second"),
    pytest.param((10, 12, None), [(0, 10), (1, 12)], [(0, 10), (10, 12), (12, 19)], id="ended as planned"),
    pytest.param((None, 20, 0), [(0, 4), (1, 4)], [(0, 4), None, (4, 19)], id="halted before what follows"),
    pytest.param((None, 5, 0), [(0, 4)], [(0, 4), (4, 9), (9, 19)], id="what follows ends as planned"),
]


@pytest.mark.parametrize(("plan", "ended", "windows"), HALTED)
def test_the_drain_begins_when_the_last_stage_has_really_ended(plan, ended, windows):
    first_end, second_end, follows = plan
    stages = (
        Stage(0, "first", 0, None if first_end is None else first_end * S, judged=True, says=""),
        Stage(1, "second", 0 if follows == 0 else 10 * S, second_end * S, judged=True, says="", follows=follows),
        Stage(2, "drain", 20 * S, None, judged=False, says=""),
    )
    summary = merged(*(snapshot(k) for k in range(18)), stages=stages)
    summary.merge(snapshot(18, ended=[(stage, at * S) for stage, at in ended]))
    seconds = [window and (window[0] / S, window[1] / S) for window in map(summary.window, stages)]
    assert seconds == windows
    assert recent(summary).stage == ["first", "second", "drain"][max(n for n, window in enumerate(windows) if window)]


def test_a_stage_of_the_web_ui_keeps_the_drain_from_beginning():
    stages = (Stage(0, "first", 0, 10 * S, judged=True, says=""), Stage(1, "drain", 10 * S, None, judged=False, says=""))
    summary = merged(*(snapshot(k) for k in range(14)), stages=stages)
    summary.add_stage(live := Stage(2, "live-1", 4 * S, None, judged=True, says=""))
    summary.merge(snapshot(14, ended=[(0, 4 * S)]))
    assert [summary.window(stage) for stage in (*stages, live)] == [(0, 4 * S), None, (4 * S, 15 * S)]
    assert recent(summary).stage == "live-1"
    summary.merge(snapshot(15, ended=[(2, 15 * S)]))
    assert [summary.window(stage) for stage in (*stages, live)] == [(0, 4 * S), (15 * S, 16 * S), (4 * S, 15 * S)]
    assert recent(summary).stage == "drain"


def test_an_interval_that_was_cut_short_counts_its_own_length():
    short = msgspec.structs.replace(HEALTH, wall_ns=S // 4)
    assert merged(snapshot(0), snapshot(1, health=short)).elapsed_ns == 5 * S // 4


TOKENS = [
    Counter("completed", "chat", 1, 20), Counter("completed", "chat", 2, 50), Counter("completed", "chat", 3, 5),
    Counter("window_output_tokens", "chat", 1, 3000), Counter("window_output_tokens", "chat", 2, 32000),
    Counter("window_output_tokens", "chat", 3, 999), Counter("window_input_tokens", "chat", 2, 7000),
    Counter("input_tokens", "chat", 2, 8_000_000), Counter("cached_tokens", "chat", 2, 2_000_000),
    Counter("output_tokens", "chat", 2, 1_000_000), Counter("scheduled", "chat", 1, 70),
]  # fmt: skip


def test_throughput_is_what_happened_in_the_window_by_its_length():
    summary = merged(snapshot(39, counters=TOKENS))
    whole = rates(summary)
    assert (whole.seconds, whole.requests_per_s, whole.scheduled_per_s) == (35.0, 2.0, 2.0)
    assert (whole.output_tokens_per_s, whole.input_tokens_per_s, whole.total_tokens_per_s) == (1000.0, 200.0, 1200.0)
    assert (whole.total_tokens_per_s_per_gpu, whole.output_tokens_per_s_per_gpu) == (75.0, 62.5)
    steady = rates(summary, stage=2)
    assert (steady.seconds, steady.requests_per_s, steady.output_tokens_per_s) == (25.0, 2.0, 1280.0)
    assert rates(summary, "aime").output_tokens_per_s is None


def test_tokens_that_nobody_counted_are_absent_not_zero():
    whole = rates(merged(snapshot(39, counters=TOKENS[:3]), system=System()))
    assert (whole.output_tokens_per_s, whole.total_tokens_per_s, whole.total_tokens_per_s_per_gpu) == (None, None, None)


def test_there_is_no_rate_before_the_judged_window_begins():
    assert rates(merged(snapshot(3))) is None


@pytest.mark.parametrize(
    ("price", "gpus", "expected"),
    [
        (Price(input_per_1m=0.5, cached_per_1m=0.1, output_per_1m=2.0), None, ("tokens", 5.2, 5.2, 5.2 / 75)),
        (Price(input_per_1m=0.5, output_per_1m=2.0), None, ("tokens", 6.0, 6.0, 6.0 / 75)),
        (Price(output_per_1m=2.0), None, ("tokens", 2.0, 2.0, 2.0 / 75)),
        (Price(gpu_hour=1.17), 16, ("gpu_hours", 0.208, 5.2, 0.208 / 75)),
        (Price(gpu_hour=1.17), None, None),
        (Price(), 16, None),
    ],
    ids=["cached-price", "no-cached-price", "output-only", "gpu-hours", "no-gpus", "no-price"],
)
def test_cost(price, gpus, expected):
    found = cost(merged(snapshot(39, counters=TOKENS), price=price, system=System(gpus=gpus)))
    if expected is None:
        assert found is None
    else:
        basis, *numbers = expected
        assert found.basis == basis
        assert [found.usd, found.usd_per_1m_output_tokens, found.usd_per_request] == pytest.approx(numbers, rel=1e-12)


def test_littles_law_holds_over_a_whole_run():
    answers = [Answer(workload="chat", at_ns=n * S // 10 + 1, ttft_ns=S, gap_ns=S // 10, chunks=11) for n in range(300)]
    found = little(merged(*play(answers, seconds=40)))
    assert found.from_residence == 300 * 2 / 40
    assert found.in_flight_mean == pytest.approx(15.0, abs=1e-3)


@pytest.mark.parametrize(("seconds", "expected"), [(30, (2.97, 2.9)), (29, None)], ids=["enough flips", "too few"])
def test_levels_at_flips_stand_for_what_is_between_them(seconds, expected):
    """Three sessions that answer in 0.9 s until 29.7 s: 3 in flight nearly all the time, none when it begins and ends."""
    answers = [
        Answer(workload="chat", at_ns=n * 900 * MS + 1, ttft_ns=100 * MS, gap_ns=800 * MS, chunks=2) for n in range(33)
    ] * 3
    found = little(merged(*play(answers, seconds=30)[:seconds]))
    assert (found and (found.from_residence, found.in_flight_mean)) == (expected and pytest.approx(expected))


# --- The last seconds ---


def test_the_last_seconds():
    answers = [
        Answer(
            workload="chat",
            at_ns=n * S // 2 + 1,
            ttft_ns=(100 if n < 20 else 300) * MS,
            gap_ns=25 * MS,
            chunks=40,
            sent_late_ns=MS,
        )
        for n in range(60)
    ]
    summary = merged(*play(answers, seconds=30))
    now = recent(summary, 10)
    assert (now.elapsed_ns, now.seconds, now.stage) == (30 * S, 10.0, "steady")
    assert (now.scheduled_per_s, now.sent_per_s, now.completed_per_s) == (2.0, 2.0, 2.0)
    assert now.output_tokens_per_s == pytest.approx(80, rel=0.01)
    assert (now.ttft_p50, now.itl_p95) == (301_055, 25_007)  # the buckets' upper edges
    assert (now.in_flight, now.waiting, now.done, now.ok, now.failed) == (2, 0, 58, 58, {})
    assert (now.cpu, now.loop_lag_max_ns, now.delay_max_ns, now.conversations) == (0.3, 2 * MS, MS, 60)


def test_the_present_reaches_as_far_as_every_worker_has_reported():
    counters = [Counter("scheduled", "chat", 1, 10)]
    summary = merged(*(snapshot(k, counters=counters) for k in range(9)), snapshot(4, worker="1", counters=counters))
    now = recent(summary, 3)
    assert (now.seconds, now.scheduled_per_s) == (3.0, 40 / 3)
    summary.lose("1")
    assert recent(summary, 3).scheduled_per_s == 10


def test_the_present_goes_on_while_one_worker_still_measures():
    counters = [Counter("scheduled", "chat", 1, 10)]
    flying = msgspec.structs.replace(HEALTH, in_flight=7)
    summary = merged(
        *(snapshot(k, health=flying, counters=counters) for k in range(200)), snapshot(4, worker="1"), snapshot(5, worker="2")
    )
    summary.finish("1")
    assert recent(summary).elapsed_ns == 200 * S
    assert recent(summary).in_flight == 0  # of interval 5: worker 2 may still tell
    summary.finish("2")
    assert (recent(summary, 3).scheduled_per_s, recent(summary).in_flight, summary.in_flight) == (10, 7, 7)
    summary.finish("0")
    assert recent(summary, 3).scheduled_per_s == 10


def test_nothing_yet_is_not_zero_latency():
    now = recent(Summary(a_run()))
    assert (now.ttft_p50, now.itl_p50, now.cpu, now.seconds, now.sent_per_s) == (None, None, None, 0.0, 0.0)


def test_a_chunk_is_a_token_until_a_request_has_told():
    rec = Recorder("0", STAGES, T0, S)
    stream = rec.open("chat", 0, T0)
    stream.pending += [T0 + n for n in range(1, 31)]
    now = recent(merged(rec.flip(T0 + S)))
    assert (now.output_tokens_per_s, now.tokens_known) == (30.0, False)
    known = [Counter("counted_chunks", "chat", 0, 10), Counter("window_output_tokens", "chat", 0, 25)]
    stream.pending += [T0 + S + n for n in range(1, 31)]
    second = rec.flip(T0 + 2 * S)
    now = recent(merged(msgspec.structs.replace(second, counters=second.counters + known)), 1)
    assert (now.output_tokens_per_s, now.tokens_known) == (75.0, True)


# --- Stationarity ---

FLAT = [10, 11, 9, 10, 12, 10, 9, 11] * 8


@pytest.mark.parametrize(
    ("levels", "residence_s", "expected"),
    [
        (FLAT, 4, True),
        ([32] * 60, 2, True),
        ([1] + [32] * 59, 2, True),
        ([n // 2 for n in range(64)], 4, False),
        ([100 + n // 4 for n in range(64)], 4, False),
        ([1000 + n // 4 for n in range(64)], 4, True),
        (FLAT, 20, None),
        (FLAT, None, None),
        ([n * 3 for n in range(64)], None, False),
        ([n * 3 for n in range(64)], 40, False),
        ([64 - n for n in range(64)], 4, True),
        ([], None, None),
    ],
    ids=[
        "flat", "closed", "closed-with-ramp-up", "grows", "grows-slowly", "grows-by-a-percent", "short-and-flat", "none-has-ended",
        "grows-and-none-has-ended", "short-and-grows", "shrinks", "no-flip",
    ],
)  # fmt: skip
def test_stationarity(levels, residence_s, expected):
    found = judge(levels, S, None if residence_s is None else residence_s * S)
    assert found.stationary is expected
    assert ("not stationary" in found.says) == (expected is False)


def test_the_rank_test_has_its_level_on_independent_noise():
    noise = random.Random(3)
    found = sum(rises([noise.gauss(0, 1) for _ in range(12)]) for _ in range(4000))
    assert 20 < found < 60  # 1 % of 4000 is 40


def test_an_overloaded_stage_is_not_stationary_and_a_steady_one_is():
    steady = [Answer(workload="chat", at_ns=n * S // 4 + 1, ttft_ns=500 * MS, chunks=10) for n in range(160)]
    summary = merged(*play(steady, seconds=45))
    assert [stationarity(summary, stage).stationary for stage in STAGES[1:3]] == [True, True]
    queued = [Answer(workload="chat", at_ns=n * S // 4 + 1, ttft_ns=500 * MS + n * 150 * MS, chunks=10) for n in range(160)]
    summary = merged(*play(queued, seconds=80))
    assert stationarity(summary, STAGES[2]).stationary is False


@pytest.mark.parametrize(("waits", "expected"), [(0, True), (10, False)], ids=["a closed loop", "an open one at max_in_flight"])
def test_what_waits_for_a_place_in_flight_grows_too(waits, expected):
    quick = [series("e2e", [1_000_000])]
    summary = merged(
        *(
            snapshot(
                k,
                series=quick,
                in_flight=[("chat", 200)],
                health=msgspec.structs.replace(HEALTH, in_flight=200, waiting=waits * k),
            )
            for k in range(40)
        )
    )
    assert summary.levels((0, 2 * S), waiting=True) == [200, 200 + waits]
    assert summary.levels((0, 2 * S)) == [200, 200]
    assert stationarity(summary, STAGES[1]).stationary is expected


# --- Validity ---


def test_a_worker_has_12_bytes_of_each_interval_merged_in_any_order():
    readings = Readings()
    each = [msgspec.structs.replace(HEALTH, wall_ns=S + 1000 * k, cpu_ns=7000, stalled_ns=S << 20) for k in range(1000)]
    for k in (*range(999, 10, -2), *range(10, 1000, 2)):
        assert readings.add(k, each[k])
    assert not readings.add(998, HEALTH)
    assert (readings.missing, list(readings.of([0, 999, 1000, 10]))) == (
        10,
        [Read(1_000_999, 7, 2**32 - 1), Read(1_000_010, 7, 2**32 - 1)],
    )
    assert len(readings._us) * readings._us.itemsize == 12 * 1000


def test_a_run_whose_generator_kept_up_is_valid():
    found = validity(merged(*play(traffic(), seconds=50)))
    assert (found.valid, found.reasons) == (True, [])


def health(**changes):
    return msgspec.structs.replace(HEALTH, **changes)


def run_of(each=HEALTH, n=40, first=(), **more):
    return [snapshot(k, health=each, counters=list(first) if k == 0 else [], **more) for k in range(n)]


GROUNDS = {
    "late": (
        [snapshot(k, series=[series("schedule_delay", [6_000])]) for k in range(40)],
        "requests were sent late: p99 of schedule delay was 6 ms (bound 5 ms)",
    ),
    "very late": (
        [snapshot(k, series=[series("schedule_delay", [21_800_000])]) for k in range(40)],
        "requests were sent late: p99 of schedule delay was 21,807 ms (bound 5 ms)",
    ),
    "dropped": (
        run_of(first=[Counter("scheduled", "chat", 1, 2), Counter("outcome.dropped", "chat", 1, 2)]),
        "2 requests were never sent",
    ),
    "missing": ([snapshot(k) for k in (0, 1, 4)], "2 intervals of worker 0 are missing"),
    "counts": (
        run_of(first=[Counter("scheduled", "chat", 1, 9), Counter("outcome.ok", "chat", 1, 7)]),
        "the counts do not add up: 9 scheduled, 7 ended, 0 in flight",
    ),
    "cpu": (run_of(health(cpu_ns=S * 95 // 100)), "worker 0 used 95% of a core (bound 90%): it was the bottleneck"),
    "cpu-at-times": (
        [snapshot(k, health=health(cpu_ns=S * (95 if k % 10 == 0 else 50) // 100)) for k in range(40)],
        "worker 0 used 95% of a core or more in one interval of 20 (bound 90%): it was the bottleneck",
    ),
    "lag": (
        run_of(health(loop_lag_max_ns=25 * MS)),
        "worker 0 stood still for 2.5% of the judged window (stalls over 10 ms; bound 1%)",
    ),
    "lags": (
        run_of(health(loop_lag_max_ns=40 * MS, stalled_ns=200 * MS)),
        "worker 0 stood still for 20.0% of the judged window (stalls over 10 ms; bound 1%)",
    ),
    "clock": (run_of(clock_step_ns=-2 * S), "the wall clock of worker 0 moved by -2000 ms during the run"),
    "early": (
        [snapshot(series=[series("schedule_delay", [-3, 5])])],
        "the clock is in trouble: a request was sent 3 us before it was scheduled",
    ),
}


def sent(snapshots):
    """Let one request be sent and end well, where no other is."""
    one = [Counter("scheduled", "chat", 1, 1), Counter("outcome.ok", "chat", 1, 1)]
    return [msgspec.structs.replace(snapshots[0], counters=snapshots[0].counters or one), *snapshots[1:]]


@pytest.mark.parametrize(("snapshots", "reason"), GROUNDS.values(), ids=GROUNDS.keys())
def test_each_ground_for_an_invalid_run(snapshots, reason):
    found = validity(merged(*sent(snapshots)))
    assert (found.valid, found.reasons) == (False, [reason])


FINE = {
    "delay-at-the-bound": [snapshot(k, series=[series("schedule_delay", [4_990])]) for k in range(40)],
    "cpu": run_of(health(cpu_ns=S * 90 // 100)),
    "cpu-high-in-warmup": [snapshot(k, health=health(cpu_ns=S if k < 5 else 0)) for k in range(40)],
    "one-busy-second": [snapshot(k, health=health(cpu_ns=S if k == 20 else 0)) for k in range(40)],
    "small-lags": run_of(health(loop_lag_max_ns=9 * MS)),
    "small-lags-told": run_of(health(loop_lag_max_ns=9 * MS, stalled_ns=0)),
    "many-small-lags-and-one-stall": [
        snapshot(k, health=health(loop_lag_max_ns=(300 if k == 20 else 9) * MS)) for k in range(40)
    ],
    "one-busy-second-of-a-short-run": [snapshot(k, health=health(cpu_ns=S if k == 8 else 0)) for k in range(12)],
    "one-stall": [snapshot(k, health=health(loop_lag_max_ns=300 * MS if k == 20 else 0)) for k in range(40)],
    "clock": run_of(clock_step_ns=40 * MS),
}


@pytest.mark.parametrize("snapshots", FINE.values(), ids=FINE.keys())
def test_what_does_not_make_a_run_invalid(snapshots):
    assert validity(merged(*sent(snapshots))).reasons == []


def test_a_run_that_sent_nothing_is_invalid_once_it_is_over():
    summary = merged(*run_of())
    assert validity(summary).reasons == ["no request was sent"]
    assert validity(summary, ended=False).valid


@pytest.mark.parametrize(
    ("stages", "reasons"),
    [
        ((0,), ["no request was judged: 1 request came in stages that are not"]),
        ((0, 0, 3), ["no request was judged: 3 requests came in stages that are not"]),
        ((0, 2), []),
    ],
)
def test_a_run_of_which_nothing_was_judged_is_invalid_once_it_is_over(stages, reasons):
    counters = [Counter(name, "chat", stage, 1) for stage in stages for name in ("scheduled", "outcome.ok")]
    summary = merged(*(snapshot(k, counters=counters if k == 0 else []) for k in range(40)))
    assert validity(summary).reasons == reasons
    assert validity(summary, ended=False).valid


@pytest.mark.parametrize(("limit_ms", "valid"), [(800, True), (100, False), (None, False)])
def test_the_bound_of_schedule_delay_follows_the_tightest_limit(limit_ms, valid):
    late = [snapshot(k, series=[series("schedule_delay", [30_000])]) for k in range(40)]
    limit = None if limit_ms is None else limit_ms * MS
    assert validity(merged(*sent(late), tightest_limit_ns=limit)).valid is valid


def test_while_a_run_goes_on_its_counts_need_not_add_up():
    going = merged(snapshot(counters=[Counter("scheduled", "chat", 1, 9)]))
    assert (validity(going, ended=False).valid, validity(going).valid) == (True, False)


def test_a_part_of_a_run_has_windows_and_rates_of_its_own():
    snapshots = play(traffic(), seconds=50)
    whole, part = Summary(a_run()), Summary(a_run(), since_ns=20 * S)
    for taken in snapshots:
        whole.merge(taken)
        if 20 <= taken.k < 30:
            part.merge(taken)
    steady = STAGES[2]
    assert (part.window(STAGES[1]), part.window(steady), part.covered_ns) == (None, (20 * S, 30 * S), 10 * S)
    assert whole.window(steady) == (15 * S, 40 * S)
    assert rates(part).seconds == 10
    assert document(part).elapsed_s == 10
    inside = sum(c.n for taken in snapshots[20:30] for c in taken.counters if c.name == "completed" and c.stage == 2)
    assert rates(part).requests_per_s == inside / 10
