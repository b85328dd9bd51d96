"""A plan in the making: the stages laid out so far, the sessions and arrivals in them, and how arrivals are drawn."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from r1perf.arrivals import AnyStage, Closed, Open, Stream
from r1perf.errors import ScenarioError
from r1perf.schedule.closed import Span
from r1perf.schedule.model import Stage
from r1perf.schedule.planned import Mix
from r1perf.units import Rate

MOST = 20_000_000
"""More planned arrivals than this are refused: the arrays of a plan are held in memory."""

MOST_S = 365 * 86_400
"""An arrival later than this is refused: no run is so long, and ns of much later ones do not fit into 64 bits."""

WINDOW, BEFORE, AFTER = 0, 1, 2
"""The sections of a plan (after: cooldown), in the order in which they take items."""

Ints = NDArray[np.int64]


class Share(msgspec.Struct, frozen=True):
    """A workload as the schedule sees it: by weight, or with arrivals of its own; `turns` a conversation on average."""

    weight: float | None = None
    arrivals: AnyStage | None = None
    turns: float = 1.0


class Drawn(msgspec.Struct, frozen=True):
    """Arrivals that were drawn together; `stage` is None where each belongs to the stage of its own time."""

    times_ns: Ints
    workload_of: Ints
    section: int
    stage: int | None


class Draft:
    """What is planned so far; `end_ns` is when the window ends, None where only closed-loop requests end it.

    `loose`: requests ended the window, so later turns of its conversations may still come after its last arrival.
    """

    def __init__(self, shares: Mapping[str, Share], seed: int) -> None:
        self.shares, self.names, self.seed = shares, tuple(shares), seed
        weights = {name: share.weight for name, share in shares.items() if share.weight}
        self.mix = Mix(tuple(weights), tuple(weights.values()))
        self._places = np.array([self.names.index(name) for name in weights], dtype=np.int64)
        self.turns = sum(w * shares[name].turns for name, w in weights.items()) / sum(weights.values()) if weights else 1.0
        self.stages: list[Stage] = []
        self.spans: list[Span] = []
        self.drawn: list[Drawn] = []
        self.end_ns: int | None = None
        self.loose = False

    def stage(self, name: str, start_ns: int, end_ns: int | None, judged: bool, says: str, follows: int | None = None) -> Stage:
        """Lay the next stage down."""
        made = Stage(len(self.stages), name, start_ns, end_ns, judged, says, follows)
        self.stages.append(made)
        return made

    def end(self, end_ns: int, *, loose: bool) -> None:
        """End the window; a stage that would begin after that is none."""
        self.end_ns, self.loose = end_ns, loose
        self.stages = [
            msgspec.structs.replace(stage, end_ns=min(stage.end_ns or end_ns, end_ns))
            for stage in self.stages
            if stage.start_ns < end_ns
        ]
        within = [span for span in self.spans if span.stage.index < len(self.stages)]
        self.spans = [msgspec.structs.replace(span, stage=self.stages[span.stage.index]) for span in within]

    def steady(self, name: str, process: AnyStage, start_ns: int, length_ns: int, *, over: bool = False) -> None:
        """Lay warmup or cooldown down: sessions as they are, or arrivals at the process's starting or ending rate; none where it is `over`."""
        first = start_ns == 0
        if isinstance(process, Closed):
            stage = self.stage(name, start_ns, start_ns + length_ns, False, process.says())
            self.spans.append(Span(stage, process, None))
            return
        law = process.at_rate(Rate(0) if over else process.rates()[0 if first else 1])
        stage = self.stage(name, start_ns, start_ns + length_ns, False, law.says())
        times_ns = self.times(law, Stream(self.seed, "times", name), start_ns, length_ns, None, self.turns)
        self.add(times_ns, self.choose(name, len(times_ns)), BEFORE if first else AFTER, stage.index)

    def add(self, times_ns: Ints, workload_of: Ints, section: int, stage: int | None) -> None:
        """Take arrivals in."""
        self.drawn.append(Drawn(times_ns, workload_of, section, stage))

    def keep(self, section: int, kept: NDArray[np.bool_]) -> None:
        """Drop arrivals of a section: `kept` has a flag for each, in the order in which they were taken in."""
        at = 0
        for place, part in enumerate(self.drawn):
            if part.section == section:
                mine = kept[at : at + len(part.times_ns)]
                self.drawn[place] = msgspec.structs.replace(
                    part, times_ns=part.times_ns[mine], workload_of=part.workload_of[mine]
                )
                at += len(mine)

    def times(
        self,
        process: Open,
        stream: Stream,
        start_ns: int,
        length_ns: int | None,
        count: int | None,
        turns: float,
        path: str = "arrivals",
    ) -> Ints:
        """Draw a process's times, in whole ns from t0; raises ScenarioError where they would be too many to hold, or too late."""
        until = math.inf if length_ns is None else length_ns / 1e9
        expected = min(count or math.inf, max(process.rates()) * until)
        if expected > MOST:
            raise ScenarioError(path, f"{process.says()} makes about {expected:,.0f} arrivals; at most {MOST:,} fit in a plan")
        times = process.times(stream, until=until, count=count, turns=turns)
        if len(times) and (last_s := start_ns / 1e9 + float(times[-1])) > MOST_S:
            raise ScenarioError(
                path,
                f"{process.says()} has the last of {len(times):,} arrivals {last_s / 86_400:,.0f} days after the start; "
                f"allowed: {MOST_S // 86_400} days",
            )
        times_ns = (times * 1e9).astype(np.int64)
        return start_ns + (times_ns if length_ns is None else np.minimum(times_ns, length_ns - 1))

    def choose(self, stage: str, count: int) -> Ints:
        """Draw the workloads of a stage's arrivals by weight, as positions in `names`."""
        if not len(self._places):
            raise ScenarioError("arrivals", "no workload has a weight, so nothing would use these arrivals")
        return self._places[self.mix.choose(Stream(self.seed, "workloads", stage).generator(), count)]
