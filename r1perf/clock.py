"""The only reader of the machine's clocks; everything else is handed a clock or a loop."""

import time
from datetime import UTC, datetime

monotonic_ns = time.perf_counter_ns
"""Read the one monotonic clock that every time named `_ns` comes from."""

cpu_ns = time.process_time_ns
"""Read the CPU time, user and system, of this process."""


def wall_ns() -> int:
    """Read the wall clock, in nanoseconds since 1970 UTC."""
    return time.time_ns()


def wall_offset_ns() -> int:
    """Measure wall - monotonic once, with the reads bracketed so that a pause between them is halved.

    The best of five brackets is taken: a process that is suspended between two reads spoils only one.
    """
    best_width, best = None, 0
    for _ in range(5):
        before = monotonic_ns()
        wall = time.time_ns()
        after = monotonic_ns()
        if best_width is None or after - before < best_width:
            best_width, best = after - before, wall - (before + after) // 2
    return best


def utc(ns: int) -> datetime:
    """Turn wall nanoseconds into an aware UTC datetime."""
    return datetime.fromtimestamp(ns / 1e9, tz=UTC)


def sleep(seconds: float) -> None:
    """Block this thread: for processes without a loop (the collector's pauses, the command line)."""
    time.sleep(seconds)
