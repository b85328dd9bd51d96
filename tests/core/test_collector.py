"""The collector, fed with messages: who is told what, what is merged once, and how each end is judged."""

import msgspec
import pytest
from fake_traffic import S, Silent

from r1perf import clock, messages, snapshot
from r1perf.collector import INTERRUPT_DRAIN_NS, Collector, Order
from r1perf.datasets.facts import Prompting
from r1perf.datasets.tokens import Calibration
from r1perf.errors import ArchiveError
from r1perf.journal import SnapshotsJournal
from r1perf.scenario import load, resolved
from r1perf.schedule import Stage
from r1perf.snapshot import Counter, Health, Snapshot

STAGES = (Stage(0, "steady", 0, 10 * S, True, "constant 1/s"), Stage(1, "drain", 10 * S, None, False, "what is left"))
HEALTH = Health(0, 0, 0, S, 0, 0, 0)


class Memory:
    """A sink that remembers; `fails` makes its writes raise."""

    def __init__(self, fails=False):
        self.run, self.intervals, self.document, self.fails, self.notes, self.lost = None, [], None, fails, [], 0

    def open(self, run):
        self.run = run

    def write(self, interval):
        if self.fails:
            raise ArchiveError("the disk is full")
        self.intervals.append((interval.k, interval.counters.get(("scheduled", "w", 0), 0)))
        self.lost += interval.counters.get(("outcome.lost", "w", 0), 0)

    def note(self, sentence):
        self.notes.append(sentence)

    def close(self, document):
        self.document = document


class Bench:
    """A collector with its messages recorded."""

    def __init__(self, tmp_path, workers=("0",), sinks=None, **more):
        scenario = load({
            "name": "t", "requests": 10, "target": {"url": "http://127.0.0.1:1/v1", "model": "m"}, **more,
            "workload": {"w": {"dataset": {"kind": "prompts", "prompts": ["x"]}}}, "arrivals": {"kind": "constant", "rate": "1/s"},
        })  # fmt: skip
        self.sent, self.view = [], Silent()
        self.sinks = sinks if sinks is not None else [Memory()]
        order = Order(scenario=scenario, resolved=resolved(scenario), base=tmp_path, folder=tmp_path, run_id="r", environment={})
        self.collector = Collector(
            order, workers, lambda worker, message: self.sent.append((worker, message)), self.sinks, self.view
        )
        self.collector.begin()

    def ready(self, *workers, digest="d", notes=(), stages=STAGES, **more):
        for worker in workers:
            self.collector.receive(
                worker, messages.Ready(digest=digest, wall_offset_ns=0, pid=1, host="h", stages=stages, notes=notes, **more)
            )

    def report(self, worker, *snapshots):
        self.collector.receive(worker, messages.Report([snapshot.encode(taken) for taken in snapshots]))

    def done(self, *workers):
        for worker in workers:
            self.collector.receive(worker, messages.Done(1))

    def told(self, kind):
        return [(worker, message) for worker, message in self.sent if isinstance(message, kind)]


def taken(worker, k, scheduled=0, **outcomes):
    counters = [Counter("scheduled", "w", 0, scheduled)] if scheduled else []
    counters += [Counter(f"outcome.{name}", "w", 0, n) for name, n in outcomes.items()]
    return Snapshot(worker, k, [], counters, HEALTH, [], [])


class Waiting:
    """Lets time pass, second by second, in which a collector looks for silent workers."""

    def __init__(self, monkeypatch):
        self.now_ns = 0
        monkeypatch.setattr(clock, "monotonic_ns", lambda: self.now_ns)

    def until(self, bench, second):
        """Look each second; return who is silent in the last one."""
        while self.now_ns < second * S:
            self.now_ns += S
            silent = bench.collector.silent()
        return silent


def test_a_worker_that_was_ready_long_before_the_others_is_not_taken_for_silent(tmp_path, monkeypatch):
    waiting = Waiting(monkeypatch)
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0")
    waiting.until(bench, 120)
    bench.ready("1")
    assert waiting.until(bench, 165) == []
    bench.report("1", taken("1", 0, 1))
    assert waiting.until(bench, 166) == ["0"]
    bench.collector.heard("0")
    assert bench.collector.silent() == []


