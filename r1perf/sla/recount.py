"""Count a recorded run for any clauses, from its archive alone.

Requests and their grades are counted one by one from their lines, gaps between chunks from the snapshots. What `run.json` says there was and the
files do not hold (deleted, cut, or on another machine) is never left out silently: requests without a line count both ways, and
clauses that need what is gone say so instead of a verdict.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from r1perf.errors import ArchiveError
from r1perf.journal import Damage, read_requests, read_snapshots, requests_path, snapshots_path
from r1perf.result import Outcome, Result
from r1perf.scenario import Scenario
from r1perf.sla.account import Account, Missing
from r1perf.sla.clauses import Baseline, Bound, Clause, Cost, Goodput, Mean, Throughput
from r1perf.sla.gaps import clusters, counted, open_gaps
from r1perf.sla.limits import Watch
from r1perf.sla.tallied import Tallied
from r1perf.sla.tally import Tallier, Tally
from r1perf.sla.terms import Terms
from r1perf.sla.wording import count
from r1perf.summary import ALL, Document, Summary, recover
from r1perf.summary.archived import unended, unlose
from r1perf.summary.archived import workers as workers_in

_ENDED = frozenset(Outcome) - {Outcome.LOST}
"""Outcomes that have a line."""

Lines = Counter[tuple[str, int]]
"""How many lines there are of a workload and a stage."""


def recount(
    run: Path, written: Document, scenario: Scenario, terms: Terms, damage: Damage, *, alive: bool = False
) -> tuple[Account, Document]:
    """Rebuild a run's summary and count it for these clauses; raises ArchiveError where nothing is left to be counted.

    `alive`: the run goes on, and has lost nothing.
    """
    found = {worker for worker, _ in workers_in(run, known=written.workers)}
    if not found:
        raise ArchiveError(f"{run} holds neither requests nor snapshots: nothing in it can be judged")
    workers = sorted(written.workers or found)
    summary = recover(run, damage=damage, lost=not alive)
    if written.status == "running":
        built = unended(summary, alive=alive)
    else:
        built = written
        unlose([summary.counters], written)
    origins = _origins(run, workers)
    watches, lines = terms.watches(summary.stages), Lines()
    tallied = Tallied()
    tallied.add(_requests(run, workers, summary, watches, origins, lines))
    short, missing = _short(written, summary, workers, origins), _missing(built, lines)
    unread = missing(None, {row.plan.index for row in built.stages})
    lost = (
        None if not unread else f"{count(unread, 'request')} of the run {'has' if unread == 1 else 'have'} no line in the archive"
    )
    absent = {
        index: why for index, one in enumerate(terms.clauses) if (why := _absent(one, watches, index, short, lost)) is not None
    }
    gaps = [watch for watch in watches if watch.unit == "gap" and watch.clause not in absent]
    if gaps:
        stalled = open_gaps(summary, _results(run, workers), origins)
        for worker in workers:
            tallied.add(counted(summary, read_snapshots(snapshots_path(run, worker)), gaps, stalled))
        slow = {watch.clause: tallied.total(watch.clause).causes.get("slow", 0) for watch in gaps}
        tallied.add([clusters(summary, _results(run, workers), watch, slow[watch.clause]) for watch in gaps])
    bracketed, kept = frozenset(watch.clause for watch in gaps), len(origins) == len(workers)
    return Account(summary, scenario, terms, tallied, bracketed=bracketed, kept=kept, missing=missing, absent=absent), built


def _origins(run: Path, workers: Sequence[str]) -> dict[str, int]:
    """Return the t0 of each worker that has snapshots."""
    origins = {}
    for worker in workers:
        path = snapshots_path(run, worker)
        first = next(read_snapshots(path), None) if path.exists() else None
        if first is not None:
            origins[worker] = first.t0_ns
    return origins


def _short(written: Document, summary: Summary, workers: Sequence[str], origins: Mapping[str, int]) -> str | None:
    """Say what the snapshots lack; None where they hold all that the run counted."""
    without = [worker for worker in workers if worker not in origins]
    if without:
        return f"the snapshots of worker{'s' * (len(without) > 1)} {', '.join(without)} are not in the archive"
    if written.status == "running":
        return None  # nobody knows what there was
    same = all(summary.counter(name, stage=ALL) == n for name, n in written.counters.items())
    whole = same and abs(summary.covered_ns / 1e9 - written.elapsed_s) < 1e-6
    return None if whole else "the archive's snapshots hold less than its run.json counted"


def _missing(built: Document, lines: Lines) -> Missing:
    """Return how to count the requests that ended and have no line.

    `run.json` counts by workload and by stage, not by both: a workload's part of a stage is at most the smaller of the two.
    """
    by_stage = {row.plan.index: _without(row.counts, lines, stage=row.plan.index) for row in built.stages}
    by_workload = {row.name: _without(row.counts, lines, workload=row.name) for row in built.workloads}

    def missing(workload: str | None, stages: set[int]) -> int:
        here = sum(n for stage, n in by_stage.items() if stage in stages)
        return here if workload is None else min(here, by_workload.get(workload, 0))

    return missing


def _without(counts: Mapping[str, int], lines: Lines, *, workload: str | None = None, stage: int | None = None) -> int:
    ended = sum(n for name, n in counts.items() if name in _ENDED)
    return max(0, ended - sum(n for (w, s), n in lines.items() if workload in (None, w) and stage in (None, s)))


def _absent(clause: Clause, watches: Sequence[Watch], index: int, short: str | None, lost: str | None) -> str | None:
    """Say why the archive says nothing about a clause; a request without a line may have met it or not, and hinders no share."""
    units = {watch.unit for watch in watches if watch.clause == index}
    if isinstance(clause.bound, Baseline) or "gap" in units:
        return short or lost
    by_time = isinstance(clause.aggregate, Throughput | Cost | Mean)
    by_time |= isinstance(clause.aggregate, Goodput) and isinstance(clause.bound, Bound) and clause.bound.unit.startswith("/")
    return short if by_time else None


def _results(run: Path, workers: Sequence[str]) -> Iterator[tuple[str, Result]]:
    for worker in workers:
        path = requests_path(run, worker)
        if path.exists():
            for result in read_requests(path):
                yield worker, result


def _requests(
    run: Path, workers: Sequence[str], summary: Summary, watches: Sequence[Watch], origins: Mapping[str, int], lines: Lines
) -> list[Tally]:
    """Count requests as a worker would have, and the lines."""
    tallier = Tallier(watches, {stage.index for stage in summary.judged})
    for worker, result in _results(run, workers):
        lines[result.workload, result.stage] += 1
        k = (result.scheduled_ns - origins.get(worker, result.scheduled_ns)) // summary.run.interval_ns
        tallier.ended(result, k, grade=result.grade)
    tallier.close()
    apart = {watch.clause for watch in watches if watch.unit == "gap"}  # whose clusters `clusters` makes
    return [row for row in tallier.take() if row.k >= 0 or row.clause not in apart]
