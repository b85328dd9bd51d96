"""The rate is changed while a run goes on, and sessions come and go: on virtual time, at exact moments."""

import pytest
from fake_traffic import MS, T0, FakeClient, S, Talks
from virtual_run import a_run

from r1perf.arrivals import Closed, Constant
from r1perf.budget import Budget, Limits
from r1perf.datasets.prompts import Prompts
from r1perf.journal import RequestsJournal, SnapshotsJournal
from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder
from r1perf.schedule import Share, plan, stage_name
from r1perf.seats import Seats
from r1perf.sinks.archive import write_document
from r1perf.sla.tally import Tallier
from r1perf.snapshot import encode
from r1perf.source import WorkloadSource
from r1perf.summary import Summary, document, recover
from r1perf.target import Price, Target
from r1perf.traffic import Traffic
from r1perf.units import Duration, Rate
from r1perf.workload import Workload


class Ran:
    """One worker's traffic; `meanwhile(ran)` is a task beside it, which may `sleep` until ms after t0."""

    def __init__(
        self, arrivals, meanwhile, *, seats=False, early=0, shard=(0, 1), service_ms=10, talks=None, own=None, **planned
    ):
        self.loop = loop = SimLoop(start_ns=T0)
        self.results = []
        shares = {"w": Share(1.0, None, 1.0)} | ({} if own is None else {"own": Share(None, own, 1.0)})
        self.plan = plan(shares, arrivals, seed=1, **planned).shard(*shard)
        self.client = FakeClient(loop, service_ms)
        self.seats = Seats(loop) if seats else None
        for _ in range(early):
            self.seats.join()
        target = Target(url="http://x/v1", model="m")
        source = WorkloadSource(Workload(dataset=Prompts(prompts=("x",))), talks or Talks(), target)
        self.tallies = Tallier((), {0})
        self.recorder = Recorder("0", self.plan.stages, T0, S, tallies=self.tallies)
        self.traffic = Traffic(
            loop, self.plan, T0, {"w": source, "own": source}, self.client, self.recorder, seed=1, max_in_flight=1000,
            budget=Budget(Limits(), Price()), on_result=self.results.append, on_limit=lambda sentence: None, seats=self.seats,
        )  # fmt: skip
        loop.run(self.main, meanwhile)
        self.snapshot = self.recorder.flip(self.loop.now_ns() + 1)

    def main(self, meanwhile):
        beside = self.loop.spawn(meanwhile, self)
        self.traffic.run()
        beside.join()
        self.ended_ms = (self.loop.now_ns() - T0) / MS
        assert self.traffic.drained()

    def sleep(self, ms):
        self.loop.sleep_until(T0 + ms * MS)

    def sent(self):
        return [(name, round(at, 3)) for name, at in self.client.sent]

    def stages(self):
        """Return, by the name of its stage, when the first and the last request of it was scheduled, in ms, and how many there were."""
        found = {}
        for result in self.results:
            found.setdefault(stage_name(self.plan.stages, result.stage), []).append((result.scheduled_ns - T0) / MS)
        return {name: (min(times), max(times), len(times)) for name, times in found.items()}


def constant(rate=10.0):
    return Constant(rate=Rate(rate))


def test_another_rate_takes_over_at_its_moment_and_goes_on_until_halted():
    def change(ran):
        ran.sleep(900)
        ran.traffic.live(1, 100.0, S)
        ran.sleep(30_000)
        ran.traffic.halt()

    ran = Ran(constant(), change, duration=Duration.seconds(20))
    first, live = ran.stages()["constant"], ran.stages()["live-1"]
    assert first == (0.0, 900.0, 10), "what was planned for the moment itself and later is not sent"
    assert live[0] >= 1000
    assert live[1] < 30_000
    assert live[2] / 29 == pytest.approx(100, rel=0.1)
    assert ran.ended_ms == 30_000
    assert ran.snapshot.ended == [(0, S), (2, 30 * S)]
    assert ran.tallies.judged == {0, 2}, "clauses count it too"
    assert len({result.id for result in ran.results}) == len(ran.results)


