import tracemalloc
from bisect import bisect_right
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from virtual_run import MS, STAGES, T0, Answer, S, a_run, play, traffic

from r1perf.histogram import Counts
from r1perf.metrics import COUNTERS, METRICS
from r1perf.recorder import Recorder
from r1perf.recorder.ending import apportion, tpot_us
from r1perf.recorder.timeline import Timeline
from r1perf.result import Outcome, Result, Usage
from r1perf.schedule import Stage
from r1perf.snapshot import Snapshot, decode, encode
from r1perf.summary import ALL, Summary

ONE = (
    Stage(0, "steady", 0, 1000 * S, judged=True, says="constant 1/s"),
    Stage(1, "drain", 1000 * S, None, judged=False, says=""),
)


def recorder(stages=ONE, **options):
    return Recorder("0", stages, T0, S, **options)


def summed(*snapshots: Snapshot, stages=ONE) -> Summary:
    summary = Summary(a_run(stages=stages))
    for snapshot in snapshots:
        assert summary.merge(snapshot)
    return summary


def values(snapshot, metric, workload="chat", stage=0):
    found = [s for s in snapshot.series if (s.metric, s.workload, s.stage) == (metric, workload, stage)]
    return dict(zip(found[0].indices, found[0].counts, strict=True)) if found else {}


def counters(snapshot):
    return {(c.name, c.stage): c.n for c in snapshot.counters}


def result(**changes):
    fields = {
        "id": "0.0", "arrival": 0, "turn": 0, "workload": "chat", "stage": 0, "item": 0, "outcome": Outcome.OK,
        "scheduled_ns": T0, "sent_ns": T0 + MS, "done_ns": T0 + 900 * MS, "answer_chunks": 1,
    }  # fmt: skip
    return Result(**fields | changes)


def a_stream(rec, stamps, scheduled_ns=T0, sent_ns=T0 + MS, workload="chat", stage=0):
    stream = rec.open(workload, stage, scheduled_ns)
    stream.sent_ns = sent_ns
    stream.pending.extend(stamps)
    return stream


def test_values_are_entered_when_they_happen():
    rec = recorder()
    stream = rec.open("chat", 0, T0 + 10 * MS)
    stream.sent_ns = T0 + 12 * MS
    first = rec.flip(T0 + S)
    assert values(first, "schedule_delay") == Counts.of([2_000]).buckets
    assert counters(first) == {("sent", 0): 1}
    assert (first.k, first.health.in_flight, first.in_flight, first.health.delay_max_ns) == (0, 1, [("chat", 1)], 2 * MS)
    stream.pending += [T0 + 1100 * MS, T0 + 1130 * MS]
    second = rec.flip(T0 + 2 * S)
    assert values(second, "ttft") == Counts.of([1_090_000]).buckets
    assert values(second, "service_ttft") == Counts.of([1_088_000]).buckets
    assert values(second, "itl") == Counts.of([30_000]).buckets
    assert counters(second) == {("chunks", 0): 2, ("first_chunks", 0): 1}
    stream.pending += [T0 + 2100 * MS]
    ended = rec.add(
        result(
            scheduled_ns=T0 + 10 * MS, sent_ns=T0 + 12 * MS, connect_ns=3 * MS, first_ns=T0 + 1100 * MS,
            first_answer_ns=T0 + 1100 * MS, last_ns=T0 + 2100 * MS, done_ns=T0 + 2101 * MS,
            usage=Usage(100, 6, 0, 50), token_source="server",
        ),
        stream,
    )  # fmt: skip
    third = rec.flip(T0 + 3 * S)
    got = {s.metric: s.total for s in third.series}
    assert got == {
        "itl": 970_000, "connect": 3_000, "e2e": 2_090_000, "service_e2e": 2_088_000, "ttfo": 1_090_000, "itl_max": 970_000,
        "tpot": 200_000, "input_tokens": 100, "output_tokens": 6, "reasoning_tokens": 0, "cached_tokens": 50,
        "ttft_warm": 1_090_000,
    }  # fmt: skip
    assert counters(third) == {
        ("outcome.ok", 0): 1, ("completed", 0): 1, ("connections", 0): 1, ("busy_ns", 0): 2089 * MS, ("chunks", 0): 1,
        ("input_tokens", 0): 100, ("output_tokens", 0): 6, ("cached_tokens", 0): 50, ("tokens_from_server", 0): 1,
        ("window_input_tokens", 0): 100, ("window_output_tokens", 0): 6, ("counted_chunks", 0): 3,
        ("counted_first_chunks", 0): 1, ("cache_told_tokens", 0): 100,
    }  # fmt: skip
    assert (ended.chunks, ended.coalesced, ended.chunks_by_stage, ended.itl_max_ns) == (3, 0, {0: 3}, 970 * MS)
    assert (third.health.in_flight, third.in_flight) == (0, [])


