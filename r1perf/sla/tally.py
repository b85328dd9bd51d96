"""Count, on a worker, what each clause needs: a handful of integers an interval, which merge by addition in any order.

The recorder owns one `Tallier`: it says when a request ended, which gaps a flip folded and when a conversation was over, and takes
the `Tally` rows of the interval for its snapshot. The collector adds rows up in `Tallied` and makes `Attempts` of them.

A row belongs to the interval in which its requests were *scheduled* (gaps: in which they happened), whenever it is sent, so that
batches of time part the judged window and long answers do not drift out of it.
"""

from collections.abc import Hashable, Iterable, Sequence

import msgspec

from r1perf.result import FAILED, Result
from r1perf.sla.dependence import Clusters
from r1perf.sla.evidence import Attempts
from r1perf.sla.limits import Fate, Watch, fate, measured


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """The counts of one clause for interval `k`, of one worker's snapshot.

    `total` sums the metric over `valued` requests (for means), in ns or tokens. Cluster sums are of requests (gaps) and of
    conversations that were over in the snapshot's interval.
    """

    clause: int
    k: int
    n: int = 0
    over: int = 0
    unknown: int = 0
    not_applicable: int = 0
    valued: int = 0
    total: int = 0
    causes: dict[str, int] = {}
    requests: Clusters = Clusters()
    conversations: Clusters = Clusters()

    def __add__(self, other: "Tally") -> "Tally":
        """Merge two rows of one clause; the interval is the first one's."""
        causes = {name: self.causes.get(name, 0) + other.causes.get(name, 0) for name in (*self.causes, *other.causes)}
        return Tally(
            self.clause, self.k, self.n + other.n, self.over + other.over, self.unknown + other.unknown,
            self.not_applicable + other.not_applicable, self.valued + other.valued, self.total + other.total, causes,
            self.requests + other.requests, self.conversations + other.conversations,
        )  # fmt: skip


