"""How long a closed session pauses after failures, and how much of that has really passed."""

import random

from r1perf.recorder import Recorder
from r1perf.result import FAILED, Result

BACKOFF_NS = 1_000_000_000
"""A session pauses so long, jittered and doubled with each failure in a row, where the server names no time."""

BACKOFF_MOST_NS = 60_000_000_000


class Backoff:
    """The pauses of one session: `after` a result the next request is due no earlier, and `over` counts what was paused."""

    def __init__(self, recorder: Recorder, seed: str) -> None:
        self._recorder = recorder
        self._jitter = random.Random(seed)
        self._failures = 0
        self._failed: Result | None = None  # after which it pauses now
        self._until_ns = 0

    @property
    def pauses(self) -> bool:
        """Tell whether a pause goes on that was not counted yet."""
        return self._failed is not None

    def after(self, result: Result) -> int:
        """Return until when to pause after a request; 0 where it did not fail."""
        if result.outcome not in FAILED:
            self._failures = 0
            return 0
        self._failures += 1
        self._failed = result
        self._until_ns = result.done_ns + (result.retry_after_ns or self._pause_ns())
        return self._until_ns

    def over(self, now_ns: int, stage: int) -> None:
        """Count the pause, as far as it had come: a run that ends cuts it short. `stage` is the one of the failed request."""
        if self._failed is not None:
            paused_ns = min(self._until_ns, now_ns) - self._failed.done_ns
            self._recorder.count("backoff_ns", self._failed.workload, stage, max(paused_ns, 0))
            self._failed = None

    def _pause_ns(self) -> int:
        pause_ns = min(BACKOFF_NS << min(self._failures - 1, 10), BACKOFF_MOST_NS)
        return int(pause_ns * self._jitter.uniform(0.5, 1.5))