def test_chunks_of_one_read_are_coalesced_and_no_gap():
    rec = recorder()
    a_stream(rec, [T0 + 10 * MS] * 3 + [T0 + 30 * MS] * 2)
    snapshot = rec.flip(T0 + S)
    assert values(snapshot, "itl") == {index_of(20_000): 1}
    assert counters(snapshot) == {("sent", 0): 1, ("chunks", 0): 5, ("first_chunks", 0): 1, ("coalesced", 0): 3}


def index_of(value):
    return next(iter(Counts.of([value]).buckets))


def test_stamps_at_the_boundary_wait_for_the_next_interval():
    rec = recorder()
    stream = a_stream(rec, [T0 + 900 * MS, T0 + S - 1, T0 + S, T0 + S + 5 * MS])
    assert sum(values(rec.flip(T0 + S), "itl").values()) == 1
    assert stream.pending == [T0 + S, T0 + S + 5 * MS]
    later = rec.flip(T0 + 2 * S)
    assert values(later, "itl") == Counts.of([0, 5_000]).buckets
    assert values(later, "ttft") == {}
    assert stream.pending == []


def test_a_request_sent_after_the_boundary_waits_too():
    rec = recorder()
    a_stream(rec, [], scheduled_ns=T0 + S, sent_ns=T0 + S)
    assert values(rec.flip(T0 + S), "schedule_delay") == {}
    assert values(rec.flip(T0 + 2 * S), "schedule_delay") == {0: 1}


@pytest.mark.parametrize("flip_first", [True, False], ids=["folded-live", "folded-at-its-end"])
def test_gaps_belong_to_the_stage_in_which_they_end(flip_first):
    stages = (
        Stage(0, "ramp", 0, S, judged=True, says=""),
        Stage(1, "steady", S, 2 * S, judged=True, says=""),
        Stage(2, "drain", 2 * S, None, judged=False, says=""),
    )
    rec = Recorder("0", stages, T0, 10 * S)
    stamps = [T0 + n * 400 * MS for n in range(1, 8)]  # .4 .8 | 1.2 1.6 | 2.0 2.4 2.8
    stream = a_stream(rec, stamps)
    snapshots = [rec.flip(T0 + 10 * S)] if flip_first else []
    ended = rec.add(
        result(last_ns=stamps[-1], first_ns=stamps[0], done_ns=stamps[-1], usage=Usage(10, 10), token_source="server"), stream
    )
    snapshots.append(rec.flip(T0 + 20 * S))
    summary = summed(*snapshots, stages=stages)
    assert [summary.counts("itl", "chat", stage).count for stage in (0, 1, 2)] == [1, 2, 3]
    assert [summary.counter("chunks", "chat", stage) for stage in (0, 1, 2)] == [2, 2, 3]
    assert ended.chunks_by_stage == {0: 2, 1: 2, 2: 3}
    # 10 tokens over 2 + 2 + 3 chunks: 2.86, 2.86, 4.29; the remainders go to the largest.
    assert [summary.counter("window_output_tokens", "chat", stage) for stage in (0, 1, 2)] == [3, 3, 4]
    assert [summary.counts("e2e", "chat", stage).count for stage in (0, 1, 2)] == [1, 0, 0]
    assert summary.counter("completed", "chat", 2) == 1


