"""Add up what all workers counted for the clauses, and make evidence of it."""

from collections.abc import Iterable

from r1perf.result import FAILED
from r1perf.sla.evidence import Attempts, Flow, Window
from r1perf.sla.limits import Watch
from r1perf.sla.tally import Tally


class Tallied:
    """Add up the rows of all workers and intervals, and make evidence of them."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], Tally] = {}
        self._totals: dict[int, Tally] = {}  # by clause: a run is looked at every interval, and none of its rows again for that

    def add(self, rows: Iterable[Tally]) -> None:
        """Add rows; any order and any grouping give the same."""
        for row in rows:
            key = (row.clause, row.k)
            self.rows[key] = self.rows[key] + row if key in self.rows else row
            self._totals[row.clause] = self.total(row.clause) + row

    def plus(self, rows: Iterable[Tally]) -> "Tallied":
        """Return the same with more rows, and leave this as it is."""
        more = Tallied()
        more.rows, more._totals = self.rows.copy(), self._totals.copy()
        more.add(rows)
        return more

    def total(self, clause: int) -> Tally:
        """Return one clause's sums over the whole run."""
        return self._totals.get(clause) or Tally(clause, -1)

    def met(self, clause: int, ks: Iterable[int]) -> list[int]:
        """Return how many attempts of each interval surely met the clause's limits."""
        return [row.n - row.over - row.unknown for row in self._of(clause, ks)]

    def attempts(self, watch: Watch, window: Window, *, lost: int = 0, missing: int = 0, planned: int | None = None) -> Attempts:
        """Make the evidence of a claim on a share or a largest value.

        `lost` requests were in flight on workers that died; of `missing` ones the archive does not hold what came of them.
        """
        total = self.total(watch.clause)
        rows = self._of(watch.clause, window.ks)
        return Attempts(
            n=total.n + lost + missing,
            over_certain=total.over,
            over_possible=total.over + total.unknown + lost + missing,
            missing=missing,
            intervals=tuple((row.n, row.over) for row in rows),
            interval_s=window.interval_s,
            residence_p90_s=window.residence_p90_s,
            requests=total.requests if watch.unit == "gap" else None,
            conversations=total.conversations,
            not_applicable=total.not_applicable,
            causes=tuple(sorted(total.causes.items(), key=lambda pair: (-pair[1], pair[0]))),
            planned=planned,
        )

    def mean(self, watch: Watch, window: Window, *, longest: float, missing: int = 0) -> Flow:
        """Make the evidence of a mean; `longest` is the most that a value can be of which its request does not say so itself.

        `missing` requests are not in the archive: each may have had any value.
        """
        total = self.total(watch.clause)
        unsaid = total.cut_open + missing
        rows = self._of(watch.clause, window.ks)
        return Flow(
            intervals=tuple((float(row.total), float(row.valued)) for row in rows),
            interval_s=window.interval_s,
            residence_p90_s=window.residence_p90_s,
            cut=total.cut + missing,
            cut_low=float(total.cut_least),
            cut_high=max(float(total.cut_least), total.cut_most + (unsaid * longest if unsaid else 0.0)),
            missing=missing,
            without_value=sum(n for cause, n in total.causes.items() if cause in FAILED),
        )

    def _of(self, clause: int, ks: Iterable[int]) -> list[Tally]:
        none = Tally(clause, -1)
        return [self.rows.get((clause, k), none) for k in ks]
