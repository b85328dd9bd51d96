"""Move an engine along the real clock, step by step, on its own exact timetable."""

import asyncio

from r1perf.simulator.engine import BatchEngine, Engine, Stream
from r1perf.simulator.profiles import Batched, Timetable
from r1perf.simulator.stats import Stats
from r1perf.simulator.timer import Timer, monotonic_ns
from r1perf.simulator.timetable import TimetableEngine

SLICE_NS = 4_000_000
"""How long steps that are late are made up for before the loop may look at its sockets again."""


class Driver:
    """End each step when it is due, hand its emissions to the answers (`stream.tag.emit`), and count how late it was.

    The engine's timetable never moves because a step was late; a late step is followed by a shorter wait.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine, stats: Stats) -> None:
        self.engine = engine
        self._stats = stats
        self._timer = Timer(loop, self._run)
        self._armed_ns: int | None = None
        self._running = False

    def submit(self, stream: Stream, now_ns: int) -> None:
        """Put a stream into the engine at a time before which every step has been ended."""
        self._end_steps(now_ns, None)
        self.engine.submit(stream, now_ns)
        self._arm()

    def abort(self, stream: Stream) -> None:
        """Take a stream out of the engine."""
        self.engine.abort(stream)

    def close(self) -> None:
        """Stop for good."""
        self._timer.close()

    def _run(self) -> None:
        now_ns = monotonic_ns()
        self._armed_ns = None
        self._end_steps(now_ns, now_ns + SLICE_NS)
        self._arm()

    def _end_steps(self, until_ns: int, stop_ns: int | None) -> None:
        """End every step that was due by `until_ns`, but begin none after `stop_ns` on the clock."""
        if self._running:  # an answer that ended its request let the next one of its connection in
            return
        self._running = True
        try:
            engine, stats = self.engine, self._stats
            while (due_ns := engine.due_ns) is not None and due_ns <= until_ns:
                emissions = engine.step()
                stats.step_late(monotonic_ns() - due_ns)
                for stream, count in emissions:
                    stream.tag.emit(count)
                if stop_ns is not None and monotonic_ns() > stop_ns:
                    return
        finally:
            self._running = False

    def _arm(self) -> None:
        due_ns = self.engine.due_ns
        if due_ns is None or due_ns == self._armed_ns or self._running:
            return
        if due_ns <= monotonic_ns():
            self._timer.soon()
        else:
            self._armed_ns = due_ns
            self._timer.at(due_ns)


def engine_for(profile: Batched | Timetable, seed: int = 0) -> Engine:
    """Make the engine that a profile describes."""
    return TimetableEngine(profile) if isinstance(profile, Timetable) else BatchEngine(profile, seed)