def test_a_first_chunk_is_counted_in_the_stage_in_which_it_came():
    stages = (Stage(0, "steady", 0, S, judged=True, says=""), Stage(1, "drain", S, None, judged=False, says=""))
    rec = Recorder("0", stages, T0, 10 * S)
    stamp = T0 + 1200 * MS
    rec.add(result(first_ns=stamp, last_ns=stamp, done_ns=stamp, usage=Usage(10, 1)), a_stream(rec, [stamp]))
    got = counters(rec.flip(T0 + 10 * S))
    assert {name: got[name] for name in got if "first" in name[0] or "window_in" in name[0]} == {
        ("first_chunks", 1): 1, ("window_input_tokens", 1): 10, ("counted_first_chunks", 0): 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "gaps"),
    [
        (Outcome.TIMEOUT, [20_000, 500_000]),
        (Outcome.STREAM_BROKEN, [20_000, 500_000]),
        (Outcome.STREAM_ERROR, [20_000, 500_000]),
        (Outcome.CANCELLED, [20_000]),
        (Outcome.FILTERED, [20_000]),
        (Outcome.OK, [20_000]),
    ],
    ids=str,
)
def test_a_stream_that_stalls_or_breaks_records_its_open_gap(outcome, gaps):
    rec = recorder()
    stamps = [T0 + 100 * MS, T0 + 120 * MS]
    stream = a_stream(rec, stamps)
    ended = rec.add(result(outcome=outcome, first_ns=stamps[0], last_ns=stamps[1], done_ns=stamps[1] + 500 * MS), stream)
    snapshot = rec.flip(T0 + S)
    assert values(snapshot, "itl") == Counts.of(gaps).buckets
    assert ended.itl_max_ns == gaps[-1] * 1000
    assert sum(values(snapshot, "ttft").values()) == 1
    assert sum(values(snapshot, "e2e").values()) == (outcome is Outcome.OK)


def test_a_timeout_before_the_first_chunk_has_no_gap():
    rec = recorder()
    ended = rec.add(result(outcome=Outcome.TIMEOUT, reason="first_chunk", answer_chunks=0), a_stream(rec, []))
    snapshot = rec.flip(T0 + S)
    assert [s.metric for s in snapshot.series] == ["schedule_delay"]
    assert counters(snapshot)["reason.timeout.first_chunk", 0] == 1
    assert (ended.itl_max_ns, ended.chunks) == (None, 0)


FLAGS = {
    "no-answer": ({"answer_chunks": 0}, "no_answer"),
    "length-mismatch": ({"length_mismatch": True}, "length_mismatch"),
    "hidden": ({"reasoning_hidden": True}, "reasoning_hidden"),
    "not-streamed": ({"streamed": False}, "not_streamed"),
}


@pytest.mark.parametrize(("changes", "name"), FLAGS.values(), ids=FLAGS.keys())
@pytest.mark.parametrize(("outcome", "n"), [(Outcome.OK, 1), (Outcome.TRUNCATED, 1), (Outcome.SERVER_ERROR, 0)], ids=str)
def test_flags_of_requests_that_ended_well_are_counted(changes, name, outcome, n):
    rec = recorder()
    rec.add(result(outcome=outcome, **changes), a_stream(rec, []))
    assert counters(rec.flip(T0 + S)).get((name, 0), 0) == n


def test_events_that_went_unread_are_counted_whatever_became_of_their_request():
    rec = recorder()
    for outcome, n in ((Outcome.OK, 2), (Outcome.STREAM_BROKEN, 3), (Outcome.OK, 0)):
        rec.add(result(outcome=outcome, stray_events=n), a_stream(rec, []))
    assert counters(rec.flip(T0 + S))["stray_events", 0] == 5


