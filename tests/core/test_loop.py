"""Both loops keep the same contract; the simulated one keeps it on exact times."""

import os
import socket

import pytest

from r1perf.loop import READ, Cancelled
from r1perf.loop.gevent import GeventLoop
from r1perf.loop.sim import SimLoop

MS = 1_000_000


@pytest.fixture(params=["sim", "gevent"])
def loop(request):
    return SimLoop() if request.param == "sim" else GeventLoop()


def run(loop, main):
    """Run a task to its end on either loop."""
    if isinstance(loop, SimLoop):
        return loop.run(main)
    box = []
    task = loop.spawn(lambda: box.append(main()))
    assert task.join(loop.now_ns() + 10_000 * MS)
    return box[0]


def test_sleepers_wake_in_order_of_their_times(loop):
    def main():
        start, woken = loop.now_ns(), []

        def sleeper(name, ms):
            loop.sleep_until(start + ms * MS)
            woken.append(name)

        tasks = [loop.spawn(sleeper, name, ms) for name, ms in (("c", 30), ("a", 5), ("b", 15))]
        for task in tasks:
            assert task.join()
        return woken

    assert run(loop, main) == ["a", "b", "c"]


def test_a_sleep_never_ends_early(loop):
    def main():
        early = 0
        for ms in (1, 2, 3):
            due = loop.now_ns() + ms * MS
            loop.sleep_until(due)
            early += loop.now_ns() < due
        return early

    assert run(loop, main) == 0


def test_event_wakes_all_and_a_deadline_returns_false(loop):
    def main():
        event, woken = loop.event(), []
        for name in ("first", "second"):
            loop.spawn(lambda name=name: woken.append((name, event.wait())))
        assert event.wait(loop.now_ns() + 2 * MS) is False
        event.set()
        loop.sleep_until(loop.now_ns() + MS)
        assert event.wait() is True
        event.clear()
        assert not event.is_set()
        return woken

    assert run(loop, main) == [("first", True), ("second", True)]


@pytest.mark.parametrize("wait_ms", [None, 2000], ids=["without a deadline", "with a deadline"])
@pytest.mark.parametrize(
    ("calls", "woken", "up"),
    [
        pytest.param(["set"], [True], True, id="set"),
        pytest.param(["set", "clear"], [True], False, id="set and lowered again at once"),
        pytest.param(["clear", "set", "clear", "set"], [True], True, id="lowered, and set twice"),
        pytest.param(["cancel"], ["cancelled"], False, id="cancelled"),
        pytest.param(["set", "cancel"], [True, "cancelled"], True, id="set, then cancelled"),
        pytest.param(["cancel", "set"], ["cancelled"], True, id="cancelled, then set"),
    ],
)
def test_what_wakes_who_waits(loop, wait_ms, calls, woken, up):
    def main():
        event, never, seen, start = loop.event(), loop.event(), [], loop.now_ns()

        def waiter():
            try:
                seen.append(event.wait(None if wait_ms is None else start + wait_ms * MS))
                never.wait(start + wait_ms * MS if wait_ms else None)
            except Cancelled:
                seen.append("cancelled")
                raise

        task = loop.spawn(waiter)
        loop.sleep_until(loop.now_ns() + MS)
        for call in calls:
            (task.cancel if call == "cancel" else getattr(event, call))()
        loop.sleep_until(loop.now_ns() + MS)
        assert task.done == ("cancel" in calls)
        in_time = loop.now_ns() < start + 1000 * MS
        task.cancel()
        task.join()
        return seen[: len(woken)], event.is_set(), in_time

    assert run(loop, main) == (woken, up, True)


@pytest.mark.parametrize(
    ("waits", "others_ran"),
    [
        pytest.param(lambda loop, up, down, task: up.wait(), False, id="a flag that is up"),
        pytest.param(lambda loop, up, down, task: down.wait(loop.now_ns()), False, id="a flag, until now"),
        pytest.param(lambda loop, up, down, task: down.wait(loop.now_ns() - MS), False, id="a flag, until a time that has passed"),
        pytest.param(lambda loop, up, down, task: task.join(loop.now_ns()), False, id="a task, until now"),
        pytest.param(lambda loop, up, down, task: loop.sleep_until(loop.now_ns() - MS), True, id="a sleep until a time that has passed"),
    ],
)  # fmt: skip
def test_whether_others_have_a_turn_where_nothing_is_to_be_waited_for(loop, waits, others_ran):
    def main():
        up, down, ran = loop.event(), loop.event(), []
        up.set()
        endless = loop.spawn(down.wait)
        loop.sleep_until(loop.now_ns())
        other = loop.spawn(ran.append, 1)
        waits(loop, up, down, endless)
        had_a_turn = bool(ran)
        down.set()
        other.join()
        endless.join()
        return had_a_turn

    assert run(loop, main) == others_ran


