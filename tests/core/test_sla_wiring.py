"""What the clauses count on the way from a stream to a verdict: recorder, traffic, workers, snapshots, collector."""

import re

import msgspec
import pytest
from fake_traffic import FakeClient, Silent, Talks
from hypothesis import given, settings
from hypothesis import strategies as st
from test_worker import worker_of
from virtual_run import MS, STAGES, T0, S, play, traffic

from r1perf import messages, snapshot
from r1perf.arrivals import Closed, Constant
from r1perf.budget import Budget, Limits
from r1perf.client import Reply
from r1perf.collector import Collector, Order
from r1perf.datasets.prompts import Prompts
from r1perf.grading import Grade, Graded
from r1perf.histogram.buckets import index
from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder
from r1perf.result import FAILED, Outcome, Result, Stream
from r1perf.scenario import load, resolved
from r1perf.schedule import Share, Stage, plan
from r1perf.sla import Fate, Limit, Tallied, Tallier, Tally, Terms, Watch, fate, parse, read_verdicts
from r1perf.sla.flight import Flight, missed_already
from r1perf.sla.planned import ANY, planned
from r1perf.sla.recorded import replay
from r1perf.snapshot import Counter, Health, Series, Snapshot
from r1perf.source import WorkloadSource
from r1perf.summary.run import PlannedRequests
from r1perf.target import Price, Target
from r1perf.traffic import Traffic
from r1perf.units import Duration, Rate
from r1perf.workload import Workload

CLAUSES = (
    "p95(ttft) < 200ms", "p99(itl) < 25ms", "p99(itl){workload=chat} < 21ms during steady", "mean(e2e) < 3s", "error_rate < 1%",
    "goodput(ttft<200ms, itl_max<40ms) >= 95%", "max(tpot){workload=aime} < 1s", "p95(ttfo) < 2s during ramp",
)  # fmt: skip
TERMS = Terms(tuple(map(parse, CLAUSES)))
WATCHES = TERMS.watches(STAGES)
JUDGED = {stage.index for stage in STAGES if stage.judged}
decode = msgspec.msgpack.Decoder(list[Tally]).decode


def tallier():
    return Tallier(WATCHES, JUDGED)


def added(snapshots):
    tallied = Tallied()
    for one in snapshots:
        tallied.add(decode(snapshot.decode(snapshot.encode(one)).tallies))
    return tallied


