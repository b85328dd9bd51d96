"""One worker on virtual time, spoken to as its collector would: what it sends, when it ends, what is on disk."""

import shutil

import msgspec
import pytest
from fake_traffic import MS, T0, FakeClient, S, Talks
from hypothesis import given, settings
from hypothesis import strategies as st
from virtual_run import a_run

from r1perf import clock, messages, snapshot
from r1perf.arrivals import Closed, Constant
from r1perf.budget import Budget, Limits
from r1perf.datasets.facts import Prompting
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.synthetic import Synthetic
from r1perf.datasets.tokens import Calibration
from r1perf.errors import ArchiveError, TargetError, UsageError
from r1perf.handover import REPORT_BYTES, Handover
from r1perf.journal import Appender, read_requests, read_snapshots
from r1perf.loop.sim import SimLoop
from r1perf.result import Outcome
from r1perf.schedule import Share, plan
from r1perf.setup import Setup
from r1perf.source import WorkloadSource
from r1perf.summary import ALL, Summary
from r1perf.summary.archived import recover_worker
from r1perf.target import Price, Target
from r1perf.units import Duration, Rate
from r1perf.worker import Worker
from r1perf.workload import Workload

ONE = {"w": Share(1.0, None, 1.0)}
MIX = {"w": Share(1.0, None, 1.0), "c": Share(None, Closed(sessions=3), 1.0)}
TWO_S = {"seed": 1, "duration": Duration.seconds(2)}

ASSIGN = {"run_id": "r", "worker": "0", "shard": 0, "shards": 1, "scenario": {}, "base": "."}


class Collector:
    """The other end of the link: acknowledges each report after the next delay in `delays_ms`; None loses the report."""

    def __init__(self, loop, delays_ms=()):
        self.loop, self.delays_ms = loop, list(delays_ms)
        self.inbox, self.came, self.sent, self.merged = [], loop.event(), [], {}
        self.gone = False
        self.unsent = False

    def say(self, message):
        self.inbox.append(message)
        self.came.set()

    def receive(self):
        while not self.inbox and not self.gone:
            self.came.clear()
            self.came.wait()
        return self.inbox.pop(0) if self.inbox else None

    def send(self, message):
        self.sent.append(((self.loop.now_ns() - T0) / MS, message))
        if isinstance(message, messages.Report):
            delay = self.delays_ms.pop(0) if self.delays_ms else 0
            if delay is not None:
                self.loop.spawn(self._merge, message, delay)

    def _merge(self, report, delay_ms):
        self.loop.sleep_until(self.loop.now_ns() + int(delay_ms * MS))
        taken = [snapshot.decode(encoded) for encoded in report.snapshots]
        for one in taken:
            self.merged.setdefault(one.k, one)
        self.say(messages.Ack(max(one.k for one in taken)))

    def sent_of(self, kind):
        return [message for _, message in self.sent if isinstance(message, kind)]


def worker_of(tmp_path, monkeypatch):
    """Give a function that runs a worker to its end."""
    monkeypatch.setattr(clock, "wall_offset_ns", lambda: 0)

    def run(
        seconds=3.0, *, delays_ms=(), client=None, talks=None, meanwhile=None, calibrations=None, scheme=None, users=False,
        load=lambda setup: setup, **more
    ):  # fmt: skip
        """Run a worker to its end; `meanwhile(worker, collector, sleep_ms)` is a task beside it, `scheme` a plan other than 10/s."""
        loop = SimLoop(start_ns=T0 - S)
        collector = Collector(loop, delays_ms)
        fake = FakeClient(loop, **(client or {}))
        talks = talks or Talks()
        if scheme is None:
            scheme = plan(ONE, Constant(rate=Rate(10.0)), seed=1, duration=Duration.seconds(seconds))
        source = WorkloadSource(Workload(dataset=Prompts(prompts=("x",))), talks, Target(url="http://x", model="m"))
        setup = Setup(
            plan=scheme, sources={"w": source, "c": source}, client=fake, digest="d", notes=(), seed=1, record_chunks=False,
            **({"max_in_flight": 100, "budget": Budget(Limits(), Price()), "drain_ns": None, "stop_errors": None} | more),
        )  # fmt: skip
        monkeypatch.setattr("r1perf.worker.set_up", lambda loop, assign, told: load(setup))
        worker = Worker(loop, collector)
        collector.client = fake
        collector.say(messages.Assign(**ASSIGN, folder=str(tmp_path), interval_ns=S, users=users))
        collector.say(messages.Go(T0, calibrations or {}))

        def main():
            if meanwhile is not None:
                loop.spawn(meanwhile, worker, collector, lambda ms: loop.sleep_until(T0 + ms * MS))
            worker.run()
            collector.ended_ms = (loop.now_ns() - T0) / MS

        loop.run(main)
        return collector

    return run


