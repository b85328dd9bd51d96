"""Say in which stage a moment lies, while some stages' boundaries become known only as the run goes."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from r1perf.histogram import IntArray
from r1perf.schedule import Stage
from r1perf.schedule.model import DRAIN


def drain_index(stages: Sequence[Stage]) -> int:
    """Return the index of the drain: that of the stage with its name, else the one behind all stages."""
    return next((stage.index for stage in stages if stage.name == DRAIN), len(stages))


class Timeline:
    """The boundaries of the stages, in monotonic ns.

    A moment belongs to the stage whose [start, end) holds it; before the first stage to the first, after the last to the
    drain. What follows a stage without a planned end is unknown until `begin`.
    """

    def __init__(self, stages: Sequence[Stage], t0_ns: int) -> None:
        self._t0_ns = t0_ns
        self._planned = [stage for stage in stages if stage.name != DRAIN]
        self.drain = drain_index(stages)
        self._starts: list[int] = []
        self._stages: list[int] = []
        self._told = 1  # boundaries that `ended` has told, the first start among them
        self._follow(0, t0_ns + self._planned[0].start_ns)

    def begin(self, stage: int, at_ns: int) -> None:
        """Note that a stage (or the drain) begins at `at_ns`; later boundaries are planned anew from there.

        Beginning the stage that runs anyway changes nothing.
        """
        kept = max(bisect_right(self._starts, at_ns), 1)
        if self._stages[kept - 1] == stage:
            return
        del self._starts[kept:], self._stages[kept:]
        self._told = min(self._told, kept)
        position = next((n for n, planned in enumerate(self._planned) if planned.index == stage), None)
        if position is None:
            self._starts.append(at_ns)
            self._stages.append(stage)
        else:
            self._follow(position, at_ns)

    def at(self, moment_ns: int) -> int:
        """Return the stage of a moment."""
        return self._stages[max(bisect_right(self._starts, moment_ns) - 1, 0)]

    def of(self, moments_ns: IntArray) -> IntArray:
        """Return the stage of each moment."""
        at = np.searchsorted(np.array(self._starts, dtype=np.int64), moments_ns, side="right") - 1
        return np.array(self._stages, dtype=np.int64)[np.maximum(at, 0)]

    def ended(self, before_ns: int) -> list[tuple[int, int]]:
        """Return the stages that ended before a moment, with the offset from t0, each once."""
        told = []
        while self._told < len(self._starts) and self._starts[self._told] < before_ns:
            told.append((self._stages[self._told - 1], self._starts[self._told] - self._t0_ns))
            self._told += 1
        return told

    def _follow(self, position: int, at_ns: int) -> None:
        """Append a planned stage and those behind it, as far as their ends are known."""
        for stage in self._planned[position:]:
            self._starts.append(at_ns)
            self._stages.append(stage.index)
            if stage.end_ns is None:
                return
            at_ns += stage.end_ns - stage.start_ns
        self._starts.append(at_ns)
        self._stages.append(self.drain)
