"""Tell a wrong target from one that only a single worker met so: what all of them have seen decides."""

from collections.abc import Iterable, Mapping

from r1perf.result import Outcome
from r1perf.summary import ALL, Summary


class Suspicion:
    """Workers whose own first answers say that the target is wrong, until it is known whether anything had succeeded elsewhere."""

    def __init__(self) -> None:
        self._by: set[str] = set()  # who suspects: nothing of theirs has succeeded
        self._k = -1  # the interval in which the first of them did
        self.says: str | None = None  # the first one's sentence

    def raised(self, worker: str, says: str, k: int) -> None:
        """Take a worker's suspicion, in interval `k`."""
        if self.says is None:
            self.says, self._k = says, k
        self._by.add(worker)

    def confirmed(self, summary: Summary, running: Iterable[str], merged: Mapping[str, int]) -> bool:
        """Tell whether nothing has succeeded and everybody has told so: suspects too, or has reported the interval; `merged` by worker.

        Where something has succeeded the suspicion is over.
        """
        if self.says is None:
            return False
        if any(summary.counter(f"outcome.{outcome}", stage=ALL) for outcome in (Outcome.OK, Outcome.TRUNCATED)):
            self.says = None
            self._by.clear()
            return False
        return all(worker in self._by or merged.get(worker, -1) >= self._k for worker in running)
