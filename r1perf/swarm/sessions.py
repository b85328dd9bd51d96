"""How many sessions a closed loop has while Locust's users hold them, and how its stages say it."""

from collections.abc import Iterable, Mapping

import msgspec

from r1perf.arrivals import Closed
from r1perf.schedule import Stage


class Held(msgspec.Struct, frozen=True):
    """How many sessions Locust's users hold: `count` now, `wanted` when all are there, which come or go at `rate` a second.

    `wanted` is None while it is not known: of several classes of users Locust chooses which is the next.
    """

    count: int
    wanted: int | None
    rate: float


class Sessions:
    """The sessions of one run; `closed` is what the scenario plans."""

    def __init__(self, closed: Closed) -> None:
        self._closed = closed
        self._wanted: int | None = None  # nobody has said yet how many there will be
        self._count = 0
        self._changed = False
        self._ranges: dict[int, tuple[int, int]] = {}  # the fewest and the most, by stage
        self._said: dict[int, str] = {}

    def take(
        self, held: Held, at_ns: int, stages: Iterable[Stage], ended: Mapping[int, int]
    ) -> tuple[str | None, dict[int, str]]:
        """Take note of how many there are from `at_ns` after t0 on; return what people are told, None where nobody has asked for
        a change, and what is true now of the stages that have not `ended`, by index.
        """
        ours = [stage for stage in stages if stage.says == self._said.get(stage.index, self._closed.says())]
        ends = {stage.index: ended.get(stage.index) if stage.end_ns is None else stage.end_ns for stage in ours}
        going_on = [stage for stage in ours if (end_ns := ends[stage.index]) is None or at_ns < end_ns]
        told = None if held.wanted is None or not going_on else self._told(held, held.wanted, at_ns / 1e9)
        for stage in going_on:
            least, most = self._ranges.get(stage.index, (held.count, held.count))
            begun = at_ns >= stage.start_ns
            self._ranges[stage.index] = (min(least, held.count), max(most, held.count)) if begun else (held.count, held.count)
            self._said[stage.index] = self._says(held, *self._ranges[stage.index])
        self._count = held.count
        return told, dict(self._said)

    def _told(self, held: Held, wanted: int, at_s: float) -> str | None:
        before, self._wanted = self._wanted, wanted
        if before is None and wanted != self._closed.sessions:
            return f"{wanted} sessions, not {self._closed.sessions}: so many of Locust's users are R1User"
        if before is None:
            return None if held.count == wanted else f"Locust starts the {wanted} sessions at {held.rate:g}/s"
        if before == wanted:
            return None
        self._changed = True
        change = f"sessions {self._count} -> {wanted}"
        return f"{change} at {at_s:.1f} s" if held.count == wanted else f"{change} at {held.rate:g}/s, from {at_s:.1f} s on"

    def _says(self, held: Held, least: int, most: int) -> str:
        if not self._changed and held.count == held.wanted:
            words = f"{held.count} sessions" + (f", started at {held.rate:g}/s" if least != most else "")
        else:
            span = f"{least}" if least == most else f"{least} to {most}"
            more = "" if held.wanted in (None, held.count) else f", {held.wanted} asked for at {held.rate:g}/s"
            words = f"sessions by Locust's users ({span}{more})"
        return self._closed.says().replace(f"{self._closed.sessions} sessions", words)
