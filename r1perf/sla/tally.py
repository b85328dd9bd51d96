"""Count, on a worker, what each clause needs: a handful of integers an interval, which merge by addition in any order.

The worker makes one `Tallier` and hands it to its recorder, which says when a request ended, which gaps a flip folded and when a
conversation was over, and takes the `Tally` rows of the interval for its snapshot. The collector adds rows up in `tallied.Tallied`.

A row belongs to the interval in which its requests were *scheduled* (gaps: in which they happened), whenever it is sent, so that
batches of time part the judged window and long answers do not drift out of it.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

from r1perf.histogram import IntArray
from r1perf.result import CENSORED, FAILED, Result, Stream
from r1perf.sla.dependence import Clusters
from r1perf.sla.flight import Flight, missed_already
from r1perf.sla.limits import Fate, Watch, at_least, at_most, cause, fate, final


class Tally(msgspec.Struct, frozen=True, array_like=True):
    """The counts of one clause for interval `k`, of one worker's snapshot.

    `total` sums the metric over `valued` requests or gaps (for means), in ns or tokens; `cut` requests ended with the run before
    they had a value. All of them have at least `cut_least` together; all but `cut_open` of them at most `cut_most`, and of these no
    request says what it can be at most. Cluster sums are of requests (gaps) and of conversations that
    were over in the snapshot's interval; they have k = -1.
    """

    clause: int
    k: int
    n: int = 0
    over: int = 0
    unknown: int = 0
    not_applicable: int = 0
    valued: int = 0
    total: int = 0
    cut: int = 0
    cut_least: int = 0
    cut_most: int = 0
    cut_open: int = 0
    causes: dict[str, int] = {}
    requests: Clusters = Clusters()
    conversations: Clusters = Clusters()

    def __add__(self, other: "Tally") -> "Tally":
        """Merge two rows of one clause; the interval is the first one's."""
        names = sorted({*self.causes, *other.causes})
        return Tally(
            clause=self.clause,
            k=self.k,
            n=self.n + other.n,
            over=self.over + other.over,
            unknown=self.unknown + other.unknown,
            not_applicable=self.not_applicable + other.not_applicable,
            valued=self.valued + other.valued,
            total=self.total + other.total,
            cut=self.cut + other.cut,
            cut_least=self.cut_least + other.cut_least,
            cut_most=self.cut_most + other.cut_most,
            cut_open=self.cut_open + other.cut_open,
            causes={name: self.causes.get(name, 0) + other.causes.get(name, 0) for name in names},
            requests=self.requests + other.requests,
            conversations=self.conversations + other.conversations,
        )


