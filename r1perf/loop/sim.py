"""A loop on virtual time: time stands still while anything can run and then jumps to the next sleeper.

A plain clock whose sleep advances time is wrong for concurrent tasks (the first sleeper would move time for all); here
sleepers wake in the order of their times, and in the order in which they went to sleep where times are equal.
"""

import heapq
from collections import deque
from collections.abc import Callable
from itertools import count
from typing import Any, TypeVar

from greenlet import GreenletExit, getcurrent, greenlet

from r1perf.loop import READ, Cancelled

T = TypeVar("T")


class _Waiter:
    """One wait of one task: whoever comes first, what it waits for or its deadline, wakes it, and only once."""

    __slots__ = ("open", "task", "value")

    def __init__(self, task: greenlet) -> None:
        self.task = task
        self.open = True
        self.value = False


class _Task:
    """A greenlet on the simulated loop."""

    def __init__(self, loop: "SimLoop", run: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._loop = loop
        self._ended = SimEvent(loop)
        self._greenlet = greenlet(lambda: self._main(run, args), loop.hub)
        self._waiting: _Waiter | None = None

    def _main(self, run: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            run(*args)
        except (Cancelled, GreenletExit):
            pass
        except Exception as error:
            self._loop.failed(error)
        finally:
            self._ended.set()

    def cancel(self) -> None:
        if self.done:
            return
        self._loop.cancel(self._greenlet, self._ended)

    def join(self, until_ns: int | None = None) -> bool:
        return self._ended.wait(until_ns)

    @property
    def done(self) -> bool:
        return self._ended.is_set()


class SimEvent:
    """A flag on the simulated loop."""

    def __init__(self, loop: "SimLoop") -> None:
        self._loop = loop
        self._up = False
        self._waiters: list[_Waiter] = []

    def set(self) -> None:
        self._up = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            self._loop.wake(waiter, True)

    def clear(self) -> None:
        self._up = False

    def is_set(self) -> bool:
        return self._up

    def wait(self, until_ns: int | None = None) -> bool:
        if self._up:
            return True
        if until_ns is not None and until_ns <= self._loop.now_ns():
            return False
        waiter = self._loop.waiter(until_ns)
        self._waiters.append(waiter)
        try:
            return self._loop.park(waiter)
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)


class _SimWatch:
    """A watch that a test makes ready by `SimLoop.ready(fd)`."""

    def __init__(self, loop: "SimLoop", fd: int, callback: Callable[[], object]) -> None:
        self._loop, self.fd, self.callback = loop, fd, callback
        self.events = 0

    def start(self, events: int = READ) -> None:
        self.events = events
        self._loop.watches[self.fd] = self

    def fire(self) -> None:
        """Call back, unless it was stopped meanwhile."""
        if self.events:
            self.callback()

    def stop(self) -> None:
        self.events = 0

    def close(self) -> None:
        self.events = 0
        self._loop.watches.pop(self.fd, None)


class SimLoop:
    """A `Loop` on virtual time. `run(main)` drives it until `main` returns; an uncaught error of any task is raised there.

    Where no task can ever run again, `run` raises RuntimeError instead of hanging. `addresses` answers `resolve`.
    """

    def __init__(self, start_ns: int = 1_000_000_000_000) -> None:
        self.hub = greenlet(self._turn)
        self.watches: dict[int, _SimWatch] = {}
        self.addresses: dict[str, list[tuple[int, tuple[Any, ...]]]] = {}
        self.on_error: Callable[[BaseException], None] | None = None
        self._now = start_ns
        self._ready: deque[Callable[[], None]] = deque()
        self._sleepers: list[tuple[int, int, _Waiter]] = []
        self._order = count()
        self._current: dict[greenlet, _Waiter] = {}
        self._error: BaseException | None = None
        self._main: _Task | None = None

    def run(self, main: Callable[..., T], *args: Any) -> T:
        """Run `main` as a task until it returns, and return what it returned."""
        box: list[T] = []
        self._main = _Task(self, lambda: box.append(main(*args)), ())
        self._schedule_start(self._main)
        self.hub = greenlet(self._turn)
        self._main._greenlet.parent = self.hub
        self.hub.switch()
        error, self._error = self._error, None
        if error is not None:
            raise error
        if not box:
            raise RuntimeError("the simulated loop has nothing left to run, and its main task still waits")
        return box[0]

    def _turn(self) -> None:
        while self._main is not None and not self._main.done and self._error is None:
            if self._ready:
                self._ready.popleft()()
                continue
            while self._sleepers and not self._sleepers[0][2].open:
                heapq.heappop(self._sleepers)
            if not self._sleepers:
                return
            when, _, waiter = heapq.heappop(self._sleepers)
            self._now = max(self._now, when)
            self.wake(waiter, False)

    def failed(self, error: BaseException) -> None:
        """Take the uncaught error of a task."""
        if self.on_error is not None:
            self.on_error(error)
        elif self._error is None:
            self._error = error

    def waiter(self, until_ns: int | None) -> _Waiter:
        """Begin a wait of the current task, with a deadline or without."""
        waiter = _Waiter(getcurrent())
        if until_ns is not None:
            heapq.heappush(self._sleepers, (max(until_ns, self._now), next(self._order), waiter))
        return waiter

    def park(self, waiter: _Waiter) -> bool:
        """Leave the current task until its wait is over; return what woke it (True: the event, False: the deadline)."""
        task = getcurrent()
        if task is self.hub:
            raise RuntimeError("a callback of the loop must not block")
        self._current[task] = waiter
        try:
            self.hub.switch()
        finally:
            waiter.open = False
            self._current.pop(task, None)
        return waiter.value

    def wake(self, waiter: _Waiter, value: bool) -> None:
        """End a wait, once."""
        if waiter.open:
            waiter.open = False
            waiter.value = value
            self._ready.append(waiter.task.switch)

    def cancel(self, task: greenlet, ended: SimEvent) -> None:
        """Throw `Cancelled` into a task where it waits; a task that has not begun never begins."""
        waiter = self._current.get(task)
        if waiter is not None:
            waiter.open = False
            self._ready.append(lambda: None if task.dead else task.throw(Cancelled))
        elif not task:
            ended.set()

    def now_ns(self) -> int:
        return self._now

    def advance(self, by_ns: int) -> None:
        """Let virtual time pass as if the process had been busy: nothing else runs meanwhile."""
        self._now += by_ns

    def sleep_until(self, when_ns: int) -> None:
        self.park(self.waiter(when_ns))

    def spawn(self, run: Callable[..., object], *args: Any) -> _Task:
        task = _Task(self, run, args)
        self._schedule_start(task)
        return task

    def _schedule_start(self, task: _Task) -> None:
        def start() -> None:
            if not task.done:
                task._greenlet.parent = self.hub
                task._greenlet.switch()

        self._ready.append(start)

    def event(self) -> SimEvent:
        return SimEvent(self)

    def watch(self, fd: int, callback: Callable[[], object]) -> _SimWatch:
        return _SimWatch(self, fd, callback)

    def ready(self, fd: int) -> None:
        """Make a watched descriptor ready: its callback runs in the loop's next turn."""
        watch = self.watches.get(fd)
        if watch is not None and watch.events:
            self._ready.append(watch.fire)

    def resolve(self, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        if host not in self.addresses:
            raise OSError(f"{host} is not known to the simulated loop")
        return self.addresses[host]

    def offload(self, run: Callable[..., T], *args: Any) -> T:
        self.sleep_until(self._now)
        return run(*args)