def test_a_change_after_the_last_planned_arrival_holds_the_window_open():
    def change(ran):
        ran.sleep(1500)
        ran.traffic.live(1, 10.0, 2 * S)
        ran.sleep(4000)
        ran.traffic.halt()

    ran = Ran(constant(1.0), change, duration=Duration.seconds(2.5))
    assert ran.stages()["constant"] == (0.0, 1000.0, 2)
    assert ran.stages()["live-1"][0] >= 2000


def test_several_changes_follow_each_other_even_when_they_come_together():
    def change(ran):
        ran.sleep(500)
        ran.traffic.live(1, 1000.0, S)
        ran.traffic.live(2, 50.0, S)
        ran.traffic.live(3, 20.0, 3 * S)
        ran.sleep(5000)
        ran.traffic.halt()

    ran = Ran(constant(), change, duration=Duration.seconds(20))
    stages = ran.stages()
    assert set(stages) == {"constant", "live-2", "live-3"}
    assert 1000 <= stages["live-2"][0] <= stages["live-2"][1] < 3000 <= stages["live-3"][0]
    assert stages["live-2"][2] / 2 == pytest.approx(50, rel=0.35)


def test_changed_rates_are_shared_out_as_the_plan_is():
    def change(ran):
        ran.traffic.live(1, 40.0, S)
        ran.sleep(3000)
        ran.traffic.halt()

    whole = Ran(constant(), change, duration=Duration.seconds(9))
    parts = [Ran(constant(), change, shard=(n, 3), duration=Duration.seconds(9)) for n in range(3)]
    assert sorted(request for part in parts for request in part.sent()) == sorted(whole.sent())


def test_a_halt_before_the_change_begins_leaves_it_out():
    def change(ran):
        ran.traffic.live(1, 1000.0, 2 * S)
        ran.sleep(1000)
        ran.traffic.halt()

    ran = Ran(constant(), change, duration=Duration.seconds(9))
    assert set(ran.stages()) == {"constant"}
    assert ran.ended_ms == 1000


def test_a_change_before_the_planned_requests_are_used_up_begins_no_drain():
    def change(ran):
        ran.sleep(500)
        ran.traffic.live(1, 10.0, S)
        ran.sleep(3000)
        ran.traffic.halt()

    ran = Ran(constant(), change, requests=100)
    assert ran.snapshot.ended == [(0, S), (2, 3 * S)]
    assert set(ran.stages()) == {"constant", "live-1"}


def test_a_rebuilt_run_has_the_stages_that_were_set_by_hand(tmp_path):
    def change(ran):
        ran.sleep(900)
        ran.traffic.live(1, 100.0, S)
        ran.sleep(3000)
        ran.traffic.halt()

    ran = Ran(constant(), change, duration=Duration.seconds(20))
    run = a_run(stages=ran.plan.stages, workloads=("w",))
    write_document(tmp_path, document(Summary(run), "running"))
    with RequestsJournal(tmp_path, "0") as requests, SnapshotsJournal(tmp_path, "0") as snapshots:
        for result in ran.results:
            requests.write(result)
        snapshots.write(encode(ran.snapshot))
    rebuilt = document(recover(tmp_path))
    assert rebuilt.counts == {"scheduled": len(ran.results), "ok": len(ran.results), "in_flight": 0}
    (live,) = [row for row in rebuilt.stages if row.plan.name == "live-1"]
    assert (live.start_s, live.counts["ok"]) == (1.0, ran.stages()["live-1"][2])


# --- Sessions of somebody outside ---


def closed(sessions, **more):
    return Closed(sessions=sessions, **more)


def by_session(ran, sessions):
    """Return how many requests each session sent, by its number."""
    counts = {}
    for result in ran.results:
        counts[result.arrival % sessions] = counts.get(result.arrival % sessions, 0) + 1
    return counts


def test_a_session_goes_on_from_its_join_to_its_leave():
    def people(ran):
        leave = [ran.seats.join()]
        ran.sleep(1000)
        leave.append(ran.seats.join())
        ran.sleep(2000)
        leave[0]()
        ran.sleep(3000)
        leave[1]()

    ran = Ran(closed(2), people, seats=True, service_ms=100, duration=Duration.seconds(5))
    times = {session: [(r.scheduled_ns - T0) / MS for r in ran.results if r.arrival % 2 == session] for session in (0, 1)}
    assert (times[0][0], times[0][-1], len(times[0])) == (0.0, 1900.0, 20)
    assert (times[1][0], times[1][-1], len(times[1])) == (1000.0, 2900.0, 20)


