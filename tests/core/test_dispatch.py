"""The dispatcher is on time on virtual time, never waits for responses, and never skips."""

import pytest

from r1perf.dispatch import AHEAD, Gate, dispatch
from r1perf.loop import Cancelled
from r1perf.loop.gevent import GeventLoop
from r1perf.loop.sim import SimLoop
from r1perf.schedule import Arrival

MS = 1_000_000


def arrivals(*offsets_ms):
    return [Arrival(index=i, offset_ns=int(ms * MS), stage=0, workload="w", item=i) for i, ms in enumerate(offsets_ms)]


def drive(planned, *, prepare_ms=0.0, service_ms=60_000, stop_after=None):
    """Dispatch on virtual time; return (index, scheduled offset ms, start offset ms) of each start."""
    loop, started = SimLoop(start_ns=0), []
    stopped = loop.event()

    def prepare(arrival):
        loop.advance(int(prepare_ms * MS))
        return f"item {arrival.item}"

    def start(arrival, scheduled_ns, prepared):
        assert prepared == f"item {arrival.item}"
        started.append((arrival.index, scheduled_ns / MS, loop.now_ns() / MS))
        if len(started) == stop_after:
            stopped.set()
        loop.spawn(lambda: loop.sleep_until(loop.now_ns() + service_ms * MS))

    loop.run(dispatch, loop, planned, 0, prepare, start, stopped)
    return started


def test_each_arrival_starts_at_its_time_while_no_response_ever_comes():
    assert drive(arrivals(0, 10, 10, 25.5)) == [(0, 0, 0), (1, 10, 10), (2, 10, 10), (3, 25.5, 25.5)]


def test_rendering_ahead_makes_a_burst_start_on_time():
    burst = drive(arrivals(0, *[100] * 20), prepare_ms=3)
    assert [start for _, _, start in burst[1:]] == [100.0] * 20


def test_what_could_not_be_rendered_in_time_starts_late_and_is_not_skipped():
    # The first finds nothing rendered: 3 ms late. The second is rendered after it.
    assert drive(arrivals(0, 1, 50), prepare_ms=3) == [(0, 0, 3), (1, 1, 6), (2, 50, 50)]


def test_rendering_stops_at_the_look_ahead():
    rendered, loop = [], SimLoop(start_ns=0)
    planned = arrivals(1000, *range(2000, 2000 + 2 * AHEAD))

    def main():
        loop.spawn(
            dispatch, loop, planned, 0, lambda a: rendered.append(a.index), lambda *_: None, loop.event(),
        )  # fmt: skip
        loop.sleep_until(500 * MS)
        return len(rendered)

    assert loop.run(main) == AHEAD


def test_arrivals_that_come_faster_than_they_can_be_started_leave_the_loop_its_turns():
    loop, started = GeventLoop(), []  # the real one, which a wait whose time has passed does not leave
    stopped = loop.event()
    late = (Arrival(index=i, offset_ns=i, stage=0, workload="w", item=i) for i in range(10_000))
    loop.spawn(stopped.set)
    dispatch(loop, late, 0, lambda arrival: None, lambda arrival, *_: started.append(arrival.index), stopped)
    assert started == list(range(AHEAD - 1))


def test_stopped_ends_at_once():
    assert [index for index, _, _ in drive(arrivals(0, 5, 10, 15), stop_after=2)] == [0, 1]


def test_gate_hands_places_over_in_order():
    loop = SimLoop(start_ns=0)

    def main():
        gate, log = Gate(loop, 2), []

        def user(name, ms):
            assert gate.enter()
            log.append((name, loop.now_ns() // MS))
            loop.sleep_until(loop.now_ns() + ms * MS)
            gate.leave()

        tasks = [loop.spawn(user, name, ms) for name, ms in (("a", 10), ("b", 30), ("c", 10), ("d", 10))]
        loop.sleep_until(1)
        waiting = gate.waiting
        for task in tasks:
            task.join()
        return waiting, gate.waiting, log

    assert loop.run(main) == (2, 0, [("a", 0), ("b", 0), ("c", 10), ("d", 20)])


@pytest.mark.parametrize("cancel_at", ["while waiting", "just handed over"])
def test_gate_loses_no_place_when_a_waiter_is_cancelled(cancel_at):
    loop = SimLoop(start_ns=0)

    def main():
        gate, entered = Gate(loop, 1), []
        assert gate.enter()

        def user(name):
            try:
                gate.enter()
            except Cancelled:
                return
            try:
                loop.sleep_until(loop.now_ns() + 1)
                entered.append(name)
            except Cancelled:
                return
            finally:
                gate.leave()

        victim, other = loop.spawn(user, "victim"), loop.spawn(user, "other")
        loop.sleep_until(1)
        if cancel_at == "while waiting":
            victim.cancel()
            loop.sleep_until(2)
            gate.leave()
        else:
            gate.leave()
            victim.cancel()
        loop.sleep_until(10)
        assert other.done
        return entered

    assert loop.run(main) == ["other"]


def test_gate_sends_all_away_when_closed():
    loop = SimLoop(start_ns=0)

    def main():
        gate, seen = Gate(loop, 1), []
        assert gate.enter()
        loop.spawn(lambda: seen.append(gate.enter()))
        loop.sleep_until(1)
        gate.close()
        loop.sleep_until(2)
        return seen, gate.enter()

    assert loop.run(main) == ([False], False)
