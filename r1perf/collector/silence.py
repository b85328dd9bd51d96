"""Tell which workers have said nothing for too long."""

from collections.abc import Iterable

from r1perf import clock

LEAST_NS = 45_000_000_000
"""How long any worker may say nothing: in a swarm it is given up before Locust (64 s after its end) starts its users elsewhere."""

INTERVALS = 3
"""A worker speaks once an interval, and may leave out two."""

PAUSE_NS = 5_000_000_000
"""A collector that has not looked for so long was stopped, or waited for a disk: it first hears what has come meanwhile."""


class Silence:
    """When each worker was heard last. `among` is to be asked at least once a second."""

    def __init__(self, interval_ns: int) -> None:
        self.limit_ns = max(LEAST_NS, INTERVALS * interval_ns)
        self._heard_ns: dict[str, int] = {}
        self._looked_ns = clock.monotonic_ns()

    def heard(self, worker: str) -> None:
        """Note that a worker lives."""
        self._heard_ns[worker] = clock.monotonic_ns()

    def among(self, workers: Iterable[str]) -> list[str]:
        """Return those of these workers that have said nothing for longer than the limit."""
        now_ns = clock.monotonic_ns()
        paused, self._looked_ns = now_ns - self._looked_ns > PAUSE_NS, now_ns
        if paused:
            self._heard_ns = dict.fromkeys(self._heard_ns, now_ns)
        return [worker for worker in sorted(workers) if now_ns - self._heard_ns[worker] > self.limit_ns]
