"""How the generator itself fares: CPU, memory, and how late its loop is."""

import os

import msgspec

from r1perf import clock
from r1perf.loop import Loop

PROBE_NS = 20_000_000
"""How often the loop's lateness is probed; a stall of more than this is always seen."""


STALL_NS = 10_000_000
"""A loop that is later for a timer than this stood still."""


class Reading(msgspec.Struct, frozen=True):
    """One interval's readings."""

    cpu_ns: int
    wall_ns: int
    loop_lag_max_ns: int
    stalled_ns: int  # the sum of all lags over STALL_NS
    rss_bytes: int
    clock_step_ns: int  # how far the wall clock has moved against the monotonic one since the start


class Health:
    """Probe the loop all the time; `read()` tells what was since the last reading."""

    def __init__(self, loop: Loop, wall_offset_ns: int) -> None:
        self._loop = loop
        self._offset_ns = wall_offset_ns
        self._cpu_ns = clock.cpu_ns()
        self._at_ns = loop.now_ns()
        self._lag_max_ns = self._stalled_ns = 0
        self._task = loop.spawn(self._probe)

    def read(self) -> Reading:
        """Return the readings since the last call."""
        cpu_ns, now_ns = clock.cpu_ns(), self._loop.now_ns()
        reading = Reading(
            cpu_ns=cpu_ns - self._cpu_ns,
            wall_ns=now_ns - self._at_ns,
            loop_lag_max_ns=self._lag_max_ns,
            stalled_ns=self._stalled_ns,
            rss_bytes=rss_bytes(),
            clock_step_ns=clock.wall_offset_ns() - self._offset_ns,
        )
        self._cpu_ns, self._at_ns, self._lag_max_ns, self._stalled_ns = cpu_ns, now_ns, 0, 0
        return reading

    def close(self) -> None:
        """Stop probing."""
        self._task.cancel()

    def _probe(self) -> None:
        while True:
            due_ns = self._loop.now_ns() + PROBE_NS
            self._loop.sleep_until(due_ns)
            lag_ns = self._loop.now_ns() - due_ns
            self._lag_max_ns = max(self._lag_max_ns, lag_ns)
            if lag_ns > STALL_NS:
                self._stalled_ns += lag_ns


def rss_bytes() -> int:
    """Return the resident memory of this process; 0 where /proc does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