def test_what_was_not_streamed_has_only_e2e_and_its_tokens_count_when_it_ended():
    rec = recorder()
    stream = a_stream(rec, [])
    ended = result(streamed=False, last_ns=T0 + 800 * MS, usage=Usage(10, 7), token_source="server")
    rec.add(ended, stream)
    snapshot = rec.flip(T0 + S)
    assert {s.metric for s in snapshot.series} == {"schedule_delay", "e2e", "service_e2e", "input_tokens", "output_tokens"}
    assert counters(snapshot)["window_output_tokens", 0] == 7
    assert "counted_first_chunks" not in {name for name, _ in counters(snapshot)}


def test_a_dropped_request_has_no_stream():
    rec = recorder()
    rec.add(result(outcome=Outcome.DROPPED, sent_ns=None), None)
    snapshot = rec.flip(T0 + S)
    assert counters(snapshot) == {("outcome.dropped", 0): 1}
    assert snapshot.series == []


def test_a_stream_that_was_never_sent_leaves_nothing_behind():
    rec = recorder()
    rec.add(result(outcome=Outcome.CANCELLED, sent_ns=None), rec.open("chat", 0, T0))
    snapshot = rec.flip(T0 + S)
    assert (snapshot.series, snapshot.health.in_flight, rec.in_flight) == ([], 0, 0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"usage": Usage(1, 11)}, 20_000),
        ({"usage": Usage(1, 2)}, 200_000),
        ({"usage": Usage(1, 1)}, None),
        ({"usage": Usage()}, None),
        ({"usage": Usage(1, 31, 20), "reasoning_hidden": True}, 20_000),
        ({"usage": Usage(1, 21, 20), "reasoning_hidden": True}, None),
        ({"usage": Usage(1, 11), "first_ns": None, "last_ns": None}, None),
    ],
    ids=["11-tokens", "2-tokens", "1-token", "unknown", "hidden-reasoning", "hidden-and-1-token", "no-chunk"],
)
def test_tpot(changes, expected):
    assert tpot_us(result(**{"first_ns": T0 + 100 * MS, "last_ns": T0 + 300 * MS} | changes)) == expected


@given(st.integers(0, 40_000), st.dictionaries(st.integers(0, 9), st.integers(1, 40_000), min_size=1))
def test_apportioned_parts_add_up_and_lie_within_one_of_their_share(total, shares):
    parts = apportion(total, shares)
    whole = sum(shares.values())
    assert sum(parts.values()) == total
    assert all(abs(parts.get(key, 0) - total * share / whole) < 1 for key, share in shares.items())


def test_thinking_ends_with_the_first_answer_chunk():
    rec = recorder()
    rec.add(result(first_ns=T0 + 1, first_reasoning_ns=T0 + 100 * MS, first_answer_ns=T0 + 700 * MS), a_stream(rec, []))
    got = {s.metric: s.total for s in rec.flip(T0 + S).series}
    assert (got["thinking"], got["ttfo"]) == (600_000, 700_000)


@pytest.mark.parametrize("late_ns", [5 * MS, 5 * MS + 1])
def test_late_is_more_than_5_ms(late_ns):
    rec = recorder()
    a_stream(rec, [], sent_ns=T0 + late_ns)
    assert counters(rec.flip(T0 + S)).get(("late", 0), 0) == (late_ns > 5 * MS)


def test_every_chunk_time_only_where_it_was_asked_for():
    for asked in (False, True):
        rec = recorder(record_chunks=asked)
        stream = a_stream(rec, [T0 + 5, T0 + 9])
        rec.flip(T0 + S)
        stream.pending += [T0 + S + 1, T0 + S + 7]
        ended = rec.add(result(), stream)
        assert ended.stamps_ns == ([T0 + 5, T0 + 9, T0 + S + 1, T0 + S + 7] if asked else None)