@pytest.fixture
def work(tmp_path, monkeypatch):
    return worker_of(tmp_path, monkeypatch)


def counted(collector, name):
    return sum(counted_in(one, name) for one in collector.merged.values())


def counted_in(taken, name):
    return sum(counter.n for counter in taken.counters if counter.name == name)


def test_it_says_ready_reports_every_second_and_is_done(work, tmp_path):
    collector = work(3.0)
    assert [type(message).__name__ for _, message in collector.sent] == ["Ready", *["Report"] * 4, "Done"]
    assert [round(at) for at, message in collector.sent if isinstance(message, messages.Report)] == [1000, 2000, 3000, 3000]
    assert counted(collector, "scheduled") == counted(collector, "outcome.ok") == 30
    assert len(list(read_requests(tmp_path / "requests.0.jsonl"))) == 30
    assert [one.k for one in read_snapshots(tmp_path / "snapshots.0")] == sorted(collector.merged)
    assert collector.sent_of(messages.Done) == [messages.Done(len(collector.merged))]


def test_it_says_what_it_found_out_and_takes_the_calibrations_of_the_run(work):
    facts = {"w": Prompting(cache="bust", calibration=Calibration(2.0, 4, 0.01, 4, 99))}
    made = Synthetic(input_tokens=64, output_tokens=5).load(1)
    collector = work(1.0, talks=made, prompting=facts, calibrations={"w": Calibration(2.0, 4)})
    assert collector.sent_of(messages.Ready)[0].prompting == facts
    assert {len(call.messages[0].content.split()) for call in collector.client.calls} == {30}
    plain = work(1.0, talks=made)
    assert {len(call.messages[0].content.split()) for call in plain.client.calls} == {64}


@settings(max_examples=50)
@given(
    delays=st.lists(st.one_of(st.none(), st.integers(0, 3000)), max_size=6),
    service_ms=st.integers(0, 2500),
    seconds=st.floats(0.3, 4),
)
def test_late_and_lost_acknowledgements_lose_nothing_and_the_worker_ends(tmp_path_factory, delays, service_ms, seconds):
    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("worker")
        run = worker_of(folder, monkeypatch)
        collector = run(seconds, delays_ms=delays, client={"service_ms": service_ms})
    assert (
        counted(collector, "scheduled")
        == counted(collector, "outcome.ok")
        == len(list(read_requests(folder / "requests.0.jsonl")))
    )
    assert isinstance(collector.sent[-1][1], messages.Done)
    assert sorted(collector.merged) == [one.k for one in read_snapshots(folder / "snapshots.0")]


