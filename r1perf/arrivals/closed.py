"""Sessions that wait for their answers."""

from typing import Annotated

import msgspec

from r1perf.arrivals.process import Process
from r1perf.units import Duration

SESSIONS = 100_000
"""The most sessions of a closed loop: each is a task of its own, and no machine has more than 65,535 ports toward one address."""


class Closed(Process, frozen=True, kw_only=True, tag="closed"):
    """Keep `sessions` conversations going: each session starts its next one when the last has ended and `think_time` passed.

    Session s starts s * `ramp_up` after the stage's start: all at once makes any client late.
    """

    sessions: Annotated[int, msgspec.Meta(gt=0, le=SESSIONS)]
    think_time: Duration = Duration(0)
    ramp_up: Annotated[Duration, msgspec.Meta(description="between the starts of two sessions")] = Duration.parse("2.5ms")

    def says(self) -> str:
        """Say the number of sessions."""
        return f"closed, {self.sessions} sessions" + (f", think time {self.think_time}" if self.think_time else "")