def test_cancel_throws_where_the_task_waits(loop):
    def main():
        seen = []

        def victim():
            try:
                loop.event().wait()
            except Cancelled:
                seen.append("cancelled")
                raise

        task = loop.spawn(victim)
        loop.sleep_until(loop.now_ns() + MS)
        task.cancel()
        assert task.join(loop.now_ns() + 1000 * MS)
        task.cancel()
        assert task.done
        return seen

    assert run(loop, main) == ["cancelled"]


def test_a_task_cancelled_before_it_began_never_begins(loop, capfd):
    def main():
        ran = []
        task = loop.spawn(ran.append, 1)
        task.cancel()
        assert task.join(loop.now_ns() + 1000 * MS)
        assert task.done
        return ran

    assert run(loop, main) == []
    assert capfd.readouterr() == ("", "")


def test_an_uncaught_error_goes_to_on_error(loop):
    seen = []
    loop.on_error = seen.append

    def main():
        def fail():
            raise ValueError("broken task")

        assert loop.spawn(fail).join()

    run(loop, main)
    assert [str(error) for error in seen] == ["broken task"]


def test_offload_returns_and_raises(loop):
    def main():
        assert loop.offload(max, 1, 2) == 2
        with pytest.raises(ZeroDivisionError):
            loop.offload(lambda: 1 // 0)

    run(loop, main)


def test_offload_lets_other_tasks_run():
    loop = GeventLoop()

    def main():
        reader, writer = os.pipe()
        try:
            # The thread blocks on the pipe until another task of this loop has written to it.
            loop.spawn(os.write, writer, b"x")
            return loop.offload(os.read, reader, 1)
        finally:
            os.close(reader)
            os.close(writer)

    assert run(loop, main) == b"x"


def test_watch_calls_back_while_readable():
    loop = GeventLoop()

    def main():
        left, right = socket.socketpair()
        right.setblocking(False)
        got, enough = [], loop.event()

        def readable():
            got.append(right.recv(1))
            if len(got) == 2:
                enough.set()

        watch = loop.watch(right.fileno(), readable)
        watch.start(READ)
        left.send(b"ab")
        assert enough.wait(loop.now_ns() + 2000 * MS)
        watch.stop()
        left.send(b"c")
        loop.sleep_until(loop.now_ns() + 5 * MS)
        watch.close()
        left.close()
        right.close()
        return got

    assert run(loop, main) == [b"a", b"b"]


def test_resolve_gives_loopback():
    assert (socket.AF_INET, ("127.0.0.1", 80)) in GeventLoop().resolve("127.0.0.1", 80)


def test_virtual_time_jumps_exactly_and_ten_hours_cost_nothing():
    loop = SimLoop(start_ns=0)

    def main():
        for hour in range(1, 11):
            loop.sleep_until(hour * 3_600_000_000_000)
        return loop.now_ns()

    assert loop.run(main) == 36_000_000_000_000


def test_equal_times_wake_in_the_order_of_their_sleep():
    loop, woken = SimLoop(), []

    def main():
        tasks = [loop.spawn(lambda n=n: (loop.sleep_until(loop.now_ns() + MS), woken.append(n))) for n in range(5)]
        for task in tasks:
            task.join()

    loop.run(main)
    assert woken == [0, 1, 2, 3, 4]


def test_a_task_that_can_never_wake_is_an_error_not_a_hang():
    loop = SimLoop()
    with pytest.raises(RuntimeError, match="nothing left to run"):
        loop.run(lambda: loop.event().wait())


def test_an_uncaught_error_ends_the_simulation():
    loop = SimLoop()

    def main():
        loop.spawn(lambda: 1 // 0)
        loop.sleep_until(loop.now_ns() + MS)

    with pytest.raises(ZeroDivisionError):
        loop.run(main)


def test_a_callback_must_not_block():
    loop = SimLoop()
    loop.watch(7, lambda: loop.sleep_until(loop.now_ns() + MS)).start()

    def main():
        loop.ready(7)
        loop.sleep_until(loop.now_ns() + MS)

    with pytest.raises(RuntimeError, match="must not block"):
        loop.run(main)
