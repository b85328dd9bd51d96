"""Start every arrival on time, whatever the responses do."""

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from r1perf.loop import Event, Loop
from r1perf.schedule import Arrival

P = TypeVar("P")

AHEAD = 64
"""How many arrivals are rendered ahead: bursts of a Poisson schedule find theirs ready."""

SLACK_NS = 2_000_000
"""Nothing is rendered in the last 2 ms before an arrival, so that a long prompt does not make it late."""


class Gate:
    """Let at most `limit` requests be in flight; the others wait in the order in which they came, and are counted."""

    def __init__(self, loop: Loop, limit: int) -> None:
        self._loop = loop
        self._free = limit
        self._waiters: deque[Event] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """Count those who wait."""
        return len(self._waiters)

    def enter(self) -> bool:
        """Wait for a place; return False where the gate was closed first (the request is never sent)."""
        if self._closed:
            return False
        if self._free > 0 and not self._waiters:
            self._free -= 1
            return True
        turn = self._loop.event()
        self._waiters.append(turn)
        try:
            turn.wait()
        except BaseException:
            # Cancelled while waiting, or just after a place had been handed over: it must not be lost.
            if turn in self._waiters:
                self._waiters.remove(turn)
            elif not self._closed:
                self.leave()
            raise
        return not self._closed

    def leave(self) -> None:
        """Give a place back; it is handed to the one who has waited longest."""
        if self._waiters and not self._closed:
            self._waiters.popleft().set()
        else:
            self._free += 1

    def close(self) -> None:
        """Send everybody away who waits or comes."""
        self._closed = True
        while self._waiters:
            self._waiters.popleft().set()


def dispatch(
    loop: Loop,
    arrivals: Iterable[Arrival],
    t0_ns: int,
    prepare: Callable[[Arrival], P],
    start: Callable[[Arrival, int, P], None],
    stopped: Event,
) -> None:
    """Call `start(arrival, scheduled_ns, prepared)` at each arrival's time, in order, until they end or `stopped` is set.

    `start` must not wait (it spawns). An arrival whose time has passed is started at once: late, never skipped; after `AHEAD`
    late ones others have a turn. Rendering happens between arrivals, up to `AHEAD` of them in advance; one that could not be
    rendered in time is rendered late.
    """
    coming = iter(arrivals)
    ready: deque[tuple[Arrival, P]] = deque()
    exhausted, late = False, 0
    while True:
        if not ready and not exhausted:
            arrival = next(coming, None)
            if arrival is None:
                exhausted = True
            else:
                ready.append((arrival, prepare(arrival)))
        if not ready:
            return
        due_ns = t0_ns + ready[0][0].offset_ns
        while not exhausted and len(ready) < AHEAD and loop.now_ns() < due_ns - SLACK_NS and not stopped.is_set():
            arrival = next(coming, None)
            if arrival is None:
                exhausted = True
            else:
                ready.append((arrival, prepare(arrival)))
                # Rendering may take its time: let responses be read between two of them.
                loop.sleep_until(loop.now_ns())
        late = late + 1 if loop.now_ns() > due_ns else 0
        if late and late % AHEAD == 0:
            # A rate that no worker can start would else leave it deaf: no answer read, no signal, no end.
            loop.sleep_until(loop.now_ns())
        if stopped.wait(due_ns):
            return
        arrival, prepared = ready.popleft()
        start(arrival, due_ns, prepared)