class Tallier:
    """Count one worker's requests and gaps against the clauses of a run."""

    def __init__(self, watches: Sequence[Watch], judged: Iterable[int]) -> None:
        self.watches = tuple(watches)
        self.judged = set(judged)  # indices of judged stages; a live stage is added as it begins
        self._rows: dict[tuple[int, int], Tally] = {}
        self._gaps: dict[tuple[int, Hashable], tuple[int, int]] = {}  # (clause, request) -> gaps, misses
        self._turns: dict[int, dict[int, tuple[int, int]]] = {}  # arrival -> clause -> attempts, misses

    def wants(self, watch: Watch, workload: str, stage: int) -> bool:
        """Say whether a clause covers a workload and a stage."""
        return watch.workload in (None, workload) and stage in (self.judged if watch.stages is None else watch.stages)

    def ended(self, result: Result, k: int, grade: str | None = None) -> None:
        """Count a request that ended; `k` is the interval in which it was scheduled, `grade` a grading.Grade where it has one."""
        for watch in self.watches:
            if not self.wants(watch, result.workload, result.stage):
                self._request_over(watch, result)
                continue
            if watch.unit == "gap":
                if result.outcome in FAILED:
                    # A failed attempt misses once, however many gaps it showed; its open gap is that one (do not fold it too).
                    self._gap(watch, result.id, k, 1, 1, str(result.outcome))
                self._request_over(watch, result)
            elif watch.unit == "answer":
                self._answer(watch, result, k, grade)
            else:
                self._request(watch, result, k)

    def gaps(self, watch: Watch, request: str, k: int, n: int, over: int) -> None:
        """Count gaps that one request showed in interval k; `request` is its Result's id, `over` those that miss the limit."""
        self._gap(watch, request, k, n, over, "slow")

    def conversation_over(self, arrival: int) -> None:
        """Close a conversation as a cluster: all its turns have been given to `ended`."""
        for clause, (m, x) in self._turns.pop(arrival, {}).items():
            self._add(Tally(clause, -1, conversations=Clusters.of([(m, x)])))

    def take(self) -> list[Tally]:
        """Return the rows since the last call, sorted; rows with k = -1 hold only conversation sums."""
        rows = [self._rows[key] for key in sorted(self._rows)]
        self._rows.clear()
        return rows

    def close(self) -> None:
        """Close every conversation and request that is still open, before the last `take`."""
        for arrival in list(self._turns):
            self.conversation_over(arrival)
        for clause, _ in list(self._gaps):
            self._add(Tally(clause, -1, requests=Clusters.of(c for (k, _), c in self._gaps.items() if k == clause)))
            self._gaps = {key: c for key, c in self._gaps.items() if key[0] != clause}

    def _request(self, watch: Watch, result: Result, k: int) -> None:
        what = fate(watch.limits, result)
        if what is Fate.NOT_APPLICABLE:
            self._add(Tally(watch.clause, k, not_applicable=1))
            return
        missed = what is Fate.MISSED
        failed = result.outcome in FAILED
        value = None if failed or len(watch.limits) != 1 else measured(watch.limits[0].metric, result)
        valued = value is not None and what is not Fate.UNKNOWN
        self._add(
            Tally(
                watch.clause,
                k,
                1,
                int(missed),
                int(what is Fate.UNKNOWN),
                0,
                int(valued),
                round(value or 0) if valued else 0,
                {str(result.outcome) if failed else "slow": 1} if missed else {},
            )
        )
        self._turn(watch, result.arrival, 1, int(missed))

    def _answer(self, watch: Watch, result: Result, k: int, grade: str | None) -> None:
        if grade is not None:
            missed = int(grade != "right")
            self._add(Tally(watch.clause, k, 1, missed, causes={grade: 1} if missed else {}))
            self._turn(watch, result.arrival, 1, missed)
        elif fate((), result) is Fate.UNKNOWN:
            self._add(Tally(watch.clause, k, 1, unknown=1))

    def _gap(self, watch: Watch, request: str, k: int, n: int, over: int, cause: str) -> None:
        self._add(Tally(watch.clause, k, n, over, causes={cause: over} if over else {}))
        m, x = self._gaps.get((watch.clause, request), (0, 0))
        self._gaps[watch.clause, request] = (m + n, x + over)

    def _request_over(self, watch: Watch, result: Result) -> None:
        cluster = self._gaps.pop((watch.clause, result.id), None)
        if cluster:
            self._add(Tally(watch.clause, -1, requests=Clusters.of([cluster])))
            self._turn(watch, result.arrival, *cluster)

    def _turn(self, watch: Watch, arrival: int, m: int, x: int) -> None:
        turns = self._turns.setdefault(arrival, {})
        before = turns.get(watch.clause, (0, 0))
        turns[watch.clause] = (before[0] + m, before[1] + x)

    def _add(self, row: Tally) -> None:
        key = (row.clause, row.k)
        self._rows[key] = self._rows[key] + row if key in self._rows else row


class Tallied:
    """Add up the rows of all workers and intervals."""

    def __init__(self) -> None:
        self.rows: dict[tuple[int, int], Tally] = {}

    def add(self, rows: Iterable[Tally]) -> None:
        """Add rows; any order and any grouping give the same."""
        for row in rows:
            key = (row.clause, row.k)
            self.rows[key] = self.rows[key] + row if key in self.rows else row

    def total(self, clause: int) -> Tally:
        """Return one clause's sums over the whole run."""
        mine = [row for (c, _), row in sorted(self.rows.items()) if c == clause]
        return sum(mine[1:], start=mine[0]) if mine else Tally(clause, -1)

    def attempts(
        self,
        watch: Watch,
        *,
        first_k: int,
        last_k: int,
        interval_s: float,
        residence_p90_s: float = 0.0,
        lost: int = 0,
        observed: float | None = None,
        observed_ok: float | None = None,
    ) -> Attempts:
        """Make the evidence of one clause; `first_k` .. `last_k` is the judged window, `lost` what dead workers had in flight."""
        total = self.total(watch.clause)
        empty = Tally(watch.clause, -1)
        rows = [self.rows.get((watch.clause, k), empty) for k in range(first_k, last_k + 1)]
        return Attempts(
            n=total.n + lost,
            over_certain=total.over,
            over_possible=total.over + total.unknown + lost,
            intervals=tuple((row.n, row.over) for row in rows),
            interval_s=interval_s,
            residence_p90_s=residence_p90_s,
            requests=total.requests if watch.unit == "gap" else None,
            conversations=total.conversations,
            not_applicable=total.not_applicable,
            causes=tuple(sorted(total.causes.items(), key=lambda pair: (-pair[1], pair[0]))),
            observed=observed,
            observed_ok=observed_ok,
        )