class Tallier:
    """Count one worker's requests and gaps against the clauses of a run.

    `ahead`: count the misses of requests in flight too. `streamed` False: responses come in one piece.
    """

    def __init__(self, watches: Sequence[Watch], judged: Iterable[int], *, ahead: bool = False, streamed: bool = True) -> None:
        self.watches = tuple(watches)
        self._ahead = [watch for watch in watches if watch.unit == "request" and watch.limits] if ahead else []
        self._streamed = streamed
        self.judged = set(judged)  # indices of judged stages; a live stage is added as it begins
        self._rows: dict[tuple[int, int], Tally] = {}
        self._gaps: dict[Hashable, dict[int, tuple[int, int]]] = {}  # request -> clause -> gaps, misses
        self._turns: dict[int, dict[int, tuple[int, int]]] = {}  # arrival -> clause -> attempts, misses

    def wants(self, watch: Watch, workload: str, stage: int) -> bool:
        """Say whether a clause covers a workload and a stage."""
        return watch.workload in (None, workload) and stage in (self.judged if watch.stages is None else watch.stages)

    def ended(self, result: Result, k: int, *, grade: str | None = None, request: Hashable = None) -> None:
        """Count a request that ended; `k` is the interval in which it was scheduled, `grade` a grading.Grade where it has one.

        `request` is what `fold` was told for it; default its id.
        """
        key = result.id if request is None else request
        self._streamed &= result.streamed
        for watch in self.watches:
            if not self.wants(watch, result.workload, result.stage):
                continue
            match watch.unit:
                case "gap":
                    if result.outcome in FAILED:
                        # It misses once, however many gaps it showed before: this stands for its open gap, which is not folded too.
                        self._gap(watch, key, Tally(watch.clause, k, 1, 1, causes={str(result.outcome): 1}))
                case "answer":
                    self._answer(watch, result, k, grade)
                case "request":
                    self._request(watch, result, k)
        for clause, cluster in self._gaps.pop(key, {}).items():
            self._add(Tally(clause, -1, requests=Clusters.of([cluster])))
            self._turn(clause, result.arrival, *cluster)

    def fold(
        self, workload: str, requests: Sequence[Hashable], heads: IntArray, gaps_ns: IntArray, stages: IntArray, k: int
    ) -> None:
        """Count the gaps of one flip, of all requests of a workload at once.

        The gaps of `requests[i]` stand from `heads[i]` up to the next head; a gap of 0 is none (a chunk that shared a read). `stages`
        has the stage in which each gap happened. Open gaps of streams that ended badly do not belong here: `ended` counts them.
        """
        for watch in self.watches:
            if watch.unit != "gap" or watch.workload not in (None, workload) or not len(heads):
                continue
            covered = list(self.judged if watch.stages is None else watch.stages)
            counted = (gaps_ns > 0) & np.isin(stages, covered)
            missed = counted & ~watch.limits[0].hold(gaps_ns)
            n, over = (np.add.reduceat(flags.astype(np.int64), heads) for flags in (counted, missed))
            total_ns = int(gaps_ns[counted].sum())
            seen, misses = int(n.sum()), int(over.sum())
            if not seen:
                continue
            causes = {"slow": misses} if misses else {}
            self._add(Tally(watch.clause, k, seen, misses, valued=seen, total=total_ns, causes=causes))
            for request, m, x in zip(requests, n.tolist(), over.tolist(), strict=True):
                if m:
                    self._cluster(watch.clause, request, m, x)

    def ahead(self, open_: Mapping[str, Collection[Stream]], now_ns: int, t0_ns: int, interval_ns: int) -> list[Tally]:
        """Return the misses of requests in flight that nothing can mend any more, in the intervals in which these were scheduled.

        `open_` are the streams by workload. A gauge of this moment: `ended` counts the same requests later.
        """
        rows: dict[tuple[int, int], int] = {}
        for workload, streams in open_.items() if self._ahead else ():
            flight = Flight(streams)
            for watch in self._ahead:
                if watch.workload not in (None, workload):
                    continue
                covered = np.isin(flight["stage"], list(self.judged if watch.stages is None else watch.stages))
                missed = covered & missed_already(watch.limits, flight, now_ns, streamed=self._streamed)
                for k in ((flight["scheduled_ns"][missed] - t0_ns) // interval_ns).tolist():
                    rows[watch.clause, k] = rows.get((watch.clause, k), 0) + 1
        return [Tally(clause, k, n=n, over=n, causes={"slow": n}) for (clause, k), n in sorted(rows.items())]

    def conversation_over(self, arrival: int) -> None:
        """Close a conversation as a cluster: all its turns have been given to `ended`."""
        for clause, cluster in self._turns.pop(arrival, {}).items():
            self._add(Tally(clause, -1, conversations=Clusters.of([cluster])))

    def take(self) -> list[Tally]:
        """Return the rows since the last call, sorted by clause and interval."""
        rows = [self._rows[key] for key in sorted(self._rows)]
        self._rows.clear()
        return rows

    def close(self) -> None:
        """Close every conversation that is still open, before the last `take`."""
        for arrival in sorted(self._turns):
            self.conversation_over(arrival)

    def _request(self, watch: Watch, result: Result, k: int) -> None:
        what = fate(watch.limits, result)
        if what is Fate.NOT_APPLICABLE:
            self._add(Tally(watch.clause, k, not_applicable=1))
            return
        missed = what is Fate.MISSED
        causes = {cause(watch.limits, result): 1} if missed else {}
        row = Tally(watch.clause, k, 1, int(missed), int(what is Fate.UNKNOWN), causes=causes)
        if len(watch.limits) == 1:
            metric = watch.limits[0].metric
            value, least = final(metric, result), at_least(metric, result)
            most = None if least is None else at_most(metric, result)
            row += Tally(
                watch.clause,
                k,
                valued=int(value is not None),
                total=round(value or 0),
                cut=int(least is not None),
                cut_least=round(least or 0),
                cut_most=round(most or 0),
                cut_open=int(least is not None and most is None),
            )
        self._add(row)
        self._turn(watch.clause, result.arrival, 1, int(missed))

    def _answer(self, watch: Watch, result: Result, k: int, grade: str | None) -> None:
        if grade is not None:
            missed = int(grade != "right")
            self._add(Tally(watch.clause, k, 1, missed, causes={grade: 1} if missed else {}))
            self._turn(watch.clause, result.arrival, 1, missed)
        elif result.outcome in CENSORED:
            self._add(Tally(watch.clause, k, 1, unknown=1))

    def _gap(self, watch: Watch, request: Hashable, row: Tally) -> None:
        self._add(row)
        self._cluster(watch.clause, request, row.n, row.over)

    def _cluster(self, clause: int, request: Hashable, m: int, x: int) -> None:
        mine = self._gaps.setdefault(request, {})
        before = mine.get(clause, (0, 0))
        mine[clause] = (before[0] + m, before[1] + x)

    def _turn(self, clause: int, arrival: int, m: int, x: int) -> None:
        turns = self._turns.setdefault(arrival, {})
        before = turns.get(clause, (0, 0))
        turns[clause] = (before[0] + m, before[1] + x)

    def _add(self, row: Tally) -> None:
        key = (row.clause, row.k)
        self._rows[key] = self._rows[key] + row if key in self._rows else row
