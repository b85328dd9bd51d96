"""Say in which stage a moment lies, while some stages' boundaries become known only as the run goes."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from r1perf.histogram import IntArray
from r1perf.schedule import Stage, drain_index
from r1perf.schedule.model import DRAIN


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
        self._passed: dict[int, int] = {}  # stages that will not begin any more, and when that was settled
        self._passed_told: set[int] = set()  # those that `ended` has told
        self._follow(0, t0_ns + self._planned[0].start_ns)

    def begin(self, stage: int, at_ns: int) -> None:
        """Note that a stage (or the drain) begins at `at_ns`; later boundaries are planned anew from there.

        Beginning the stage that runs anyway changes nothing. Where it is none of the planned ones, those that have not begun
        are passed over.
        """
        at_ns = max(at_ns, self._starts[0])
        kept = max(bisect_right(self._starts, at_ns), 1)
        if self._stages[kept - 1] == stage:
            return
        known = [planned.index for planned in self._planned] + self._stages[kept:]
        del self._starts[kept:], self._stages[kept:]
        self._told = min(self._told, kept)
        position = next((n for n, planned in enumerate(self._planned) if planned.index == stage), None)
        if position is None:
            self._passed |= {index: at_ns for index in known if index not in {*self._stages, *self._passed, stage, self.drain}}
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
        """Return the stages that ended before a moment, with the offset from t0, each once; those passed over end at once."""
        told = []
        while self._told < len(self._starts) and self._starts[self._told] < before_ns:
            told.append((self._stages[self._told - 1], self._starts[self._told] - self._t0_ns))
            self._told += 1
        passed = [stage for stage, at_ns in self._passed.items() if at_ns < before_ns and stage not in self._passed_told]
        self._passed_told.update(passed)
        return told + [(stage, self._passed[stage] - self._t0_ns) for stage in passed]

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