class TestLive:
    @settings(max_examples=6)
    @given(
        seed=st.integers(0, 1000),
        shares=st.lists(st.integers(0, 2), min_size=1, max_size=40),
        order=st.randoms(use_true_random=False),
    )
    def test_workers_add_up_to_one_recorder_that_was_fed_everything(self, seed, shares, order):
        answers = traffic(seed)
        alone = added(play(answers, seconds=60, tallies=tallier()))
        parts = []
        for worker in range(3):
            mine = [answer for n, answer in enumerate(answers) if shares[n % len(shares)] == worker]
            parts += play(mine, seconds=60, worker=str(worker), tallies=tallier())
        order.shuffle(parts)
        assert added(parts).rows == alone.rows
        assert {clause for clause, _ in alone.rows} == set(range(len(CLAUSES)))

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_live_counts_are_those_of_the_recorded_requests(self, seed):
        results = []
        live = added(play(traffic(seed), seconds=60, tallies=tallier(), on_result=results.append))
        requests = [watch for watch in WATCHES if watch.unit == "request"]
        recorded = replay(requests, JUDGED, (((result.scheduled_ns - T0) // S, result) for result in results))
        places = {watch.clause for watch in requests}
        assert {key: row for key, row in live.rows.items() if key[0] in places} == recorded.rows

    def test_every_gap_is_counted_once_and_a_failure_as_one_that_missed(self):
        """A stalled stream's open gap is in the histogram; for the clause its failure stands for it."""
        results = []
        snapshots = play(traffic(1), seconds=60, tallies=tallier(), on_result=results.append)
        entered = sum(s.count for one in snapshots for s in one.series if s.metric == "itl" and s.stage in JUDGED)
        failed = [result for result in results if result.outcome in FAILED and result.stage in JUDGED]
        open_ = [r for r in results if r.outcome is Outcome.TIMEOUT and 5 * S <= r.done_ns - T0 < 40 * S]
        total = added(snapshots).total(1)
        assert len(failed) > len(open_) > 0, "some fail without an open gap"
        assert (total.n, total.requests.m) == (entered - len(open_) + len(failed),) * 2

    def test_gaps_belong_to_the_interval_in_which_they_happened(self):
        recorder = Recorder("0", STAGES, T0, S, tallies=tallier())
        stream = recorder.open("chat", 2, T0 + 20 * S)
        stream.sent_ns = T0 + 20 * S
        stream.pending += [T0 + 20 * S + 900 * MS, T0 + 20 * S + 950 * MS, T0 + 21 * S + 10 * MS]
        rows = decode(recorder.flip(T0 + 21 * S).tallies)
        assert [(row.clause, row.k, row.n, row.over) for row in rows] == [(1, 20, 1, 1), (2, 20, 1, 1)]
        recorder.add(ended(stage=2, scheduled_ns=T0 + 20 * S, first_ns=T0 + 20 * S + 900 * MS, done_ns=T0 + 21 * S), stream)
        rows = [row for row in decode(recorder.flip(T0 + 22 * S, last=True).tallies) if row.clause == 1]
        assert [(row.k, row.n, row.over, row.requests.m, row.conversations.m) for row in rows] == [
            (-1, 0, 0, 2, 2),
            (21, 1, 1, 0, 0),
        ]

    def test_a_live_stage_is_judged_from_when_it_is_added(self):
        recorder = Recorder("0", STAGES, T0, S, tallies=tallier())
        recorder.add(ended(stage=7), None)
        recorder.judge(7)
        recorder.add(ended(stage=7, arrival=1), None)
        assert sum(row.n for row in decode(recorder.flip(T0 + S).tallies) if row.clause == 0) == 1

    def test_without_clauses_a_snapshot_carries_none(self):
        recorder = Recorder("0", STAGES, T0, S)
        recorder.judge(7)
        recorder.conversation_over(0)
        taken = recorder.flip(T0 + S, last=True)
        assert bytes(taken.tallies) == b"\x90"
        assert decode(taken.tallies) == []


def in_flight(**notes):
    stream = Stream("chat", 2, T0)
    for name, value in notes.items():
        setattr(stream, name, value)
    return stream


LATE = {"sent_ns": T0 + MS, "first_ns": T0 + 900 * MS, "last_ns": T0 + 950 * MS}


class TestInFlight:
    """What can be said of a request before it ends: whatever is still to come of it, it misses."""

    @pytest.mark.parametrize(
        ("limit", "notes", "missed"),
        [
            pytest.param("ttft<400ms", {}, True, id="no chunk yet"),
            pytest.param("ttft<2s", {}, False, id="there is still time"),
            pytest.param("ttft<1s", {}, True, id="at the limit itself"),
            pytest.param("ttft<=1s", {}, False, id="which may be reached"),
            pytest.param("ttft<400ms", LATE, True, id="its first chunk was late"),
            pytest.param("ttft<950ms", LATE, False, id="its first chunk was in time"),
            pytest.param("ttft>950ms", LATE, True, id="its first chunk came too early"),
            pytest.param("ttft>2s", {}, False, id="it may still be late enough"),
            pytest.param("service_ttft<400ms", {}, False, id="not sent yet"),
            pytest.param("service_ttft<899ms", LATE, True, id="counts from when it was sent"),
            pytest.param("service_ttft<=899ms", LATE, False, id="counts from when it was sent, and was in time"),
            pytest.param("ttfo<950ms", LATE, True, id="no answer yet"),
            pytest.param("ttfo<950ms", LATE | {"first_answer_ns": T0 + 920 * MS}, False, id="an answer in time"),
            pytest.param("ttfo<910ms", LATE | {"first_answer_ns": T0 + 920 * MS}, True, id="an answer that was late"),
            pytest.param("e2e<950ms", LATE, True, id="it lasts too long already"),
            pytest.param("e2e<960ms", LATE, False, id="its last chunk may have come"),
            pytest.param("e2e<400ms", {}, True, id="nothing came in time"),
            pytest.param("itl_max<40ms", LATE | {"itl_max_ns": 50 * MS}, True, id="a gap was too long"),
            pytest.param("itl_max<49ms", LATE, False, id="the open gap may be none"),
            pytest.param("tpot<1ms", LATE, False, id="known at the end only"),
        ],
    )  # fmt: skip
    def test_what_is_certain(self, limit, notes, missed):
        metric, op, bound = re.fullmatch(r"(\w+?)([<>]=?)(\d+m?s)", limit).groups()
        flight = Flight([in_flight(**notes)])
        watched = [Limit(metric, op, float(Duration.parse(bound)))]
        assert missed_already(watched, flight, T0 + S, streamed=True).tolist() == [missed]

    @pytest.mark.parametrize(("limit", "missed"), [("ttft", False), ("ttfo", False), ("e2e", True)])
    def test_a_response_in_one_piece_has_no_first_chunk(self, limit, missed):
        watched = [Limit(limit, "<", 400.0 * MS)]
        assert missed_already(watched, Flight([in_flight()]), T0 + S, streamed=False).tolist() == [missed]

    def test_any_limit_of_a_goodput_decides(self):
        both = [Limit("ttft", "<", 400.0 * MS), Limit("itl_max", "<", 40.0 * MS)]
        streams = [in_flight(**LATE), in_flight(first_ns=T0 + MS, itl_max_ns=50 * MS), in_flight(first_ns=T0 + MS, itl_max_ns=MS)]
        assert missed_already(both, Flight(streams), T0 + S, streamed=True).tolist() == [True, True, False]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_whatever_is_certain_comes_true(self, seed):
        watches = [watch for watch in WATCHES if watch.unit == "request" and watch.limits]
        said, results = set(), {}

        def look(taken, recorder):
            for open_ in recorder._open.values():
                streams = list(open_)
                for watch in watches:
                    flags = missed_already(watch.limits, Flight(streams), T0 + (taken.k + 1) * S, streamed=True).tolist()
                    said.update((watch.clause, one.scheduled_ns) for one, flag in zip(streams, flags, strict=True) if flag)

        play(traffic(seed), seconds=60, on_flip=look, on_result=lambda result: results.update({result.scheduled_ns: result}))
        limits = {watch.clause: watch.limits for watch in watches}
        assert len({clause for clause, _ in said}) > 2
        assert {fate(limits[clause], results[at]) for clause, at in said} == {Fate.MISSED}

    def recorder(self, **options):
        return Recorder("0", STAGES, T0, S, tallies=Tallier(WATCHES, JUDGED, **options))

    def test_a_snapshot_has_them_as_long_as_they_are_in_flight(self):
        """The first is late, the second not yet, the third is of a stage that is not judged."""
        recorder = self.recorder(ahead=True)
        late, _, _ = (recorder.open("chat", stage, T0 + ms * MS) for stage, ms in ((2, 1500), (2, 1900), (9, 1500)))
        taken = recorder.flip(T0 + 2 * S)
        rows = decode(taken.ahead)
        assert [(row.clause, row.k, row.n, row.over) for row in rows] == [(0, 1, 1, 1), (5, 1, 1, 1)]
        assert decode(taken.tallies) == []
        recorder.add(ended(stage=2, scheduled_ns=T0 + 1500 * MS, first_ns=T0 + 2100 * MS), late)
        after = recorder.flip(T0 + 2 * S + 1)
        assert decode(after.ahead) == []
        assert [(row.n, row.over) for row in decode(after.tallies) if row.clause == 0] == [(1, 1)]

    def test_only_where_a_run_is_to_fail_fast(self):
        recorder = self.recorder()
        recorder.open("chat", 2, T0)
        assert bytes(recorder.flip(T0 + 2 * S).ahead) == b"\x90"

    def test_an_answer_in_one_piece_says_that_others_may_come_so(self):
        recorder = self.recorder(ahead=True)
        recorder.open("chat", 2, T0)
        recorder.add(ended(stage=2, streamed=False, first_ns=None), recorder.open("chat", 2, T0))
        assert decode(recorder.flip(T0 + 2 * S).ahead) == []


def ended(**changes):
    fields = {
        "id": "0.0", "arrival": 0, "turn": 0, "workload": "chat", "stage": 0, "item": 0, "outcome": Outcome.OK, "scheduled_ns": T0,
        "sent_ns": T0, "first_ns": T0 + 100 * MS, "last_ns": T0 + S, "done_ns": T0 + S,
    }  # fmt: skip
    return Result(**fields | changes)


class Noted:
    """Tallies that note what they are told."""

    def __init__(self):
        self.judged, self.turns, self.over, self.grades, self.closed = set(), [], [], [], 0

    def ended(self, result, k, *, grade=None, request=None):
        self.turns.append(result.arrival)
        self.grades.append(grade)
        assert result.arrival not in self.over

    def fold(self, *given):
        pass

    def ahead(self, *given):
        return []

    def conversation_over(self, arrival):
        self.over.append(arrival)

    def close(self):
        self.closed += 1

    def take(self):
        return []


class Grading(WorkloadSource):
    def grade(self, turn, reply: Reply):
        return Graded(Grade.RIGHT, None) if reply.result.outcome is Outcome.OK else None


@pytest.mark.parametrize(
    ("arrivals", "options", "halt_ms"),
    [
        pytest.param(Constant(rate=Rate(10.0)), {}, None, id="all their turns"),
        pytest.param(
            Constant(rate=Rate(10.0)), {"outcomes": {"0.0": Outcome.TIMEOUT, "3.1": Outcome.SERVER_ERROR}}, None, id="failed"
        ),
        pytest.param(Constant(rate=Rate(10.0)), {"service_ms": 800}, None, id="past the window's end"),
        pytest.param(Constant(rate=Rate(10.0)), {"service_ms": 800}, 1000, id="halted"),
        pytest.param(Closed(sessions=3), {"outcomes": {"1.0": Outcome.RATE_LIMITED}}, None, id="closed"),
    ],
)
def test_every_conversation_is_over_once_after_its_last_turn(arrivals, options, halt_ms):
    loop, noted, talks = SimLoop(start_ns=T0), Noted(), Talks(turns=3, think_ms=50)
    scheme = plan({"w": Share(1.0, None, 3.0)}, arrivals, seed=1, duration=Duration.seconds(2))
    source = Grading(Workload(dataset=Prompts(prompts=("x",))), talks, Target(url="http://x/v1", model="m"))
    results = []

    def main():
        recorder = Recorder("0", scheme.stages, T0, S, tallies=noted)
        traffic = Traffic(
            loop, scheme, T0, {"w": source}, FakeClient(loop, **options), recorder, seed=1, max_in_flight=4,
            budget=Budget(Limits(), Price()), on_result=results.append, on_limit=lambda sentence: None,
        )  # fmt: skip
        runner = loop.spawn(traffic.run)
        if halt_ms:
            loop.sleep_until(T0 + halt_ms * MS)
            traffic.halt()
        runner.join()
        traffic.cancel() if halt_ms else traffic.drained()
        assert traffic.drained()
        taken = recorder.flip(loop.now_ns() + 1, last=True)
        assert sum(c.n for c in taken.counters if c.name == "grade.right") == noted.grades.count("right") > 0

    loop.run(main)
    assert len(noted.over) == len(set(noted.over))
    assert set(noted.turns) <= set(noted.over)
    assert [result.arrival for result in results] == noted.turns
    assert [grade == "right" for grade in noted.grades] == [result.outcome is Outcome.OK for result in results]
    assert noted.closed == 1


class TestPlanned:
    """How many requests a shard can have at most."""

    def of(self, arrivals, turns=1, shards=1, **options):
        scheme = plan({"w": Share(1.0, None, turns)}, arrivals, seed=1, **options)
        return [planned(scheme.shard(i, shards), {"w": Talks(turns)}) for i in range(shards)]

    def test_open_loop_by_stage(self):
        assert self.of(Constant(rate=Rate(10.0)), duration=Duration.seconds(3), warmup=Duration.seconds(1)) == [
            (("w", 0, 10), ("w", 1, 30))
        ]

    def test_shards_add_up(self):
        parts = self.of(Constant(rate=Rate(10.0)), shards=4, duration=Duration.seconds(3))
        assert sum(n for rows in parts for _, _, n in rows) == 30

    def test_later_turns_may_drift_into_any_stage(self):
        assert self.of(Constant(rate=Rate(10.0)), turns=3, duration=Duration.seconds(3)) == [(("w", ANY, 90),)]

    @pytest.mark.parametrize(("turns", "expected"), [(1, 40), (2, 40)])
    def test_sessions_that_requests_end(self, turns, expected):
        assert self.of(Closed(sessions=3), turns=turns, requests=40) == [(("w", ANY, expected),)]

    def test_sessions_that_time_ends(self):
        assert self.of(Closed(sessions=3), duration=Duration.seconds(3)) == [(("w", ANY, None),)]


def test_a_worker_tells_what_it_plans_and_reports_what_it_counts(tmp_path, monkeypatch):
    counting = Tallier([Watch(0, (Limit("e2e", "<", 50.0 * MS),))], {0})
    collector = worker_of(tmp_path, monkeypatch)(3.0, tallies=counting, planned=(("w", 0, 30),))
    (ready,) = collector.sent_of(messages.Ready)
    assert ready.planned == (("w", 0, 30),)
    rows = [row for one in collector.merged.values() for row in decode(one.tallies)]
    assert (sum(row.n for row in rows), sum(row.over for row in rows)) == (30, 30)
    assert sum(row.conversations.clusters for row in rows) == 30


# --- The collector ---

RUN = (Stage(0, "steady", 0, 10 * S, True, "constant 1/s"), Stage(1, "drain", 10 * S, None, False, "what is left"))
HEALTH = Health(0, 0, 0, S, 0, 0, 0)


class Memory:
    """A sink that keeps the run and the document."""

    def open(self, run):
        self.run = run

    def write(self, interval):
        pass

    def note(self, *said):
        pass

    def close(self, document):
        self.document = document


class Bench:
    """A collector whose workers report what they are told to."""

    def __init__(self, tmp_path, clauses, planned=(), workers=("0",), **sla):
        scenario = load({
            "name": "t", "requests": 400, "target": {"url": "http://127.0.0.1:1/v1", "model": "m"},
            "workload": {"w": {"dataset": {"kind": "prompts", "prompts": ["x"]}}}, "arrivals": {"kind": "constant", "rate": "40/s"},
            "sla": {"clauses": clauses, **sla},
        })  # fmt: skip
        self.sink, self.sent, self.view = Memory(), [], Silent()
        order = Order(scenario=scenario, resolved=resolved(scenario), base=tmp_path, folder=tmp_path, run_id="r", environment={})
        self.collector = Collector(order, workers, lambda worker, message: self.sent.append(message), [self.sink], self.view)
        self.collector.begin()
        for worker in workers:
            self.collector.receive(
                worker,
                messages.Ready(digest="d", wall_offset_ns=0, pid=1, host="h", stages=RUN, notes=(), planned=tuple(planned)),
            )

    def report(self, k, n, over, worker="0", times=1, ahead=0):
        certain = [Tally(0, i, n=ahead, over=ahead, causes={"slow": ahead}) for i in range(k + 1)] if ahead else []
        rows = [Tally(0, k, n=n, over=over, causes={"slow": over} if over else {})]
        counters = [Counter("scheduled", "w", 0, n), Counter("outcome.ok", "w", 0, n)]
        taken = Snapshot(
            worker, k, [], counters, HEALTH, [], [], tallies=msgspec.Raw(msgspec.msgpack.encode(rows)),
            ahead=msgspec.Raw(msgspec.msgpack.encode(certain)),
        )  # fmt: skip
        for _ in range(times):
            self.collector.receive(worker, messages.Report([snapshot.encode(taken)]))
        self.collector.tick()

    def end(self):
        for worker in ("0", "1"):
            self.collector.receive(worker, messages.Done(1))
        return read_verdicts(self.collector.verdict.document.sla)

    @property
    def halted(self):
        return [message for message in self.sent if isinstance(message, messages.Halt)]


@pytest.mark.parametrize(
    ("over", "verdict", "code"), [(0, "pass", 0), (4, "pass", 0), (20, "inconclusive", 3), (60, "fail", 1)], ids=str
)
def test_a_run_ends_with_a_verdict_and_its_exit_code(tmp_path, over, verdict, code):
    bench = Bench(tmp_path, ["p95(ttft) < 800ms"])
    for k in range(10):
        bench.report(k, 40, over // 10 + (k < over % 10), times=2)  # the second one is merged already
    (found,) = bench.end()
    assert (found.verdict, found.n, found.over, bench.collector.verdict.code) == (verdict, 400, over, code)
    assert bench.sink.document.sla == bench.collector.verdict.document.sla


def test_what_workers_plan_together_goes_into_the_archive(tmp_path):
    planned = (("w", 0, 150), ("w", ANY, 20), ("w", 1, None))
    bench = Bench(tmp_path, ["p95(ttft) < 800ms"], planned, workers=("0", "1"))
    assert bench.sink.run.planned == (PlannedRequests("w", 0, 300), PlannedRequests("w", None, 40), PlannedRequests("w", 1, None))
    bench.end()
    assert bench.sink.document.planned == bench.sink.run.planned


def test_the_tightest_limit_says_how_late_the_generator_may_be(tmp_path):
    limits = ["p95(ttft) < 800ms", "goodput(e2e<300ms, itl_max<1ms) >= 95%", "p5(ttfo) >= 1ms", "p95(tpot) < 1ms"]
    assert Bench(tmp_path, limits).sink.run.tightest_limit_ns == 300 * MS
    assert Bench(tmp_path, ["error_rate < 1%"]).sink.run.tightest_limit_ns is None


def test_a_clause_that_the_plan_does_not_know_is_refused_before_the_run(tmp_path):
    bench = Bench(tmp_path, ["p95(ttft) < 800ms during late"])
    assert bench.collector.verdict.code == 2
    assert bench.collector.verdict.sentence.startswith("unknown stage `late`; allowed: steady (column 26)\n")


def test_a_lost_worker_makes_every_verdict_an_error(tmp_path):
    bench = Bench(tmp_path, ["p95(ttft) < 800ms"], workers=("0", "1"))
    for k in range(10):
        bench.report(k, 40, 40)
    bench.collector.gone("1", "killed")
    (found,) = bench.end()
    assert (found.verdict, bench.collector.verdict.code) == ("error", 3)
    assert found.says == "the run is invalid: worker 1 was lost"


class TestFailFast:
    PLANNED = (("w", 0, 400),)

    def test_it_ends_when_the_misses_fail_all_that_is_planned(self, tmp_path):
        """66 misses fail 400 attempts of a p95 however the other 160 turn out; 55 do not yet, with so few intervals."""
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], self.PLANNED, fail_fast=True)
        for k in range(5):
            bench.report(k, 40, 11)
        assert not bench.halted
        bench.report(5, 40, 11)
        assert len(bench.halted) == 1
        (note,) = bench.view.notes
        assert note.startswith("stopping: `p95(ttft) < 800ms` cannot pass any more: 66 of 240 = 27.5 % missed, 5 % may")
        (found,) = bench.end()
        assert (found.verdict, bench.collector.verdict.code) == ("fail", 1)

    def test_it_does_not_wait_for_answers_that_are_late_already(self, tmp_path):
        """Nothing has ended; half of the plan is certain to miss after the fifth interval."""
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], self.PLANNED, fail_fast=True)
        for k in range(4):
            bench.report(k, 0, 0, ahead=40)
        assert not bench.halted
        bench.report(4, 0, 0, ahead=40)
        assert len(bench.halted) == 1
        (note,) = bench.view.notes
        assert note.startswith("stopping: `p95(ttft) < 800ms` cannot pass any more: 200 of 200 = 100 % missed, 5 % may")
        bench.report(5, 40, 30)
        (found,) = bench.end()
        assert (found.n, found.over) == (40, 30), "the verdict counts what ended"

    def test_what_is_in_flight_counts_once(self, tmp_path):
        """The newest of each worker: those that were late at one flip are among those of the next."""
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], self.PLANNED, fail_fast=True)
        for k in range(4):
            bench.report(k, 0, 0, ahead=40)
        assert not bench.halted, "400 misses would be all that was planned"

    def test_workers_add_up(self, tmp_path):
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], (("w", 0, 200),), workers=("0", "1"), fail_fast=True)
        for k in range(4):
            bench.report(k, 0, 0, ahead=20)
            bench.report(k, 0, 0, worker="1", ahead=20)
        bench.report(4, 0, 0, ahead=20)
        assert not bench.halted
        bench.report(4, 0, 0, worker="1", ahead=20)
        assert bench.halted

    @pytest.mark.parametrize(
        ("planned", "sla"),
        [
            pytest.param(PLANNED, {}, id="not asked for"),
            pytest.param((), {"fail_fast": True}, id="no number planned"),
            pytest.param((("w", ANY, None),), {"fail_fast": True}, id="a number that nobody knows"),
            pytest.param((("w", 0, 40_000),), {"fail_fast": True}, id="many more to come"),
        ],
    )
    def test_it_goes_on(self, tmp_path, planned, sla):
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], planned, **sla)
        for k in range(5):
            bench.report(k, 40, 40)
        assert not bench.halted

    def test_an_invalid_run_is_not_ended(self, tmp_path):
        bench = Bench(tmp_path, ["p95(ttft) < 800ms"], self.PLANNED, fail_fast=True)
        late = [Series("schedule_delay", "w", 0, [index(100_000)], [40], 40, 4_000_000, 100_000, 100_000)]
        bench.collector.receive("0", messages.Report([snapshot.encode(Snapshot("0", 0, late, [], HEALTH, [], []))]))
        for k in range(1, 6):
            bench.report(k, 40, 40)
        assert not bench.halted
        assert bench.end()[0].verdict == "error"


@pytest.mark.parametrize(
    ("over", "planned", "verdict", "code"),
    [
        pytest.param(0, (("w", 0, 400),), "inconclusive", 3, id="nothing passes"),
        pytest.param(200, (("w", 0, 400),), "fail", 1, id="no other request can mend it"),
        pytest.param(200, (), "inconclusive", 3, id="nobody knows how many were planned"),
    ],
)
def test_a_run_that_ended_early(tmp_path, over, planned, verdict, code):
    bench = Bench(tmp_path, ["p95(ttft) < 800ms"], planned)
    for k in range(5):
        bench.report(k, 40, over // 5)
    bench.collector.receive("0", messages.Stopping("the limit of $1.00 could be passed"))
    (found,) = bench.end()
    assert (found.verdict, bench.collector.verdict.code) == (verdict, code)
    if verdict == "inconclusive":
        assert found.says.startswith("the run ended early (the limit of $1.00 could be passed); so far ")
