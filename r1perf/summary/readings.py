"""Keep what a worker read of itself in every interval: a run of days with many workers has millions of these, at 12 bytes each."""

from array import array
from collections.abc import Iterable, Iterator

import msgspec

from r1perf.health import STALL_NS
from r1perf.snapshot import Health

_MOST_US = 2**32 - 1  # 71 minutes


class Read(msgspec.Struct, frozen=True):
    """One interval of one worker."""

    wall_us: int  # its length; never 0
    cpu_us: int
    stalled_us: int  # how long the loop stood still, in stalls over `STALL_NS`


class Readings:
    """One worker's readings by interval; each interval counts once, in any order."""

    def __init__(self) -> None:
        self._merged = 0  # bit k: interval k is here
        self._us = array("I")  # 3k: wall, 3k + 1: CPU, 3k + 2: stalled

    def add(self, k: int, health: Health) -> bool:
        """Add the reading of interval `k`; return False, and change nothing, where it was added before."""
        if self._merged & 1 << k:
            return False
        self._merged |= 1 << k
        self._us.extend([0] * (3 * (k + 1) - len(self._us)))
        for at, ns in enumerate((health.wall_ns, health.cpu_ns, _stalled_ns(health)), 3 * k):
            self._us[at] = min(ns // 1000, _MOST_US)
        return True

    @property
    def missing(self) -> int:
        """How many intervals before the last one were never added."""
        return self._merged.bit_length() - self._merged.bit_count()

    def of(self, ks: Iterable[int]) -> Iterator[Read]:
        """Go through the readings of these intervals, those that are here and lasted."""
        for at in (3 * k for k in ks):
            if at < len(self._us) and self._us[at]:
                yield Read(*self._us[at : at + 3])


def _stalled_ns(health: Health) -> int:
    """Return how long a loop stood still in an interval; of an archive that does not tell only its longest stall is known."""
    if health.stalled_ns is not None:
        return health.stalled_ns
    return health.loop_lag_max_ns if health.loop_lag_max_ns > STALL_NS else 0