def test_a_conversation_that_runs_when_its_session_is_left_goes_on_to_its_end():
    def people(ran):
        leave = ran.seats.join()
        ran.sleep(150)
        leave()

    ran = Ran(closed(1), people, seats=True, service_ms=100, talks=Talks(turns=3), duration=Duration.seconds(5))
    assert [result.turn for result in ran.results] == [0, 1, 2]


def test_nobody_joins_and_nothing_is_sent():
    ran = Ran(closed(3), lambda ran: None, seats=True, duration=Duration.seconds(2))
    assert ran.results == []
    assert ran.ended_ms == 2000


def test_sessions_beyond_the_planned_ones_have_items_of_their_own():
    def people(ran):
        for _ in range(5):
            ran.seats.join()

    ran = Ran(closed(2), people, seats=True, service_ms=100, duration=Duration.seconds(1))
    assert len({result.id for result in ran.results}) == len(ran.results)
    assert len({result.item for result in ran.results}) == len(ran.results)
    at_once = max(sum(r.scheduled_ns <= at < r.done_ns for r in ran.results) for at in range(T0, T0 + S, 10 * MS))
    assert at_once == 5


@pytest.mark.parametrize("joined", [0, 2, 5])
def test_the_own_sessions_of_a_workload_are_as_planned_whoever_joins(joined):
    def people(ran):
        for _ in range(joined):
            ran.seats.join()

    ran = Ran(closed(2), people, seats=True, own=closed(8), service_ms=100, duration=Duration.seconds(1))
    middle_ns = T0 + 450 * MS
    in_flight = [r.workload for r in ran.results if r.scheduled_ns <= middle_ns < r.done_ns]
    assert (in_flight.count("w"), in_flight.count("own")) == (joined, 8)


def test_those_who_have_joined_before_the_run_begins_are_there(tmp_path):
    ran = Ran(closed(2), lambda ran: None, seats=True, early=5, service_ms=100, duration=Duration.seconds(1))
    assert sum(r.scheduled_ns <= T0 + 500 * MS < r.done_ns for r in ran.results) == 5


def test_those_who_join_at_once_begin_one_after_the_other():
    def people(ran):
        ran.sleep(1000)
        for _ in range(4):
            ran.seats.join()

    ran = Ran(closed(4, ramp_up=Duration.parse("50ms")), people, seats=True, service_ms=10_000, duration=Duration.seconds(3))
    assert [at for _, at in ran.sent()] == [1000.0, 1050.0, 1100.0, 1150.0]


@pytest.mark.parametrize("workers", [1, 2, 8])
def test_sessions_ask_for_the_same_however_many_workers_share_them(workers):
    def people(ran):
        for _ in range(8):
            ran.seats.join()

    def joined(n, i):
        return lambda ran: [ran.seats.join() for _ in range(i, 8, n)]

    whole = Ran(closed(8), people, seats=True, duration=Duration.seconds(1))
    parts = [
        Ran(closed(8), joined(workers, i), seats=True, shard=(i, workers), duration=Duration.seconds(1)) for i in range(workers)
    ]
    assert sorted(request for part in parts for request in part.sent()) == sorted(whole.sent())


def test_requests_end_the_window_when_all_have_joined():
    def people(ran):
        for ms in (0, 100, 200):
            ran.sleep(ms)
            ran.seats.join()

    ran = Ran(closed(3), people, seats=True, service_ms=50, requests=12)
    assert sorted(result.arrival for result in ran.results) == list(range(12))


def test_a_halt_sends_home_whoever_waits_or_comes():
    def people(ran):
        ran.seats.join()
        ran.sleep(500)
        ran.traffic.halt()
        ran.seats.join()

    ran = Ran(closed(4), people, seats=True, service_ms=100, duration=Duration.seconds(60))
    assert ran.ended_ms == 500
    assert by_session(ran, 4) == {0: 5}
