"""What one request means for a clause, and the counts that workers ship: exact, additive, and the same live and recorded."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.histogram import Counts
from r1perf.recorder.ending import tpot_us
from r1perf.result import Outcome, Result, Usage
from r1perf.sla import Attempts, Clusters, Fate, Flow, Limit, Tallied, Tallier, Tally, Watch, Window, fate, parse, watch
from r1perf.sla.limits import cause, measured
from r1perf.sla.percentile import observed
from r1perf.sla.recorded import bracket, replay

MS = 1_000_000


def result(outcome: Outcome = Outcome.OK, **fields: object) -> Result:
    """Make a request: scheduled at 0, sent at 1 ms, first chunk at 100 ms, answer from 300 ms, last at 1,000 ms, 101 tokens."""
    known: dict[str, object] = {
        "id": "0.0", "arrival": 0, "turn": 0, "workload": "chat", "stage": 1, "item": 0, "outcome": outcome, "scheduled_ns": 0,
        "sent_ns": MS, "first_ns": 100 * MS, "first_reasoning_ns": 100 * MS, "first_answer_ns": 300 * MS, "last_ns": 1000 * MS,
        "done_ns": 1001 * MS, "itl_max_ns": 40 * MS, "usage": Usage(10, 101, 50, 0), "answer_chunks": 50,
    }  # fmt: skip
    return Result(**(known | fields))  # type: ignore[arg-type]


WAITING = {
    "first_ns": None,
    "first_reasoning_ns": None,
    "first_answer_ns": None,
    "last_ns": None,
    "itl_max_ns": None,
    "usage": Usage(),
}
THINKING = {"first_answer_ns": None, "usage": Usage()}


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("ttft", 100 * MS),
        ("service_ttft", 99 * MS),
        ("ttfo", 300 * MS),
        ("thinking", 200 * MS),
        ("e2e", 1000 * MS),
        ("service_e2e", 999 * MS),
        ("itl_max", 40 * MS),
        ("tpot", 9 * MS),
        ("schedule_delay", MS),
        ("output_tokens", 101),
    ],
)
def test_values_and_the_limit_itself(metric: str, value: float) -> None:
    assert measured(metric, result()) == value
    fates = {op: fate([Limit(metric, op, value)], result()) for op in ("<", "<=", ">", ">=")}  # type: ignore[arg-type]
    assert fates == {"<": Fate.MISSED, "<=": Fate.MET, ">": Fate.MISSED, ">=": Fate.MET}


def test_tpot_is_the_recorder_s() -> None:
    for one in (result(), result(reasoning_hidden=True), result(usage=Usage(1, 1)), result(usage=Usage())):
        value = measured("tpot", one)
        assert tpot_us(one) == (None if value is None else int(value / 1000))


@pytest.mark.parametrize(
    ("metric", "op", "ms", "given", "expected"),
    [
        ("ttft", "<", 800, result(Outcome.TIMEOUT), Fate.MISSED),
        ("ttft", ">", 1, result(Outcome.STREAM_BROKEN), Fate.MISSED),
        ("itl_max", "<", 800, result(Outcome.RATE_LIMITED, **WAITING), Fate.MISSED),
        # It ended well and never produced it.
        ("ttfo", "<", 800, result(first_answer_ns=None), Fate.MISSED),
        ("ttfo", "<", 800, result(Outcome.TRUNCATED, first_answer_ns=None), Fate.MISSED),
        ("e2e", "<", 1100, result(Outcome.TRUNCATED, first_answer_ns=None), Fate.MET),
        ("ttft", "<", 800, result(streamed=False, first_ns=None), Fate.NOT_APPLICABLE),
        ("ttfo", "<", 800, result(streamed=False, first_ns=None, first_answer_ns=None), Fate.NOT_APPLICABLE),
        ("tpot", "<", 800, result(usage=Usage(1, 1)), Fate.NOT_APPLICABLE),
        ("itl_max", "<", 800, result(itl_max_ns=None), Fate.NOT_APPLICABLE),
        ("thinking", "<", 800, result(first_reasoning_ns=None), Fate.NOT_APPLICABLE),
        ("connect", "<", 800, result(), Fate.NOT_APPLICABLE),
        # What was over before the target could fail it.
        ("connect", "<", 5, result(Outcome.SERVER_ERROR, status=503, connect_ns=MS), Fate.MET),
        ("connect", "<", 5, result(Outcome.STREAM_BROKEN, connect_ns=9 * MS), Fate.MISSED),
        ("connect", "<", 5, result(Outcome.STREAM_BROKEN), Fate.NOT_APPLICABLE),
        ("connect", "<", 5, result(Outcome.CONNECT_ERROR, reason="refused", **WAITING), Fate.MISSED),
        ("connect", "<", 5, result(Outcome.CONNECT_ERROR, reason="stale_connection", **WAITING), Fate.NOT_APPLICABLE),
        ("connect", "<", 5, result(Outcome.CONNECT_ERROR, reason="reset", connect_ns=MS, **WAITING), Fate.MET),
        ("connect", "<", 5, result(Outcome.TIMEOUT, reason="connect", **WAITING), Fate.MISSED),
        ("connect", "<", 5, result(Outcome.TIMEOUT, reason="total"), Fate.NOT_APPLICABLE),
        ("schedule_delay", "<", 5, result(Outcome.SERVER_ERROR, status=503), Fate.MET),
        ("schedule_delay", "<", 0.5, result(Outcome.TIMEOUT), Fate.MISSED),
        # It came, or was to come, in one piece.
        ("ttft", "<", 50, result(Outcome.CANCELLED, streamed=False, done_ns=500 * MS, **WAITING), Fate.NOT_APPLICABLE),
        ("itl_max", "<", 50, result(Outcome.CANCELLED, streamed=False, done_ns=500 * MS, **WAITING), Fate.NOT_APPLICABLE),
        ("e2e", "<", 50, result(Outcome.CANCELLED, streamed=False, done_ns=500 * MS, **WAITING), Fate.MISSED),
        # The end of the run cut it after 500 ms.
        ("ttft", "<", 800, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.MET),
        ("ttft", "<", 50, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.MISSED),
        ("ttft", "<", 800, result(Outcome.CANCELLED, done_ns=500 * MS, **WAITING), Fate.UNKNOWN),
        ("ttft", "<", 400, result(Outcome.CANCELLED, done_ns=500 * MS, **WAITING), Fate.MISSED),
        ("ttft", ">", 400, result(Outcome.CANCELLED, done_ns=500 * MS, **WAITING), Fate.MET),
        ("ttfo", "<", 800, result(Outcome.CANCELLED, done_ns=500 * MS, **THINKING), Fate.UNKNOWN),
        ("ttfo", "<", 400, result(Outcome.CANCELLED, done_ns=500 * MS, **THINKING), Fate.MISSED),
        ("ttfo", "<", 800, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.UNKNOWN),
        ("ttfo", "<", 200, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.MISSED),
        # An answer had begun at 300 ms: it is over 400 ms only if more reasoning follows.
        ("ttfo", "<", 400, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.UNKNOWN),
        ("e2e", "<", 800, result(Outcome.CANCELLED, done_ns=500 * MS, last_ns=400 * MS), Fate.UNKNOWN),
        ("e2e", "<", 450, result(Outcome.CANCELLED, done_ns=500 * MS, last_ns=400 * MS), Fate.MISSED),
        ("itl_max", "<", 50, result(Outcome.CANCELLED, done_ns=500 * MS, last_ns=490 * MS), Fate.UNKNOWN),
        ("itl_max", "<", 50, result(Outcome.CANCELLED, done_ns=500 * MS, last_ns=440 * MS), Fate.MISSED),
        ("tpot", "<", 50, result(Outcome.CANCELLED, done_ns=500 * MS), Fate.UNKNOWN),
        # Never sent, or gone with its worker.
        ("ttft", "<", 50, result(Outcome.DROPPED, done_ns=500 * MS, sent_ns=None, **WAITING), Fate.UNKNOWN),
        ("ttft", "<", 50, result(Outcome.LOST, done_ns=500 * MS, **WAITING), Fate.UNKNOWN),
    ],
)
def test_fate(metric: str, op: str, ms: float, given: Result, expected: Fate) -> None:
    assert fate([Limit(metric, op, ms * MS)], given) is expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failed", "expected"),
    [
        ({"outcome": Outcome.SERVER_ERROR, "connect_ns": 9 * MS}, "slow"),
        ({"outcome": Outcome.CONNECT_ERROR, "reason": "refused"}, "connect_error"),
    ],
)
def test_why_a_failed_request_missed_a_limit_on_connect(failed: dict[str, object], expected: str) -> None:
    assert cause([Limit("connect", "<", 5 * MS)], result(**failed)) == expected  # type: ignore[arg-type]


SLOW, FAST, NONE = Limit("ttft", "<", 50 * MS), Limit("e2e", "<", 2000 * MS), Limit("connect", "<", MS)


@pytest.mark.parametrize(
    ("limits", "given", "expected"),
    [
        ([FAST, FAST], result(), Fate.MET),
        ([FAST, SLOW], result(), Fate.MISSED),
        ([FAST, NONE], result(), Fate.MET),
        ([NONE], result(), Fate.NOT_APPLICABLE),
        ([FAST, SLOW], result(Outcome.CANCELLED, done_ns=40 * MS, **WAITING), Fate.UNKNOWN),
        ([], result(), Fate.MET),
        ([], result(Outcome.TRUNCATED), Fate.MET),
        ([], result(Outcome.SERVER_ERROR), Fate.MISSED),
        ([], result(Outcome.CANCELLED), Fate.UNKNOWN),
    ],
    ids=["all", "one missed", "one has no value", "no value", "cut", "ok", "truncated", "error", "cut, errors only"],
)
def test_fate_of_several_limits(limits: list[Limit], given: Result, expected: Fate) -> None:
    assert fate(limits, given) is expected


@given(
    st.sampled_from(["ttft", "ttfo", "e2e", "itl_max", "tpot", "service_ttft"]),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.integers(0, 1500),
    st.sampled_from([Outcome.OK, Outcome.CANCELLED]),
    st.integers(0, 1500),
    st.integers(1, 1000),
)
def test_more_knowledge_never_turns_a_fate_round(
    metric: str, op: str, ms: int, outcome: Outcome, cut_ms: int, later_ms: int
) -> None:
    """What is certain of a request that was cut stays so for every way in which it could have gone on."""
    first, answer, last = cut_ms + later_ms, cut_ms + later_ms + 5, cut_ms + later_ms + 20
    cut = result(Outcome.CANCELLED, sent_ns=0, done_ns=cut_ms * MS, **WAITING)
    whole = result(
        sent_ns=0,
        first_ns=first * MS,
        first_reasoning_ns=first * MS,
        first_answer_ns=answer * MS,
        last_ns=last * MS,
        done_ns=last * MS,
    )
    limit = Limit(metric, op, ms * MS)  # type: ignore[arg-type]
    assert fate([limit], cut) in (Fate.UNKNOWN, fate([limit], whole))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("p95(ttft) < 800ms", Watch(3, (Limit("ttft", "<", 800e6),))),
        ("p99(itl){workload=chat} < 60ms during steady", Watch(3, (Limit("itl", "<", 60e6),), "chat", (1, 4), "gap")),
        ("p95(interactivity) >= 50/s", Watch(3, (Limit("tpot", "<=", 20e6),))),
        ("max(interactivity) < 50/s", Watch(3, (Limit("tpot", ">", 20e6),))),
        ("p95(output_tokens) < 8k", Watch(3, (Limit("output_tokens", "<", 8192),))),
        ("mean(e2e) < 1m", Watch(3, (Limit("e2e", "<", 60e9),))),
        ("goodput(ttft<1s, tpot<=60ms) >= 5/s", Watch(3, (Limit("ttft", "<", 1e9), Limit("tpot", "<=", 60e6)))),
        ("error_rate < 1%", Watch(3, ())),
        ("accuracy{workload=aime} >= 70%", Watch(3, (), "aime", None, "answer")),
        ("throughput(requests) > 1/s", None),
        ("cost_per_1m(output_tokens) < $2", None),
        ("p95(ttft) < baseline +10%", None),
    ],
)
def test_what_a_worker_counts(text: str, expected: Watch | None) -> None:
    assert watch(parse(text), 3, {"steady": (1, 4)}) == expected


TTFT = Watch(0, (Limit("ttft", "<", 150 * MS),))
ITL = Watch(1, (Limit("itl", "<", 60 * MS),), unit="gap")
GRADED = Watch(2, (), unit="answer")
WATCHES = (TTFT, ITL, GRADED)


@pytest.mark.parametrize(
    ("limits", "one", "why"),
    [
        (["ttfo"], result(first_answer_ns=None), "no_answer"),
        (["ttfo"], result(Outcome.TIMEOUT, first_answer_ns=None), "timeout"),
        (["ttfo"], result(Outcome.CANCELLED, first_answer_ns=None, done_ns=2000 * MS), "slow"),
        (["ttft", "ttfo"], result(first_answer_ns=None), "slow"),
        (["ttft"], result(), "slow"),
        (["ttft"], result(first_ns=None, last_ns=None), "no_answer"),
    ],
    ids=["never answered", "failed", "cut when late", "one limit was missed by a value", "late", "not even a chunk"],
)
def test_why_a_request_missed(limits: list[str], one: Result, why: str) -> None:
    watch = Watch(0, tuple(Limit(metric, "<", 1.0) for metric in limits))
    tallier = Tallier((watch,), judged=[1])
    tallier.ended(one, 4)
    assert tallier.take()[0].causes == {why: 1}


def test_tally_by_hand() -> None:
    tallier = Tallier(WATCHES, judged=[1])
    tallier.fold(
        "chat", ["0.0", "5.0"], np.array([0, 5]), np.array([0, 59, 0, 60, 70, 0, 80]) * MS, np.array([1] * 5 + [0] * 2), 5
    )
    tallier.ended(result(), 4, grade="right")
    tallier.fold("chat", ["0.1"], np.array([0]), np.array([0, 20, 30]) * MS, np.array([1, 1, 1]), 6)
    tallier.ended(result(Outcome.TIMEOUT, id="0.1", turn=1), 5)
    tallier.ended(result(Outcome.CANCELLED, id="7.0", arrival=7, done_ns=90 * MS, **WAITING), 6)
    tallier.ended(result(id="8.0", arrival=8, stage=0), 6)  # warmup
    tallier.ended(result(id="9.0", arrival=9, streamed=False, first_ns=None), 6, grade="wrong")
    tallier.conversation_over(0)
    rows = tallier.take()
    assert rows == [
        Tally(0, -1, conversations=Clusters(1, 2, 1, 4, 1, 2, 1)),
        Tally(0, 4, n=1, valued=1, total=100 * MS),
        Tally(0, 5, n=1, over=1, causes={"timeout": 1}),
        Tally(0, 6, n=1, unknown=1, not_applicable=1, cut=1, cut_least=90 * MS, cut_open=1),
        Tally(1, -1, requests=Clusters(2, 6, 3, 18, 5, 9, 2), conversations=Clusters(1, 6, 3, 36, 9, 18, 1)),
        Tally(1, 5, n=4, over=3, valued=3, total=189 * MS, causes={"slow": 2, "timeout": 1}),
        Tally(1, 6, n=2, valued=2, total=50 * MS),
        Tally(2, -1, conversations=Clusters(1, 1, 0, 1, 0, 0, 0)),
        Tally(2, 4, n=1),
        Tally(2, 6, n=2, over=1, unknown=1, causes={"wrong": 1}),
    ]
    assert tallier.take() == []
    tallied = Tallied()
    tallied.add(rows)
    window = Window((4, 5, 6, 7), 1.0, 2.5)
    assert tallied.attempts(TTFT, window, lost=2) == Attempts(
        n=5,
        over_certain=1,
        over_possible=4,
        intervals=((1, 0), (1, 1), (1, 0), (0, 0)),
        residence_p90_s=2.5,
        conversations=Clusters(1, 2, 1, 4, 1, 2, 1),
        not_applicable=1,
        causes=(("timeout", 1),),
    )
    assert tallied.mean(TTFT, window, longest=600e9) == Flow(
        intervals=((100e6, 1), (0, 0), (0, 0), (0, 0)),
        residence_p90_s=2.5,
        cut=1,
        cut_low=90e6,
        cut_high=600e9,
        without_value=1,
    )


@pytest.mark.parametrize(
    ("metric", "cut", "most"),
    [
        ("output_tokens", {"length_ordered": 60, "output_most": 4000}, 60),
        ("reasoning_tokens", {"length_ordered": 60}, 60),
        ("output_tokens", {"output_most": 4000}, 4000),
        ("output_tokens", {"input_most": 900}, math.inf),
        ("input_tokens", {"input_most": 900, "length_ordered": 60}, 900),
        ("cached_tokens", {"input_most": 900}, 900),
        ("input_tokens", {"usage": Usage(200), "input_most": 900}, 200),
        ("input_tokens", {"length_ordered": 60, "output_most": 4000}, math.inf),
        ("e2e", {"length_ordered": 60, "input_most": 900}, 600e9),
    ],
)
def test_a_mean_takes_of_a_cut_request_the_most_that_it_can_be(metric: str, cut: dict[str, object], most: float) -> None:
    watched = Watch(0, (Limit(metric, "<", 1e9),))
    longest = 600e9 if metric == "e2e" else math.inf
    ran = [(0, result()), (0, result(Outcome.CANCELLED, done_ns=500 * MS, **(WAITING | cut)))]
    flow = replay([watched], [1], ran).mean(watched, Window((0,)), longest=longest)
    assert (flow.cut, flow.cut_high) == (1, most)
    missing = replay([watched], [1], ran).mean(watched, Window((0,)), longest=longest, missing=1)
    assert missing.cut_high == (1200e9 if metric == "e2e" else math.inf), "nothing bounds a request without a line"


streams = st.lists(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 2)), min_size=1, max_size=8), min_size=1, max_size=6)


@given(streams, st.sampled_from(["<", "<=", ">", ">="]))
def test_folding_all_streams_is_counting_each_gap(streams: list[list[tuple[int, int]]], op: str) -> None:
    """Each stream is (gap in ms, stage) pairs; a gap of 0 is none, and only stage 1 is judged."""
    limit = Limit("itl", op, 60 * MS)  # type: ignore[arg-type]
    tallier = Tallier([Watch(0, (limit,), unit="gap")], judged=[1])
    flat = [pair for stream in streams for pair in stream]
    heads = np.cumsum([0] + [len(stream) for stream in streams[:-1]])
    ids = [f"{i}.0" for i in range(len(streams))]
    tallier.fold("chat", ids, heads, np.array([ms for ms, _ in flat]) * MS, np.array([stage for _, stage in flat]), 7)
    for i in range(len(streams)):
        tallier.ended(result(id=f"{i}.0", arrival=i), 3)
    tallied = Tallied()
    tallied.add(tallier.take())
    clusters = [
        (sum(ms > 0 and at == 1 for ms, at in stream), sum(ms > 0 and at == 1 and not limit.holds(ms * MS) for ms, at in stream))
        for stream in streams
    ]
    found = tallied.attempts(Watch(0, (limit,), unit="gap"), Window((7,)))
    assert found.requests == Clusters.of(clusters)
    assert found.intervals == ((sum(m for m, _ in clusters), sum(x for _, x in clusters)),)


def test_rows_survive_the_wire() -> None:
    row = Tally(1, 5, n=3, over=1, causes={"slow": 1}, requests=Clusters.of([(3, 1)]))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(row), type=Tally) == row
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(ITL), type=Watch) == ITL


def test_a_failed_request_without_a_gap_still_misses() -> None:
    tallied = replay([ITL], [1], [(0, result(Outcome.CONNECT_ERROR, **WAITING))])
    assert tallied.attempts(ITL, Window((0,))).over_certain == 1


ended = st.builds(
    lambda arrival, turn, outcome, first, k: (k, result(outcome, id=f"{arrival}.{turn}", arrival=arrival, first_ns=first * MS)),
    st.integers(0, 5),
    st.integers(0, 3),
    st.sampled_from([Outcome.OK, Outcome.TIMEOUT, Outcome.CANCELLED, Outcome.TRUNCATED]),
    st.integers(0, 300),
    st.integers(0, 9),
)


@given(st.lists(ended, max_size=30), st.integers(1, 4), st.integers(0, 30), st.randoms(use_true_random=False))
def test_workers_flips_and_order_do_not_matter(results: list[tuple[int, Result]], workers: int, flip: int, order: object) -> None:
    """N workers, each with whole conversations, flipping at any time, in any order of arrival: the same sums as one."""
    alone = replay([TTFT], [1], results)
    rows: list[list[Tally]] = []
    for worker in range(workers):
        tallier = Tallier([TTFT], [1])
        for i, (k, one) in enumerate(results):
            if i == flip:
                rows.append(tallier.take())
            if one.arrival % workers == worker:
                tallier.ended(one, k)
        tallier.close()
        rows.append(tallier.take())
    order.shuffle(rows)  # type: ignore[attr-defined]
    together = Tallied()
    for part in rows:
        together.add(part)
    assert together.attempts(TTFT, Window(tuple(range(10)))) == alone.attempts(TTFT, Window(tuple(range(10))))
    assert together.mean(TTFT, Window(tuple(range(10))), longest=1e12) == alone.mean(TTFT, Window(tuple(range(10))), longest=1e12)


class TestRecorded:
    def test_the_limit_s_bucket_is_bracketed(self) -> None:
        """At 800 ms a bucket is 512 us wide: 799,744 to 800,255 us."""
        counts = Counts.of([100_000, 799_800, 800_000, 800_100, 900_000])
        assert bracket(counts, Limit("itl", "<", 800 * MS)) == (1, 4)
        assert bracket(counts, Limit("itl", ">=", 800 * MS)) == (1, 4)

    @given(
        st.lists(st.integers(0, 3_000_000), min_size=1, max_size=50),
        st.integers(0, 3_000_000),
        st.sampled_from(["<", "<=", ">", ">="]),
        st.integers(0, 999),
    )
    def test_brackets_hold_the_truth(self, us: list[int], at: int, op: str, inside_ns: int) -> None:
        limit = Limit("itl", op, at * 1000)  # type: ignore[arg-type]
        truth = sum(not limit.holds(one * 1000 + inside_ns) for one in us)
        least, most = bracket(Counts.of(us), limit)
        assert least <= truth <= most

    @pytest.mark.parametrize(
        ("text", "attempts", "expected"),
        [
            ("p95(ttft) < 1s", 100, 95),
            ("p95(ttft) < 1s", 102, 97),
            ("p95(ttft) < 1s", 105, 100),
            ("p95(ttft) < 1s", 106, None),
            ("p95(ttft) < 1s", 0, None),
            ("p95(output_tokens) >= 1", 100, 5),
            ("p95(output_tokens) >= 1", 102, 4),
            ("p95(output_tokens) >= 1", 106, None),
            ("p95(interactivity) >= 1/s", 100, 1e6 / 95),
            ("p95(interactivity) >= 1/s", 106, None),
            ("p95(interactivity) < 1/s", 100, 1e6 / 5),
            ("max(ttft) < 1s", 100, 100),
            ("max(ttft) < 1s", 101, None),
            ("max(interactivity) < 1/s", 100, 1e6),
            ("error_rate < 1%", 100, None),
        ],
    )
    def test_attempts_without_a_value_stand_where_they_miss(self, text: str, attempts: int, expected: float | None) -> None:
        assert observed(parse(text), Counts.of(list(range(1, 101))), attempts) == expected
