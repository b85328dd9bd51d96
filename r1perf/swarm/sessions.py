"""How many sessions a closed loop has while Locust's users hold them, and how its stages say it."""

from r1perf.arrivals import Closed


class Sessions:
    """The sessions of one run: `closed` is what the scenario plans, `says` what is true of its stages so far."""

    def __init__(self, closed: Closed) -> None:
        self._closed, self._held = closed, [closed.sessions]
        self._planned = True  # nobody has said yet how many there are
        self.says = closed.says()

    def take(self, count: int, at_s: float) -> str | None:
        """Take note of how many there are from `at_s` after t0 on; return what people are told, None where nothing has changed."""
        before, first = self._held[-1], self._planned
        self._planned = False
        if count == before:
            return None
        self._held = [count] if first else [*self._held, count]
        least, most = min(self._held), max(self._held)
        words = f"{most} sessions" if least == most else f"sessions by Locust's users ({least} to {most})"
        self.says = self._closed.says().replace(f"{self._closed.sessions} sessions", words)
        if first:
            return f"{count} sessions, not {before}: so many of Locust's users are R1User"
        return f"sessions {before} -> {count} at {at_s:.1f} s"