@settings(max_examples=30)
@given(died_ms=st.integers(1, 3898), service_ms=st.integers(0, 2500), torn=st.booleans())
def test_of_a_killed_worker_every_request_has_ended_or_is_lost(tmp_path_factory, died_ms, service_ms, torn):
    """Also those that became due after its last snapshot, which nobody else knows of."""
    left = tmp_path_factory.mktemp("left") / "run"
    scheme = plan(ONE, Constant(rate=Rate(10.0)), seed=1, duration=Duration.seconds(4))

    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(died_ms)
        collector.loop.sleep_until(collector.loop.now_ns() + MS // 2)
        shutil.copytree(folder, left)

    with pytest.MonkeyPatch.context() as monkeypatch:
        folder = tmp_path_factory.mktemp("worker")
        client = worker_of(folder, monkeypatch)(scheme=scheme, client={"service_ms": service_ms}, meanwhile=meanwhile).client
    assert not list(folder.glob("scheduled.*"))  # who ends in order leaves none behind
    scheduled = left / "scheduled.0.jsonl"
    if torn and scheduled.exists():
        scheduled.write_bytes(scheduled.read_bytes() + b'{"id":"7')
    summary = Summary(msgspec.structs.replace(a_run(), stages=scheme.stages, workloads=("w",)))
    recover_worker(summary, left, "0")
    lost = summary.lose("0")
    due = [at_ms for _, at_ms in client.sent if at_ms <= died_ms]
    ended = [at_ms for at_ms in due if at_ms + service_ms <= died_ms]
    assert summary.outcomes() == {name: n for name, n in (("ok", len(ended)), ("lost", len(due) - len(ended))) if n}
    assert lost == len(due) - len(ended)
    assert summary.counter("scheduled", stage=ALL) == summary.counter("conversations", stage=ALL) == len(due)


def test_a_slow_disk_delays_no_flip_and_loses_no_end_of_a_stage(work, monkeypatch, tmp_path):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(4200)
        offload = worker._loop.offload
        monkeypatch.setattr(worker._loop, "offload", lambda run: (sleep_ms(8700), offload(run)))

    # The last of 16 requests is due, and the stage over, at 7.5 s; the disk stalls from 4.5 s on for 4.2 s.
    collector = work(scheme=plan(ONE, Constant(rate=Rate(2.0)), seed=1, requests=16), meanwhile=meanwhile)
    assert [end for one in collector.merged.values() for end in one.ended] == [(0, 7_500 * MS)]
    assert [counted_in(one, "scheduled") for _, one in sorted(collector.merged.items())] == [2] * 8
    assert [one.health.wall_ns for _, one in sorted(collector.merged.items())][1:7] == [S] * 6
    assert [round(at) for at, message in collector.sent if isinstance(message, messages.Report)][:5] == [
        1000,
        2000,
        3000,
        4000,
        8700,
    ]
    assert [one.k for one in read_snapshots(tmp_path / "snapshots.0")] == list(range(8))


def test_a_report_is_sent_when_its_snapshots_are_on_disk(work, tmp_path):
    told = []

    def meanwhile(worker, collector, sleep_ms):
        send = worker._shard._link.send

        def sent(message):
            if isinstance(message, messages.Report):
                on_disk = [snapshot.encode(one) for one in read_snapshots(tmp_path / "snapshots.0")]
                told.append(all(encoded in on_disk for encoded in message.snapshots))
            send(message)

        worker._shard._link.send = sent

    work(3.0, meanwhile=meanwhile)
    assert told == [True] * 4


def test_requests_are_on_disk_before_the_snapshot_that_counts_them(work, monkeypatch):
    """Also those that end, and are counted, while the disk writes."""
    seen, loops, flush = [], [], Appender.flush

    def slow(self):
        flush(self)
        if self.path.name == "requests.0.jsonl":
            loops[0].sleep_until(loops[0].now_ns() + 1500 * MS)
        else:
            lines = len(list(read_requests(self.path.parent / "requests.0.jsonl")))
            seen.append((sum(counted_in(one, "outcome.ok") for one in read_snapshots(self.path)), lines))

    monkeypatch.setattr(Appender, "flush", slow)
    work(4.0, meanwhile=lambda worker, collector, sleep_ms: loops.append(worker._loop))
    assert all(counted <= lines for counted, lines in seen)
    assert seen[-1] == (40, 40)


def test_a_run_that_ends_on_a_boundary_tells_the_end_of_its_stage(work):
    scheme = plan(ONE, Constant(rate=Rate(1.0)), seed=1, duration=Duration.seconds(2))
    collector = work(client={"service_ms": 1000}, scheme=scheme)
    assert collector.ended_ms == 2000
    assert [end for one in collector.merged.values() for end in one.ended] == [(0, 2 * S)]


def test_a_process_that_stood_still_at_the_end_leaves_no_interval_out(work):
    def meanwhile(worker, collector, sleep_ms):
        send = collector.client.send

        def slow(ticket, call, stream):
            reply = send(ticket, call, stream)
            if ticket.id == "2.0":
                worker._loop.advance(3 * S)
            return reply

        collector.client.send = slow

    collector = work(scheme=plan(ONE, Constant(rate=Rate(1.0)), seed=1, requests=3), meanwhile=meanwhile)
    assert collector.ended_ms == 5100
    assert sorted(collector.merged) == list(range(6))


@pytest.mark.parametrize("unsent", [True, False])
def test_what_nobody_acknowledges_is_not_sent_again_and_again(work, unsent):
    """A collector is paused for an hour: what waits on this side needs no repeating, and what may be lost goes in small parts."""

    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(1500)
        collector.unsent = unsent
        sleep_ms(3_600_000)
        collector.unsent = False
        collector.delays_ms = []

    scheme = plan(ONE, Constant(rate=Rate(1 / 8)), seed=1, requests=500)
    collector = work(scheme=scheme, delays_ms=[None] * 10**6, meanwhile=meanwhile)
    reports = [(at, message.snapshots) for at, message in collector.sent if isinstance(message, messages.Report)]
    paused = [snapshots for at, snapshots in reports if at < 3_600_000]
    assert len(paused) == (1 if unsent else 720)
    assert max(sum(map(len, snapshots)) for _, snapshots in reports) <= REPORT_BYTES
    assert sorted(collector.merged) == list(range(collector.sent_of(messages.Done)[0].snapshots))


def test_a_snapshot_larger_than_a_report_goes_alone():
    loop = SimLoop()
    collector = Collector(loop)
    handover = Handover(loop, collector)
    loop.run(lambda: handover.add([(0, b"x" * (REPORT_BYTES + 1)), (1, b"y")]))
    assert [len(report.snapshots) for report in collector.sent_of(messages.Report)] == [1]
    loop.run(lambda: handover.acknowledged(0))
    assert collector.sent_of(messages.Report)[1:] == [messages.Report([b"y"])]


def test_an_acknowledgement_of_old_sends_nothing_again():
    loop = SimLoop()
    collector = Collector(loop, [None] * 9)
    handover = Handover(loop, collector)
    loop.run(lambda: [handover.add([(0, b"a"), (1, b"b")]), handover.acknowledged(1), handover.add([(2, b"c")])])
    for old in (1, 1, 0):
        loop.run(lambda old=old: handover.acknowledged(old))
    assert collector.sent_of(messages.Report) == [messages.Report([b"a", b"b"]), messages.Report([b"c"])]


def test_files_that_cannot_be_opened_refuse_the_run_before_it_begins(work, tmp_path):
    (tmp_path / "snapshots.0").mkdir()
    collector = work(1.0)
    assert [message for _, message in collector.sent] == [
        messages.Refused(f"{tmp_path / 'snapshots.0'} cannot be opened: Is a directory")
    ]


def test_the_wall_clock_is_read_when_all_is_loaded(work, monkeypatch):
    """A clock that is set while the data is loaded (for up to half an hour) is no step of the run, and does not move t0."""

    def load(setup):
        monkeypatch.setattr(clock, "wall_offset_ns", lambda: 100 * MS)
        return setup

    collector = work(2.0, load=load)
    assert [message.wall_offset_ns for message in collector.sent_of(messages.Ready)] == [100 * MS]
    assert {one.clock_step_ns for one in collector.merged.values()} == {0}
    assert {one.t0_ns for one in collector.merged.values()} == {T0 - 100 * MS}


def test_what_is_wrong_before_the_run_is_refused_in_one_sentence(monkeypatch):
    def refuse(loop, assign, told):
        raise TargetError("http://x refuses a request without a key")

    loop = SimLoop(start_ns=T0)
    monkeypatch.setattr("r1perf.worker.set_up", refuse)
    collector = Collector(loop)
    collector.say(messages.Assign(**ASSIGN, folder=".", interval_ns=S))
    loop.run(Worker(loop, collector).run)
    assert [message for _, message in collector.sent] == [messages.Refused("http://x refuses a request without a key")]


@pytest.mark.parametrize(
    ("error", "says"),
    [(UsageError("the header X is odd"), "the header X is odd"), (ZeroDivisionError("oh"), "ZeroDivisionError: oh")],
)
def test_a_task_that_fails_ends_the_run_in_order(work, monkeypatch, capsys, error, says):
    def failing(arrival, error=error):
        raise error

    def meanwhile(worker, collector, sleep_ms):
        worker._loop.on_error = worker.failed
        sleep_ms(250)
        monkeypatch.setattr(collector.client, "prepare", failing)

    collector = work(60.0, meanwhile=meanwhile)
    (stopping,) = collector.sent_of(messages.Stopping)
    assert (stopping.reason, stopping.failed) == (f"the worker failed: {says}", True)
    ended = {outcome: n for outcome in Outcome if (n := counted(collector, f"outcome.{outcome}"))}
    assert ended == {"ok": 3}  # the one that was about to be sent was never scheduled
    assert counted(collector, "scheduled") == 3
    assert isinstance(collector.sent[-1][1], messages.Done)
    assert ("Traceback" in capsys.readouterr().err) == isinstance(error, ZeroDivisionError)


def test_halt_drains_what_is_in_flight_and_bounds_it(work):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        collector.say(messages.Halt(2 * S))

    collector = work(60.0, client={"service_ms": 500}, meanwhile=meanwhile)
    assert counted(collector, "outcome.ok") == counted(collector, "scheduled") == 5
    assert collector.ended_ms == pytest.approx(900, abs=1)
    collector = work(60.0, client={"service_ms": 60_000}, meanwhile=meanwhile)
    assert counted(collector, "outcome.cancelled") == counted(collector, "scheduled") == 5
    assert collector.ended_ms == pytest.approx(2450, abs=1)


@pytest.mark.parametrize(("waiting", "outcomes"), [(True, {"ok": 5}), (False, {"ok": 2, "dropped": 3})])
def test_a_halt_drops_what_waits_for_a_place_or_lets_it_through(work, waiting, outcomes):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        collector.say(messages.Halt(None, waiting))

    collector = work(60.0, client={"service_ms": 500}, meanwhile=meanwhile, max_in_flight=2)
    assert {str(outcome): n for outcome in Outcome if (n := counted(collector, f"outcome.{outcome}"))} == outcomes


def test_what_a_halt_let_wait_the_next_one_drops(work):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        collector.say(messages.Halt(None, waiting=True))
        sleep_ms(460)
        collector.say(messages.Halt(None))

    collector = work(60.0, client={"service_ms": 500}, meanwhile=meanwhile, max_in_flight=2)
    assert (counted(collector, "outcome.ok"), counted(collector, "outcome.dropped")) == (2, 3)


def test_a_second_halt_shortens_the_first(work):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        collector.say(messages.Halt(None))
        sleep_ms(1000)
        collector.say(messages.Halt(0))

    collector = work(60.0, client={"service_ms": 60_000}, meanwhile=meanwhile)
    assert counted(collector, "outcome.cancelled") == 5
    assert collector.ended_ms == pytest.approx(1250, abs=200)


def test_the_scenarios_drain_begins_when_nothing_is_left_to_start(work):
    collector = work(1.0, client={"service_ms": 5000}, drain_ns=S)
    assert counted(collector, "outcome.cancelled") == 10
    assert collector.ended_ms == pytest.approx(2000, abs=1)


@pytest.mark.parametrize(
    ("scheme", "cut", "ended_ms"),
    [
        pytest.param(plan(ONE, Closed(sessions=3), **TWO_S), 3, 3000, id="sessions"),
        pytest.param(plan(MIX, Constant(rate=Rate(10.0)), **TWO_S), 23, 3000, id="arrivals and sessions"),
        # The third session sends the last request, 2 * 2.5 ms after t0.
        pytest.param(plan(ONE, Closed(sessions=3), seed=1, requests=3), 3, 1005, id="sessions that end by requests"),
        pytest.param(plan(ONE, Constant(rate=Rate(10.0)), seed=1, requests=5), 5, 1400, id="arrivals that end by requests"),
    ],
)
def test_the_drain_cuts_what_is_in_flight_whoever_sent_it(work, scheme, cut, ended_ms):
    collector = work(client={"service_ms": 60_000}, scheme=scheme, drain_ns=S)
    assert counted(collector, "outcome.cancelled") == counted(collector, "scheduled") == cut
    assert collector.ended_ms == pytest.approx(ended_ms, abs=1)


def test_the_drain_cuts_sessions_that_are_held_from_outside(work):
    scheme = plan(ONE, Closed(sessions=3), **TWO_S)
    collector = work(
        client={"service_ms": 60_000}, scheme=scheme, drain_ns=S, users=True,
        meanwhile=lambda worker, collector, sleep_ms: [worker.seats.join() for _ in range(2)],
    )  # fmt: skip
    assert counted(collector, "outcome.cancelled") == counted(collector, "scheduled") == 2
    assert collector.ended_ms == pytest.approx(3000, abs=1)


def test_a_rate_that_is_changed_when_nothing_is_left_to_start_changes_nothing(work):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        collector.say(messages.Live(1, 100.0, S))
        sleep_ms(1500)
        collector.say(messages.Halt(None))

    scheme = plan({"w": Share(1.0, None, 2.0)}, Constant(rate=Rate(10.0)), seed=1, requests=4)
    collector = work(client={"service_ms": 2000}, talks=Talks(2), scheme=scheme, meanwhile=meanwhile)
    assert counted(collector, "scheduled") == counted(collector, "outcome.ok") == 2  # the halt ended the second turns


def test_an_orphan_cuts_what_is_in_flight_and_leaves_its_files_complete(work, tmp_path):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(1450)
        collector.gone = True
        collector.came.set()

    collector = work(60.0, client={"service_ms": 500}, meanwhile=meanwhile)
    results = list(read_requests(tmp_path / "requests.0.jsonl"))
    assert len(results) == 15
    assert {result.outcome for result in results} == {Outcome.OK, Outcome.CANCELLED}
    assert sum(c.n for one in read_snapshots(tmp_path / "snapshots.0") for c in one.counters if c.name == "scheduled") == 15
    assert not collector.sent_of(messages.Done)


def test_sigterm_tells_why_and_drains(work):
    def meanwhile(worker, collector, sleep_ms):
        sleep_ms(450)
        worker.terminate()

    collector = work(60.0, client={"service_ms": 500}, meanwhile=meanwhile)
    assert collector.sent_of(messages.Stopping) == [messages.Stopping("the worker was asked to end by SIGTERM")]
    assert counted(collector, "outcome.ok") == 5


def test_the_first_answers_of_a_wrong_target_are_told_once_and_the_collector_decides(work):
    # The fake answers HTTP 500 for failures; 401 is what a wrong key gets.
    wrong = {"0.0": Outcome.CLIENT_ERROR, "1.0": Outcome.CLIENT_ERROR}
    collector = work(3.0, client={"service_ms": 50, "outcomes": wrong, "status": 401})
    (stopping,) = collector.sent_of(messages.Stopping)
    assert stopping == messages.Stopping("the target first answered HTTP 401, before anything had succeeded", wrong_target=True)
    assert counted(collector, "scheduled") == 30


def test_the_error_limit_ends_the_run(work):
    bad = {f"{n}.0": Outcome.SERVER_ERROR for n in range(50)}
    collector = work(60.0, client={"service_ms": 10, "outcomes": bad}, stop_errors=3)
    (stopping,) = collector.sent_of(messages.Stopping)
    assert stopping.reason == "3 requests have failed, as many as `stop.errors` allows"
    assert counted(collector, "outcome.server_error") == 3


def test_a_disk_that_fills_is_told_and_everything_is_still_reported(work, monkeypatch):
    flushes = []

    def flush(self):
        flushes.append(self)
        if len(flushes) > 6:
            raise ArchiveError(f"{self.path.name} cannot be written: No space left on device")

    monkeypatch.setattr(Appender, "flush", flush)
    collector = work(60.0, client={"service_ms": 10})
    (stopping,) = collector.sent_of(messages.Stopping)
    assert stopping.failed
    assert stopping.reason.endswith("cannot be written: No space left on device")
    assert counted(collector, "scheduled") == counted(collector, "outcome.ok") > 0
    assert isinstance(collector.sent[-1][1], messages.Done)