def test_a_collector_that_was_stopped_first_hears_what_has_come_meanwhile(tmp_path, monkeypatch):
    waiting = Waiting(monkeypatch)
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    waiting.until(bench, 10)
    waiting.now_ns += 65 * S  # nothing runs meanwhile, and what the workers said waits in their pipes
    assert bench.collector.silent() == []
    bench.report("1", taken("1", 0, 1))
    assert waiting.until(bench, 120) == []
    assert waiting.until(bench, 121) == ["0", "1"]


@pytest.mark.parametrize(("interval", "last"), [("1s", 45), ("10s", 45), ("1m", 180)])
def test_a_worker_may_be_silent_for_several_intervals(tmp_path, monkeypatch, interval, last):
    waiting = Waiting(monkeypatch)
    bench = Bench(tmp_path, interval=interval)
    bench.ready("0")
    assert waiting.until(bench, last) == []
    assert waiting.until(bench, last + 1) == ["0"]


def test_it_goes_when_all_are_ready_with_one_t0(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    assert [(w, m.shard, m.shards) for w, m in bench.told(messages.Assign)] == [("0", 0, 2), ("1", 1, 2)]
    bench.ready("1")
    assert not bench.told(messages.Go)
    bench.ready("0", "1")
    assert [w for w, _ in bench.told(messages.Go)] == ["0", "1"]
    assert len({m.t0_wall_ns for _, m in bench.told(messages.Go)}) == 1
    assert bench.sinks[0].run.stages == STAGES


def test_what_the_first_shard_found_out_goes_to_all_and_into_the_run(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("1", notes=("the target lists no models",))
    facts = Prompting(cache="bust", calibration=Calibration(1.4, 9, 0.01, 4, 3000))
    bench.ready(
        "0",
        notes=("the target lists no models", "x: lengths are not calibrated: no usage"),
        prompting={"w": facts, "x": Prompting()},
    )
    assert [(w, m.calibrations) for w, m in bench.told(messages.Go)] == [(w, {"w": facts.calibration}) for w in ("0", "1")]
    assert bench.sinks[0].run.prompting == {"w": facts, "x": Prompting()}
    assert bench.view.notes == ["the target lists no models", "x: lengths are not calibrated: no usage"]
    bench.report("0", taken("0", 0))
    bench.report("1", taken("1", 0))
    bench.done("0", "1")
    assert [(row.name, row.prompting) for row in bench.sinks[0].document.workloads] == [("w", facts)]
    assert bench.sinks[0].document.run().prompting == {"w": facts}


def test_workers_that_plan_differently_are_refused(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", digest="a")
    bench.ready("1", digest="b")
    assert bench.collector.verdict.code == 2
    assert "worker 1 (h) plans a different run (b) than worker 0 (h, a)" in bench.collector.verdict.sentence
    assert not bench.told(messages.Go)


def test_a_refusal_before_the_run_is_exit_2_without_an_archive(tmp_path):
    bench = Bench(tmp_path)
    bench.collector.receive("0", messages.Refused("http://x cannot be reached: refused"))
    assert bench.collector.verdict == msgspec.structs.replace(
        bench.collector.verdict, code=2, sentence="http://x cannot be reached: refused", document=None
    )
    assert bench.sinks[0].run is None


def test_each_snapshot_is_merged_once_in_any_order_and_acknowledged(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.report("0", taken("0", 1, 5))
    bench.report("0", taken("0", 0, 3), taken("0", 1, 5))
    assert [m.k for _, m in bench.told(messages.Ack)] == [1, 1]
    assert bench.collector.summary.counter("scheduled") == 8


def test_sinks_get_an_interval_when_all_workers_have_reported_it(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", taken("0", 0, 1), taken("0", 1, 2))
    bench.collector.tick()
    assert bench.sinks[0].intervals == []
    bench.report("1", taken("1", 0, 10))
    bench.collector.tick()
    assert bench.sinks[0].intervals == [(0, 11)]


def test_late_data_of_a_slow_worker_comes_alone(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", *(taken("0", k, 1) for k in range(12)))
    bench.report("1", taken("1", 11, 1))
    bench.collector.tick()
    bench.report("1", taken("1", 0, 7))
    bench.collector.tick()
    assert bench.sinks[0].intervals.count((0, 1)) == 1
    assert bench.sinks[0].intervals[-1] == (0, 7)


def test_the_run_ends_when_all_are_done_and_a_valid_one_is_exit_0(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", taken("0", 0, 2, ok=2))
    bench.report("1", taken("1", 0, 1, ok=1))
    bench.done("0")
    assert bench.collector.verdict is None
    bench.done("1")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.sentence, verdict.document.status) == (0, None, "finished")
    assert bench.sinks[0].document is verdict.document
    assert verdict.document.counts == {"scheduled": 3, "ok": 3, "in_flight": 0}
    assert bench.sinks[0].intervals == [(0, 3)]


def test_a_run_in_which_nothing_ended_well_is_no_good_run(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.report("0", taken("0", 0, 5, overloaded=4, timeout=1))
    bench.done("0")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.sentence) == (3, "none of 5 requests ended well: mostly overloaded")
    assert verdict.document.validity.valid
    assert verdict.document.reason == verdict.sentence


def test_a_run_that_people_stopped_is_no_good_run_either_where_nothing_ended_well(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.collector.stop("stopped in the web UI", asked=True)
    bench.collector.stop("stopped in the web UI", asked=True)
    assert len(bench.told(messages.Halt)) == 1
    bench.report("0", taken("0", 0, 5, overloaded=5))
    bench.done("0")
    assert (bench.collector.verdict.code, bench.collector.verdict.sentence) == (
        3,
        "none of 5 requests ended well: mostly overloaded",
    )


def test_counts_that_do_not_add_up_make_it_invalid(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.report("0", taken("0", 0, 3, ok=2))
    bench.done("0")
    assert bench.collector.verdict.code == 3
    assert bench.collector.verdict.document.validity.reasons == ["the counts do not add up: 3 scheduled, 2 ended, 0 in flight"]


def test_a_lost_workers_requests_are_lost_and_the_others_go_on(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", taken("0", 0, 4, ok=1))
    bench.collector.gone("0", "killed by SIGKILL")
    assert bench.collector.verdict is None
    bench.report("1", taken("1", 0, 2, ok=2))
    bench.done("1")
    verdict = bench.collector.verdict
    assert verdict.code == 3
    assert verdict.document.counts == {"scheduled": 6, "ok": 3, "lost": 3, "in_flight": 0}
    assert verdict.sentence == "worker 0 was lost: killed by SIGKILL"
    assert verdict.document.status == "finished"
    assert bench.sinks[0].lost == 3


def test_a_run_that_lost_its_last_worker_has_failed(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", taken("0", 0, 4, ok=4))
    bench.collector.gone("0", "killed by SIGKILL")
    bench.collector.gone("1", "killed by SIGKILL")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.document.status) == (3, "failed")


def test_the_first_interrupt_drains_and_the_second_cuts(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.collector.interrupt()
    bench.collector.interrupt()
    assert [m.drain_ns for _, m in bench.told(messages.Halt)] == [INTERRUPT_DRAIN_NS, 0]
    bench.report("0", taken("0", 0, 1, cancelled=1))
    bench.done("0")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.document.status, verdict.document.reason) == (130, "interrupted", "by Ctrl-C or a signal")
    assert verdict.sentence == "interrupted by Ctrl-C or a signal"


def test_what_comes_once_the_run_is_over_changes_and_says_nothing(tmp_path):
    """As a Ctrl-C while a sink waits for its server does, of which the collector hears afterwards."""
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.report("0", taken("0", 0, 1, ok=1))
    bench.done("0")
    verdict, notes = bench.collector.verdict, list(bench.view.notes)
    bench.collector.interrupt()
    bench.collector.stop("the simulated endpoint has ended")
    assert (bench.collector.verdict, bench.view.notes, bench.told(messages.Halt)) == (verdict, notes, [])


def test_an_interrupt_before_the_run_ends_it_at_once(tmp_path):
    bench = Bench(tmp_path)
    bench.collector.interrupt()
    assert (bench.collector.verdict.code, bench.collector.verdict.document) == (130, None)


@pytest.mark.parametrize(
    ("message", "code", "status"),
    [
        pytest.param(messages.Stopping("limit reached"), 3, "finished", id="limit"),
        pytest.param(messages.Stopping("disk full", failed=True), 3, "failed", id="disk full"),
    ],
)
def test_a_worker_that_stops_ends_the_run_for_all(tmp_path, message, code, status):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.collector.receive("0", message)
    assert [w for w, _ in bench.told(messages.Halt)] == ["0", "1"]
    bench.done("0", "1")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.document.status, verdict.sentence) == (code, status, f"worker 0: {message.reason}")


def suspecting(tmp_path, monkeypatch, *workers):
    """A run 1.5 s after its t0."""
    monkeypatch.setattr(clock, "wall_ns", lambda: 0)
    bench = Bench(tmp_path, workers)
    bench.ready(*workers)
    monkeypatch.setattr(clock, "wall_ns", lambda: bench.told(messages.Go)[0][1].t0_wall_ns + 3 * S // 2)
    return bench


def suspects(worker):
    return worker, messages.Stopping("HTTP 404", wrong_target=True)


def test_a_wrong_target_is_certain_at_once_where_there_is_one_worker(tmp_path, monkeypatch):
    bench = suspecting(tmp_path, monkeypatch, "0")
    bench.collector.receive(*suspects("0"))
    assert [m.drain_ns for _, m in bench.told(messages.Halt)] == [None]
    bench.report("0", taken("0", 0, 1, client_error=1))
    bench.done("0")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.document.status, verdict.sentence) == (2, "finished", "HTTP 404")


TARGETS = [
    # What worker 1 tells in which interval after worker 0 has suspected in interval 1; whether the run is stopped after each.
    pytest.param([(0, {"ok": 1})], [False], 0, id="succeeded before"),
    pytest.param([(0, {}), (1, {"truncated": 1})], [False, False], 0, id="succeeded in the same interval"),
    pytest.param([(0, {}), (1, {"client_error": 1})], [False, True], 2, id="nothing succeeded until then"),
    pytest.param([(0, {}), None], [False, True], 2, id="suspects too"),
    pytest.param([(1, {}), (2, {"ok": 1})], [True, True], 2, id="succeeded later"),
]


@pytest.mark.parametrize(("tells", "stopped", "code"), TARGETS)
def test_a_wrong_target_is_one_where_nothing_had_succeeded_on_any_worker(tmp_path, monkeypatch, tells, stopped, code):
    bench = suspecting(tmp_path, monkeypatch, "0", "1")
    bench.collector.receive(*suspects("0"))
    was = []
    for told in tells:
        if told is None:
            bench.collector.receive(*suspects("1"))
        else:
            k, outcomes = told
            bench.report("1", taken("1", k, sum(outcomes.values()), **outcomes))
        bench.collector.tick()
        was.append(bool(bench.told(messages.Halt)))
    assert was == stopped
    bench.done("0", "1")
    assert bench.collector.verdict.code == code
    assert (bench.collector.verdict.sentence == "worker 0: HTTP 404") is (code == 2)


def test_a_wrong_target_is_also_told_where_the_others_end_first(tmp_path, monkeypatch):
    bench = suspecting(tmp_path, monkeypatch, "0", "1")
    bench.collector.receive(*suspects("0"))
    bench.report("0", taken("0", 0, 1, client_error=1))
    bench.done("1", "0")
    assert (bench.collector.verdict.code, bench.collector.verdict.sentence) == (2, "worker 0: HTTP 404")


def test_a_worker_that_refuses_after_the_run_has_begun_ends_it_in_order(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.collector.receive("0", messages.Refused("snapshots.0 cannot be opened"))
    bench.collector.gone("0", "its process ended with exit code 0")
    assert [w for w, _ in bench.told(messages.Halt)] == ["1"]
    bench.report("1", taken("1", 0, 2, ok=2))
    bench.done("1")
    verdict = bench.collector.verdict
    assert (verdict.code, verdict.document.status) == (3, "failed")
    assert verdict.sentence == "worker 0 was lost: snapshots.0 cannot be opened"
    assert bench.sinks[0].document is verdict.document


def test_the_only_worker_that_refuses_after_the_run_has_begun_leaves_no_archive_open(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.collector.receive("0", messages.Refused("snapshots.0 cannot be opened"))
    assert (bench.collector.verdict.code, bench.sinks[0].document.status) == (3, "failed")


def test_files_of_a_lost_worker_that_cannot_be_read_do_not_keep_the_run_from_its_end(tmp_path):
    (tmp_path / "snapshots.0").mkdir()
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.collector.gone("0", "killed by SIGKILL")
    assert bench.sinks[0].document.status == "failed"
    assert bench.sinks[0].notes[-1] == f"{tmp_path / 'snapshots.0'} cannot be read: Is a directory"


def test_the_sinks_get_every_interval_however_much_of_the_run_is_merged_at_once(tmp_path):
    """As after the collector was stopped: the summary has let the first intervals go by the time that they are written."""
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("0", *(taken("0", k, 1, ok=1) for k in range(200)))
    bench.report("1", *(taken("1", k, 10, ok=10) for k in range(200)))
    bench.done("0", "1")
    assert bench.sinks[0].intervals == [(k, 11) for k in range(200)]


def test_the_sinks_get_what_a_lost_worker_had_only_on_its_disk_once(tmp_path):
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1")
    bench.report("1", *(taken("1", k, 10, ok=10) for k in range(10)))
    with SnapshotsJournal(tmp_path, "0") as journal:
        for k in range(200):
            journal.write(snapshot.encode(taken("0", k, 1, ok=1)))
    bench.collector.gone("0", "killed by SIGKILL")
    bench.report("1", *(taken("1", k, 10, ok=10) for k in range(10, 200)))
    bench.done("1")
    assert bench.sinks[0].intervals == [(k, 11) for k in range(200)]


def test_a_sink_that_cannot_write_ends_the_run_in_order(tmp_path):
    good, bad = Memory(), Memory(fails=True)
    bench = Bench(tmp_path, sinks=[bad, good])
    bench.ready("0")
    bench.report("0", taken("0", 0, 1, ok=1))
    bench.collector.tick()
    assert [m.drain_ns for _, m in bench.told(messages.Halt)] == [None]
    bench.report("0", taken("0", 1, 1, ok=1))
    bench.done("0")
    assert bench.collector.verdict.code == 3
    assert bench.collector.verdict.sentence == "the disk is full"
    assert good.intervals == [(0, 1), (1, 1)]
    assert bad.document.status == "failed"  # its end is still tried


COOLING = (
    STAGES[0],
    Stage(1, "cooldown", 10 * S, 610 * S, False, "constant 1/s"),
    Stage(2, "drain", 610 * S, None, False, "what is left"),
)


def cooling(tmp_path):
    """Two workers in the cooldown's first second; a judged request of worker 1 is in flight."""
    bench = Bench(tmp_path, ("0", "1"))
    bench.ready("0", "1", stages=COOLING)
    bench.report("0", taken("0", 9, 20, ok=20))
    bench.report("1", taken("1", 9, 20, ok=19))
    return bench


def test_a_cooldown_ends_when_nothing_judged_is_in_flight_on_any_worker(tmp_path):
    bench, halts = cooling(tmp_path), []
    for worker, k, outcomes in (("0", 10, {}), ("1", 10, {}), ("0", 11, {}), ("1", 11, {"ok": 1}), ("0", 12, {}), ("1", 12, {})):
        bench.report(worker, taken(worker, k, **outcomes))
        bench.collector.tick()
        halts.append([(w, m.drain_ns, m.waiting) for w, m in bench.told(messages.Halt)])
    assert halts == [[], [], [], *[[("0", None, True), ("1", None, True)]] * 3]
    assert not bench.collector.set_rate(5.0)
    bench.done("0", "1")
    assert (bench.collector.verdict.document.status, bench.collector.verdict.document.early) == ("finished", False)
    assert not bench.view.notes


def test_a_cooldown_is_not_ended_before_every_worker_has_told_of_it(tmp_path):
    bench = cooling(tmp_path)
    bench.report("1", taken("1", 10, ok=1), taken("1", 11), taken("1", 12))
    bench.collector.tick()
    assert not bench.told(messages.Halt)  # worker 0 may still have begun judged ones
    bench.report("0", msgspec.structs.replace(taken("0", 10), health=msgspec.structs.replace(HEALTH, delay_max_ns=S)))
    bench.collector.tick()
    assert not bench.told(messages.Halt)  # what it sent then was due in the interval before
    bench.report("0", taken("0", 11))
    bench.collector.tick()
    assert len(bench.told(messages.Halt)) == 2


def test_a_cooldown_that_was_ended_can_still_be_stopped(tmp_path):
    bench = cooling(tmp_path)
    bench.report("0", taken("0", 10))
    bench.report("1", taken("1", 10, ok=1))
    bench.collector.tick()
    bench.collector.interrupt()
    assert [(m.drain_ns, m.waiting) for _, m in bench.told(messages.Halt)] == [(None, True)] * 2 + [
        (INTERRUPT_DRAIN_NS, False)
    ] * 2


def test_without_a_cooldown_and_after_a_change_of_the_rate_nothing_is_ended(tmp_path):
    bench = Bench(tmp_path)
    bench.ready("0")
    bench.report("0", *(taken("0", k, 1, ok=1) for k in range(12)))
    bench.collector.tick()
    assert not bench.told(messages.Halt)
    bench = cooling(tmp_path)
    assert bench.collector.set_rate(5.0)
    bench.report("0", taken("0", 10))
    bench.report("1", taken("1", 10, ok=1))
    bench.collector.tick()
    assert not bench.told(messages.Halt)


def test_the_error_limit_holds_over_all_workers(tmp_path):
    bench = Bench(tmp_path, ("0", "1"), stop={"errors": 5})
    bench.ready("0", "1")
    bench.report("0", taken("0", 0, 9, server_error=2, timeout=1))
    bench.collector.tick()
    assert not bench.told(messages.Halt)
    bench.report("1", taken("1", 0, 9, server_error=2))
    bench.collector.tick()
    assert [w for w, _ in bench.told(messages.Halt)] == ["0", "1"]
    assert bench.view.notes == bench.sinks[0].notes == ["stopping: 5 requests have failed, and `stop.errors` is 5"]


@pytest.mark.parametrize(("failed", "stops"), [(3, False), (7, True)])
def test_the_error_rate_is_that_of_the_window(tmp_path, failed, stops):
    bench = Bench(tmp_path, stop={"error_rate": {"above": 0.2, "window": "2s"}})
    bench.ready("0")
    bench.report("0", taken("0", 0, 100, ok=100), taken("0", 1, 0), taken("0", 2, 30, ok=30 - failed, overloaded=failed))
    bench.collector.tick()
    assert bool(bench.told(messages.Halt)) is stops


# --- What was not planned, and what goes wrong twice ---


def test_an_early_end_names_the_worker_where_there_are_several(tmp_path):
    for workers, says in ((("0",), "no more"), (("0", "1"), "worker 1: no more")):
        bench = Bench(tmp_path, workers)
        bench.ready(*workers)
        bench.collector.receive(workers[-1], messages.Stopping("no more"))
        bench.done(*workers)
        assert bench.collector.verdict.sentence == says


class Full(Memory):
    """A sink whose disk is full at the end."""

    def close(self, document):
        raise ArchiveError("run.json cannot be written: no space left")


def test_a_document_that_could_not_be_written_is_said_beside_the_reason_of_the_end(tmp_path):
    bench = Bench(tmp_path, sinks=[Full()])
    bench.ready("0")
    bench.collector.receive("0", messages.Stopping("snapshots.0 cannot be written", failed=True))
    bench.done("0")
    assert bench.collector.verdict.code == 3
    assert bench.collector.verdict.sentence == "snapshots.0 cannot be written; run.json cannot be written: no space left"


def test_stages_say_what_has_become_of_them(tmp_path):
    bench = Bench(tmp_path)
    bench.collector.restate("too early", {0: "never"})
    bench.ready("0")
    bench.collector.restate("it changed", {0: "constant 2/s"})
    bench.collector.restate(None, {0: "constant 3/s"})
    bench.collector.stop("enough")
    bench.collector.restate("too late", {0: "never"})
    bench.done("0")
    rows = bench.sinks[0].document.stages
    assert [row.plan.says for row in rows] == ["constant 3/s", "what is left"]
    assert bench.sinks[0].notes == ["it changed", "stopping: enough"]
