"""Arrivals at the times of recorded traffic."""

from pathlib import Path

import msgspec
import numpy as np

from r1perf.arrivals.gaps import Seconds, Stream
from r1perf.arrivals.open import Open
from r1perf.arrivals.poisson import Poisson
from r1perf.replay import Replay, replay
from r1perf.target import Positive
from r1perf.traces import read_trace
from r1perf.units import Duration, Rate


class Trace(Open, frozen=True, kw_only=True, tag="trace"):
    """Arrive when the requests of a trace did; after its last one nothing arrives.

    `start`, `length`, `speed` and `rate` choose what is replayed (`r1perf.replay`); they mean what they mean in a dataset of kind
    `trace`, so a workload with both and equal values gives every arrival its own lengths. Bursts and lulls are the trace's, and
    the same for every seed. A conversation begins where the trace had a request, whatever `per` says.
    """

    file: str
    start: Duration = Duration(0)
    length: Duration | None = None
    speed: Positive = 1.0
    rate: Rate | None = None

    def located(self, base: Path) -> "Trace":
        """Return it with an absolute file, and ending with the replay where nothing ends it before.

        Raises DatasetError with file, line and reason.
        """
        found = msgspec.structs.replace(self, file=str(base / Path(self.file).expanduser()))
        whole = found._replay().length_ns
        return msgspec.structs.replace(found, duration=Duration(min(whole, self.duration or whole)))

    def times(self, stream: Stream, *, until: float, count: int | None, turns: float) -> Seconds:
        """Return the replay's times."""
        # Half a ns more, so that whole ns are found again when a float's seconds are cut to them.
        times = (self._replay().offsets_ns + np.float64(0.5)) / np.float64(1e9)
        return times[times < until][:count]

    def rates(self) -> tuple[Rate, Rate]:
        """Return the mean rate twice."""
        chosen = self._replay()
        mean = Rate(len(chosen.rows) / (chosen.length_ns / 1e9))
        return mean, mean

    def at_rate(self, rate: Rate) -> Poisson:
        """Return Poisson arrivals: a warmup before a trace has no times of its own."""
        return Poisson(rate=rate)

    def says(self) -> str:
        """Name the file and what is changed."""
        said = [f"trace {Path(self.file).name}"]
        if self.start or self.length is not None:
            said.append(f"from {self.start}" + (f" for {self.length}" if self.length is not None else ""))
        if self.speed != 1:
            said.append(f"at {self.speed:g} times the speed")
        if self.rate is not None:
            said.append(f"scaled to {self.rate}")
        return ", ".join(said)

    def _replay(self) -> Replay:
        return replay(read_trace(Path(self.file)), start_ns=self.start, length_ns=self.length, speed=self.speed, rate=self.rate)