def test_intervals_are_numbered_by_their_end_and_never_twice():
    rec = recorder()
    assert [rec.flip(T0 + end_ns).k for end_ns in (S, 2 * S, 2 * S + 400 * MS, 3 * S, 9 * S)] == [0, 1, 2, 3, 8]


def test_a_snapshot_comes_back_from_its_bytes():
    for snapshot in play(traffic(), seconds=50):
        assert decode(encode(snapshot)) == snapshot


def test_every_name_is_listed():
    names = set(METRICS), set(COUNTERS)
    for snapshot in play(traffic(), seconds=50):
        assert {s.metric for s in snapshot.series} <= names[0]
        plain = {c.name for c in snapshot.counters if not c.name.startswith(("outcome.", "reason."))}
        assert plain <= names[1]


# --- Laws ---

streams = st.lists(
    st.tuples(st.sampled_from(["aime", "chat"]), st.lists(st.integers(0, 40), min_size=0, max_size=40)), min_size=1, max_size=6
)


@given(streams, st.lists(st.integers(1, 400), max_size=8), st.integers(1, 300), st.booleans())
def test_any_division_into_flips_gives_the_same_figures_as_none(plans, flips, boundary, ends):
    """The laws of the fold: gaps, chunks, coalesced, longest gaps, by workload and stage, against a plain computation."""
    stages = (
        Stage(0, "a", 0, boundary * MS, judged=True, says=""),
        Stage(1, "drain", boundary * MS, None, judged=False, says=""),
    )
    rec = Recorder("0", stages, T0, MS)
    expected: dict[tuple[str, str, int], int] = {}
    gaps: dict[tuple[str, int], list[int]] = {}
    opened = []
    for workload, steps in plans:
        at_ns, stamps = T0, []
        for step in steps:
            at_ns += step * MS
            stamps.append(at_ns)
        opened.append((rec.open(workload, 0, T0), stamps))
        opened[-1][0].sent_ns = T0 + 1
        for before, stamp in zip([None, *stamps], stamps, strict=False):
            stage = int(stamp >= T0 + boundary * MS)
            bump(expected, ("chunks", workload, stage))
            if before == stamp:
                bump(expected, ("coalesced", workload, stage))
            elif before is not None:
                gaps.setdefault((workload, stage), []).append((stamp - before) // 1000)
    summary = Summary(a_run(stages=stages, interval_ns=MS))
    for end_ms in sorted(set(flips)):
        for stream, stamps in opened:  # the client writes what has come, and a little more than the flip takes
            upto = bisect_right(stamps, T0 + (end_ms + 3) * MS)
            seen = sum(stream.chunks_by_stage.values()) + len(stream.pending)
            stream.pending.extend(stamps[seen:upto])
        summary.merge(rec.flip(T0 + end_ms * MS))
    for stream, stamps in opened:
        seen = sum(stream.chunks_by_stage.values()) + len(stream.pending)
        stream.pending.extend(stamps[seen:])
        if ends:
            done = rec.add(result(workload=stream.workload, done_ns=stamps[-1] if stamps else T0), stream)
            found = [after - before for before, after in pairwise(stamps)]
            assert (done.chunks, done.coalesced, done.itl_max_ns) == (len(stamps), found.count(0), max(found, default=0) or None)
    summary.merge(rec.flip(T0 + 100_000 * MS))
    for name in ("chunks", "coalesced"):
        for workload in ("aime", "chat"):
            for stage in (0, 1):
                assert summary.counter(name, workload, stage) == expected.get((name, workload, stage), 0)
    for workload in ("aime", "chat"):
        for stage in (0, 1):
            assert summary.counts("itl", workload, stage) == Counts.of(gaps.get((workload, stage), []))
    assert summary.counts("ttft", stage=ALL).count == sum(bool(stamps) for _, stamps in opened)


def bump(numbers, key):
    numbers[key] = numbers.get(key, 0) + 1


# --- Ten-minute answers ---

LONG = (Stage(0, "steady", 0, 900 * S, judged=True, says=""), Stage(1, "drain", 900 * S, None, judged=False, says=""))


def test_live_figures_show_the_present_while_every_answer_lasts_ten_minutes():
    answers = [
        Answer(workload="aime", at_ns=n * S + 1, ttft_ns=200 * MS, gap_ns=500 * MS, thinking=1000, chunks=200) for n in range(30)
    ]
    snapshots = play(answers, seconds=640, stages=LONG)
    by_k = {snapshot.k: snapshot for snapshot in snapshots}
    for k in range(30):  # each second one answer begins, and its first chunk is 200 ms away
        assert values(by_k[k], "ttft", "aime") == Counts.of([200_000]).buckets
    for k in range(31, 599):  # thirty answers, two gaps a second each; and none has ended
        assert values(by_k[k], "itl", "aime") == {index_of(500_000): 60}
        assert not any(c.name.startswith("outcome.") for c in by_k[k].counters)
        assert by_k[k].health.in_flight == 30
    summary = summed(*snapshots, stages=LONG)
    assert summary.outcomes() == {Outcome.OK: 30}
    assert summary.counts("ttft").count == 30
    assert summary.counter("chunks") == 30 * 1200
    assert summary.counter("window_output_tokens") == 30 * 1200


def test_memory_does_not_grow_with_the_answer():
    def held(chunks):
        rec = recorder()
        streams = [a_stream(rec, []) for _ in range(10)]
        tracemalloc.start()
        try:
            for second in range(chunks // 100):
                for stream in streams:
                    stream.pending.extend(T0 + second * S + n * 9 * MS for n in range(100))
                rec.flip(T0 + (second + 1) * S)
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    short, long = held(400), held(32_000)
    assert long - short < 10 * 200  # 200 bytes a stream: a few larger integers
    assert long < 10 * 20_000


# --- The timeline ---


def test_moments_of_a_planned_timeline():
    timeline = Timeline(STAGES, T0)
    moments = [-S, 0, 5 * S - 1, 5 * S, 15 * S, 40 * S - 1, 40 * S, 99 * S]
    assert [timeline.at(T0 + offset) for offset in moments] == [0, 0, 0, 1, 2, 2, 3, 3]
    assert timeline.ended(T0 + 5 * S) == []
    assert timeline.ended(T0 + 16 * S) == [(0, 5 * S), (1, 15 * S)]
    assert timeline.ended(T0 + 99 * S) == [(2, 40 * S)]
    assert timeline.ended(T0 + 999 * S) == []


def test_stages_behind_an_open_end_begin_when_they_are_told_to():
    stages = (
        Stage(0, "requests", 0, None, judged=True, says=""),
        Stage(1, "cooldown", 0, 30 * S, judged=False, says="", follows=0),
        Stage(2, "drain", 30 * S, None, judged=False, says="", follows=0),
    )
    timeline = Timeline(stages, T0)
    assert timeline.at(T0 + 1000 * S) == 0
    timeline.begin(1, T0 + 50 * S)
    assert [timeline.at(T0 + offset * S) for offset in (49, 50, 79, 80)] == [0, 1, 1, 2]
    assert timeline.ended(T0 + 100 * S) == [(0, 50 * S), (1, 80 * S)]


def test_an_early_end_cuts_the_plan():
    timeline = Timeline(STAGES, T0)
    assert timeline.ended(T0 + 6 * S) == [(0, 5 * S)]
    timeline.begin(timeline.drain, T0 + 7 * S)
    timeline.begin(timeline.drain, T0 + 8 * S)
    assert [timeline.at(T0 + offset * S) for offset in (6, 7, 20, 99)] == [1, 3, 3, 3]
    assert timeline.ended(T0 + 99 * S) == [(1, 7 * S), (2, 7 * S)]  # what never began ends too
    assert timeline.ended(T0 + 99 * S) == []


def test_a_stage_that_was_not_planned_follows_where_it_begins():
    timeline = Timeline(STAGES, T0)
    timeline.begin(7, T0 + 20 * S)
    assert [timeline.at(T0 + offset * S) for offset in (19, 20, 99)] == [2, 7, 7]


@pytest.mark.parametrize("at_ns", [5 * S, 5 * S + 300], ids=["on-time", "a-little-late"])
def test_beginning_a_stage_that_runs_anyway_changes_nothing(at_ns):
    timeline = Timeline(STAGES, T0)
    assert timeline.ended(T0 + 6 * S) == [(0, 5 * S)]
    timeline.begin(1, T0 + at_ns)
    assert timeline.ended(T0 + 20 * S) == [(1, 15 * S)]
    assert timeline.at(T0 + 15 * S) == 2


def test_replayed_requests_add_only_what_no_snapshot_holds():
    ended = result(first_ns=T0 + 500 * MS, last_ns=T0 + 3 * S, done_ns=T0 + 3 * S, chunks=9, chunks_by_stage={0: 9})
    for since_ns, present in ((T0, {"schedule_delay", "ttft", "service_ttft"}), (T0 + S, set())):
        rec = recorder()
        rec.replay(msgspec.structs.replace(ended, first_answer_ns=None), since_ns)
        assert {s.metric for s in rec.flip(T0 + 4 * S).series} == {"e2e", "service_e2e"} | present


def test_a_replayed_request_keeps_its_grade():
    """What a lost worker's lines tell counts in the accuracy as what its snapshots told."""
    rec = recorder()
    for grade in ("right", "right", "wrong", None):
        rec.replay(result(grade=grade), T0)
    assert {name: n for (name, _), n in counters(rec.flip(T0 + S)).items() if name.startswith("grade.")} == {
        "grade.right": 2, "grade.wrong": 1,
    }  # fmt: skip


WARMTH = [
    pytest.param(Usage(100, 6, 0, 0), "cold", id="nothing"),
    pytest.param(Usage(100, 6, 0, 4), "cold", id="under-a-twentieth"),
    pytest.param(Usage(100, 6, 0, 5), "partly", id="a-twentieth"),
    pytest.param(Usage(100, 6, 0, 49), "partly", id="under-half"),
    pytest.param(Usage(101, 6, 0, 50), "partly", id="just-under-half"),
    pytest.param(Usage(100, 6, 0, 50), "warm", id="half"),
    pytest.param(Usage(100, 6, 0, None), None, id="not-told"),
    pytest.param(Usage(None, 6, 0, 50), None, id="no-input"),
    pytest.param(Usage(0, 6, 0, 0), None, id="empty"),
]


@pytest.mark.parametrize(("usage", "warmth"), WARMTH)
@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.TRUNCATED, Outcome.STREAM_BROKEN])
def test_a_request_is_cold_or_warm_by_the_servers_own_count(usage, warmth, outcome):
    rec = recorder()
    rec.add(result(outcome=outcome, first_ns=T0 + 70 * MS, last_ns=T0 + 90 * MS, usage=usage, token_source="server"), None)
    snapshot = rec.flip(T0 + S)
    got = {s.metric: s.total for s in snapshot.series if s.metric.startswith("ttft_")}
    well = outcome is not Outcome.STREAM_BROKEN
    assert got == (
        {f"ttft_{warmth}": (T0 + 70 * MS - result().scheduled_ns) // 1000} if well and warmth in ("cold", "warm") else {}
    )
    assert counters(snapshot).get(("partly_cached", 0), 0) == (well and warmth == "partly")
    told = usage.input_tokens if usage.cached_tokens is not None else None
    assert counters(snapshot).get(("cache_told_tokens", 0)) == (told or None)
