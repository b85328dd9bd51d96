"""Make each clause's evidence of one run, live or recorded: from its summary, and from what was counted for the clause."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from r1perf.histogram import Counts
from r1perf.metrics import METRICS
from r1perf.result import FAILED, Outcome
from r1perf.scenario import Scenario
from r1perf.schedule import Stage
from r1perf.sla.clauses import Accuracy, Bound, Clause, Cost, Goodput, Max, Mean, Quantile, Throughput
from r1perf.sla.consumption import cost, throughput, untold
from r1perf.sla.evidence import Absent, Attempts, Flow, Window
from r1perf.sla.percentile import observed
from r1perf.sla.tallied import Tallied
from r1perf.sla.terms import Terms
from r1perf.summary import Summary

Missing = Callable[[str | None, set[int]], int]
"""How many requests of a workload (None: of all) and these stages ended of which an archive does not hold what came, at most."""

_NEVER = ("ttft", "service_ttft", "ttfo", "e2e", "service_e2e")
"""Metrics that every attempt should have had: one without a value stands at infinity."""


_CONNECTED = frozenset({"stale_connection", "eof", "reset"})
"""Reasons of a `connect_error` over a connection that had come about."""


class Account:
    """What one run says of its clauses.

    `bracketed` are the places of clauses that were counted from histograms. `kept` is False where the intervals are not known.
    `missing` and `absent` are what an archive has lost: requests, and clauses (by place) that it says nothing about.
    """

    def __init__(
        self, summary: Summary, scenario: Scenario, terms: Terms, tallied: Tallied, *,
        bracketed: frozenset[int] = frozenset(), kept: bool = True,
        missing: Missing = lambda workload, stages: 0, absent: Mapping[int, str] | None = None,
    ) -> None:  # fmt: skip
        self.summary, self.scenario, self.terms = summary, scenario, terms
        self._tallied, self._bracketed, self._kept = tallied, bracketed, kept
        self._missing, self._absent = missing, absent or {}

    def absent(self, index: int) -> str | None:
        """Return why the archive says nothing about the clause at this place; None where it does."""
        return self._absent.get(index)

    def evidence(self, index: int, *, early: bool = False) -> Attempts | Flow | Absent:
        """Return what the run says of the clause at this place, all but those against a baseline.

        `early`: the run has not been carried out whole, and its planned requests count where they are known.
        """
        clause, why = self.terms.clauses[index], self.absent(index)
        if why is not None:
            return Absent(why)
        match clause.aggregate:
            case Throughput() | Cost() as aggregate:
                return self._over_time(clause, aggregate)
            case Mean() as mean:
                return self._mean(index, clause, mean)
            case Goodput() if isinstance(clause.bound, Bound) and clause.bound.unit.startswith("/"):
                return self._met_per_second(index, clause)
        return self._attempts(index, clause, early=early)

    def value(self, index: int) -> float | None:
        """Return the clause's aggregate over the whole run, in its base unit; None where there is none, or a failed attempt is it."""
        clause, (workload, stages) = self.terms.clauses[index], self._selection(self.terms.clauses[index])
        if self.absent(index) is not None:
            return None
        match clause.aggregate:
            case Throughput() | Cost():
                found = self.evidence(index)
                return _ratio(found.intervals) if isinstance(found, Flow) else None
            case Mean() as mean:
                counts = self._counts(mean.metric, workload, stages)
                return None if counts.mean is None else counts.mean * _scale(mean.metric)
            case Quantile() as quantile:
                counts = self._counts(_measured(quantile.metric), workload, stages)
                value = observed(clause, counts, max(counts.count, self._expected(quantile.metric, counts, workload, stages)))
                return None if value is None else value * _scale(quantile.metric)
        seen = self._attempts(index, clause)
        if not seen.n:
            return None
        share = seen.over_certain / seen.n
        return 1 - share if isinstance(clause.aggregate, Goodput | Accuracy) else share

    def covered(self, clause: Clause) -> list[Stage]:
        """Return the judged stages that a clause covers."""
        return [stage for stage in self.summary.judged if clause.during in (None, stage.name)]

    def lost(self, clause: Clause) -> int:
        """Count the requests that were in flight on workers that died."""
        workload, stages = self._selection(clause)
        return self._outcomes((Outcome.LOST,), workload, stages)

    def planned(self, clause: Clause) -> int | None:
        """Return how many requests were planned, at most; None where that is not known."""
        planned = self.summary.run.planned
        if not planned or len(self.summary.stages) > len(self.summary.run.stages):
            return None  # stages were added while the run went on
        workload, stages = self._selection(clause)
        counted = [row.requests for row in planned if workload in (None, row.workload) and row.stage in (None, *stages)]
        return None if None in counted else sum(n for n in counted if n is not None)

    def _selection(self, clause: Clause) -> tuple[str | None, set[int]]:
        return clause.select("workload"), {stage.index for stage in self.covered(clause)}

    def _spans(self, clause: Clause) -> list[tuple[int, float]]:
        """Return the intervals that a clause's stages touch, each with how many seconds of it they take."""
        interval_ns, spans = self.summary.run.interval_ns, dict[int, float]()
        if not self._kept:
            return []
        for stage in self.covered(clause):
            begin, end = self.summary.window(stage) or (0, 0)
            for k in range(begin // interval_ns, -(-end // interval_ns)):
                inside = min(end, (k + 1) * interval_ns) - max(begin, k * interval_ns)
                spans[k] = spans.get(k, 0.0) + inside / 1e9
        return sorted(spans.items())

    def _window(self, clause: Clause) -> Window:
        ks = tuple(k for k, _ in self._spans(clause))
        return Window(ks, self.summary.run.interval_ns / 1e9, self._residence_s())

    def _planned_intervals(self, clause: Clause) -> int | None:
        lengths = [None if stage.end_ns is None else stage.end_ns - stage.start_ns for stage in self.covered(clause)]
        return None if None in lengths else -(-sum(ns for ns in lengths if ns is not None) // self.summary.run.interval_ns)

    def _residence_s(self) -> float:
        """Return the p90 residence time of the slowest workload.

        Where more than a tenth did not end well it is what the client waits at most; so it is where nothing has ended yet.
        """
        longest = 0.0
        stages = {stage.index for stage in self.summary.judged}
        for workload in self.summary.workloads:
            counts = self._counts("service_e2e", workload, stages)
            cut = self._outcomes((Outcome.CANCELLED, Outcome.TIMEOUT), workload, stages)
            seconds = counts.percentile(90)
            waiting = self.summary.counter("scheduled", workload) and not any(self.summary.outcomes(workload).values())
            if waiting or (cut and 10 * cut > counts.count + cut):
                longest = max(longest, min(self.scenario.target.timeouts.total, self.summary.elapsed_ns) / 1e9)
            elif seconds is not None:
                longest = max(longest, seconds / 1e6)
        return longest

    def _attempts(self, index: int, clause: Clause, *, early: bool = False) -> Attempts:
        watch = next(one for one in self.terms.watches(self.summary.stages) if one.clause == index)
        planned = self.planned(clause) if early and watch.unit == "request" else None
        seen = self._tallied.attempts(
            watch, self._window(clause), lost=self.lost(clause), missing=self._missing(*self._selection(clause)), planned=planned
        )
        shown, alone = self._observed(clause, seen)
        return msgspec.structs.replace(
            seen, observed=shown, observed_ok=alone, bracketed=index in self._bracketed, planned_intervals=self._planned_intervals(clause)
        )  # fmt: skip

    def _observed(self, clause: Clause, seen: Attempts) -> tuple[float | None, float | None]:
        """Return the percentile (or largest value) over all attempts, and over the values alone where that is another."""
        if not isinstance(clause.aggregate, Quantile | Max):
            return None, None
        metric, (workload, stages) = clause.aggregate.metric, self._selection(clause)
        counts, scale = self._counts(_measured(metric), workload, stages), _scale(metric)
        unknown = seen.over_possible - seen.over_certain
        shown = observed(clause, counts, max(counts.count, seen.n - (0 if seen.bracketed else unknown)))
        alone = observed(clause, counts, counts.count)
        return (
            None if shown is None else shown * scale,
            None if alone is None or alone == shown else alone * scale,
        )

    def _mean(self, index: int, clause: Clause, mean: Mean) -> Flow:
        watch = next(one for one in self.terms.watches(self.summary.stages) if one.clause == index)
        missing = self._missing(*self._selection(clause))
        return self._tallied.mean(watch, self._window(clause), longest=self._longest(mean.metric), missing=missing)

    def _longest(self, metric: str) -> float:
        """Return the most that a value can be of which its request does not say so itself, in its base unit.

        The client's timeout counts from when a request was sent, most metrics from when it was scheduled. Tokens have no bound.
        """
        if METRICS[metric].unit != "us":
            return math.inf
        late_us = self._counts("schedule_delay", None, None).most or 0
        return float(self.scenario.target.timeouts.total) + 1000.0 * late_us

    def _met_per_second(self, index: int, clause: Clause) -> Flow:
        """Return requests that met every limit, and seconds, by interval; those that cannot be known may have."""
        seen = self._attempts(index, clause)
        unknown = seen.over_possible - seen.over_certain
        rows = self._tallied.met(index, [k for k, _ in self._spans(clause)])
        flow = self._flow(clause, [(met, seconds) for met, (_, seconds) in zip(rows, self._spans(clause), strict=True)])
        return msgspec.structs.replace(flow, cut_high=float(unknown), unknown=unknown, missing=seen.missing)

    def _over_time(self, clause: Clause, aggregate: Throughput | Cost) -> Flow:
        selection, spans = self._selection(clause), self._spans(clause)
        if isinstance(aggregate, Throughput):
            rows = throughput(self.summary, aggregate, *selection, spans)
        else:
            rows = cost(self.summary, aggregate, *selection, spans)
        n, ends = untold(self.summary, aggregate, *selection)
        return msgspec.structs.replace(self._flow(clause, rows), untold=n, untold_ends=ends)

    def _flow(self, clause: Clause, rows: Sequence[tuple[float, float]]) -> Flow:
        window = self._window(clause)
        return Flow(intervals=tuple(rows), interval_s=window.interval_s, residence_p90_s=window.residence_p90_s)

    def _counts(self, metric: str, workload: str | None, stages: set[int] | None) -> Counts:
        return Counts.merged(
            counts
            for (name, w, s), counts in self.summary.series.items()
            if name == metric and workload in (None, w) and (stages is None or s in stages)
        )

    def _counted(self, names: Collection[str], workload: str | None, stages: set[int]) -> int:
        return sum(
            n for (name, w, s), n in self.summary.counters.items() if name in names and workload in (None, w) and s in stages
        )

    def _outcomes(self, outcomes: Sequence[Outcome], workload: str | None, stages: set[int]) -> int:
        return self._counted({f"outcome.{outcome}" for outcome in outcomes}, workload, stages)

    def _unconnected(self, workload: str | None, stages: set[int]) -> int:
        """Count the requests that failed since no connection came about, as `Result.unconnected` says of one."""
        failed = self._counted({f"outcome.{Outcome.CONNECT_ERROR}", f"reason.{Outcome.TIMEOUT}.connect"}, workload, stages)
        return failed - self._counted({f"reason.{Outcome.CONNECT_ERROR}.{reason}" for reason in _CONNECTED}, workload, stages)

    def _expected(self, metric: str, counts: Counts, workload: str | None, stages: set[int]) -> int:
        """Count the attempts that a percentile goes over: values, and those that should have had one."""
        failed = self._outcomes(tuple(FAILED), workload, stages)
        if metric == "connect":
            return counts.count + self._unconnected(workload, stages)
        if metric == "schedule_delay":
            return counts.count
        if metric in _NEVER:
            return failed + self._outcomes((Outcome.OK, Outcome.TRUNCATED), workload, stages)
        return counts.count + failed


def _measured(metric: str) -> str:
    return "tpot" if metric == "interactivity" else metric


def _scale(metric: str) -> float:
    """Return the factor from a histogram's unit to the base unit; interactivity is per second already."""
    return 1000.0 if metric != "interactivity" and METRICS[metric].unit == "us" else 1.0


def _ratio(rows: Sequence[tuple[float, float]]) -> float | None:
    below = sum(denominator for _, denominator in rows)
    return sum(numerator for numerator, _ in rows) / below if below else None
