"""Judge recorded runs, from their archives alone and with any clauses.

A clause that the run itself declared keeps its verdict, which was made of exact live counts. Others are counted anew: requests one by
one from `requests.<worker>.jsonl`, gaps between chunks from the histograms of each interval, where the bucket that holds the limit counts both
ways.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from r1perf.errors import ArchiveError, UsageError
from r1perf.journal import Damage, read_requests, read_snapshots, requests_path, snapshots_path
from r1perf.result import Result
from r1perf.scenario import Scenario, load
from r1perf.sla.account import Account
from r1perf.sla.clauses import Baseline, Clause
from r1perf.sla.finding import Verdict
from r1perf.sla.gaps import clusters, counted, open_gaps, stages_of
from r1perf.sla.judge import family
from r1perf.sla.limits import Watch
from r1perf.sla.tally import Tallied, Tallier, Tally
from r1perf.sla.terms import Terms, scope_of, unique
from r1perf.sla.validate import parse
from r1perf.sla.verdicts import read_verdicts, verdicts
from r1perf.summary import Document, Summary, document, read_document, recover

RUN_JSON = "run.json"


def judge_archive(
    run: Path,
    clauses: Sequence[str] | None = None,
    *,
    confidence: float | None = None,
    baseline: Sequence[Path] = (),
    beside: Sequence[Path] = (),
    damage: Damage = lambda sentence: None,
) -> list[Verdict]:
    """Judge one recorded run; raises ClauseError, ArchiveError.

    `clauses` None: those that its scenario declared; `confidence` None: its scenario's. Clauses against a baseline hold this run and those
    `beside` it (of the same side) against the `baseline` runs.
    """
    written = read_document(run)
    scenario = load(written.scenario)
    sure = scenario.sla.confidence if confidence is None else confidence
    stages = [(row.plan.name, row.plan.judged) for row in written.stages]
    scope = scope_of(scenario, stages)
    texts = scenario.sla.clauses if clauses is None else clauses
    terms = Terms(unique(parse(text, scope) for text in texts), sure)
    known = (
        {} if written.status == "running" else {one.clause: one for one in read_verdicts(written.sla) if one.confidence == sure}
    )
    open_ = tuple(c for c in terms.clauses if str(c) not in known or (isinstance(c.bound, Baseline) and (baseline or beside)))
    found = dict(known)
    if open_:
        asked = Terms(open_, sure)
        sides = [
            {str(c): _values(side, c, damage) for c in open_ if isinstance(c.bound, Baseline)} for side in (baseline, beside)
        ]
        account, built = _account(run, written, scenario, asked, damage)
        early = built.reason or built.status if built.early or built.status != "finished" else None
        found |= {
            one.clause: one
            for one in verdicts(account, invalid=built.validity.reasons, early=early, baselines=sides[0], beside=sides[1])
        }
    return family([msgspec.structs.replace(found[str(clause)], holm=None) for clause in terms.clauses])


def runs_in(path: Path) -> list[Path]:
    """Return a run's folder, or the runs of a folder of runs (`--repeat`); raises UsageError where there is none."""
    if (path / RUN_JSON).is_file():
        return [path]
    found = sorted(one.parent for one in path.glob(f"*/{RUN_JSON}"))
    if not found:
        raise UsageError(f"{path}: is no run archive, and no folder of some")
    return found


def _values(runs: Sequence[Path], clause: Clause, damage: Damage) -> tuple[float, ...]:
    """Return a clause's value in each run; one that has none, or that is not valid, says nothing of its side."""
    values = []
    for run in runs:
        written = read_document(run)
        scenario = load(written.scenario)
        account, built = _account(run, written, scenario, Terms((clause,)), damage)
        value = account.value(0) if built.validity.valid else None
        if value is not None:
            values.append(value)
    return tuple(values)


def _account(run: Path, written: Document, scenario: Scenario, terms: Terms, damage: Damage) -> tuple[Account, Document]:
    """Rebuild a run's summary and count it for these clauses."""
    workers = _workers(run)
    if not workers:
        raise ArchiveError(f"{run} holds neither requests nor snapshots: nothing in it can be judged")
    summary = recover(run, damage=damage)
    built = written if written.status != "running" else document(summary, "interrupted", "the run did not come to its end")
    origins, kept = dict[str, int](), True
    for worker in workers:
        path = snapshots_path(run, worker)
        first = next(read_snapshots(path), None) if path.exists() else None
        if first is None:
            kept = False
        else:
            origins[worker] = first.t0_ns
    watches = terms.watches(summary.stages)
    if any(watch.unit == "request" for watch in watches) and not all(requests_path(run, worker).exists() for worker in workers):
        raise ArchiveError(f"{run} lacks a requests file: clauses that its run did not declare cannot be counted")
    if any(watch.unit == "gap" for watch in watches) and not kept:
        raise ArchiveError(f"{run} lacks a snapshots file: gaps between chunks cannot be counted")
    tallied = Tallied()
    tallied.add(_requests(run, summary, watches, origins))
    gaps = [watch for watch in watches if watch.unit == "gap"]
    answers = [watch for watch in watches if watch.unit == "answer"]
    tallied.add(_graded(summary, answers))
    if gaps:
        stalled = open_gaps(summary, _results(run), origins)
        for worker in workers:
            tallied.add(counted(summary, read_snapshots(snapshots_path(run, worker)), gaps, stalled))
        slow = {watch.clause: tallied.total(watch.clause).causes.get("slow", 0) for watch in gaps}
        tallied.add([clusters(summary, _results(run), watch, slow[watch.clause]) for watch in gaps])
    bracketed = frozenset(watch.clause for watch in gaps)
    return Account(summary, scenario, terms, tallied, bracketed=bracketed, kept=kept), built


def _workers(run: Path) -> list[str]:
    names = {path.name.removeprefix("snapshots.") for path in run.glob("snapshots.*")}
    return sorted(names | {path.name.removeprefix("requests.").removesuffix(".jsonl") for path in run.glob("requests.*.jsonl")})


def _results(run: Path) -> Iterator[tuple[str, Result]]:
    for worker in _workers(run):
        path = requests_path(run, worker)
        if path.exists():
            for result in read_requests(path):
                yield worker, result


def _requests(run: Path, summary: Summary, watches: Sequence[Watch], origins: dict[str, int]) -> list[Tally]:
    """Count requests as a worker would have; answers are in `_graded`, since no line holds a grade."""
    asked = [watch for watch in watches if watch.unit != "answer"]
    tallier = Tallier(asked, {stage.index for stage in summary.judged})
    if asked:
        for worker, result in _results(run):
            tallier.ended(result, (result.scheduled_ns - origins.get(worker, result.scheduled_ns)) // summary.run.interval_ns)
    tallier.close()
    apart = {watch.clause for watch in asked if watch.unit == "gap"}  # whose clusters `clusters` makes
    return [row for row in tallier.take() if row.k >= 0 or row.clause not in apart]


def _graded(summary: Summary, watches: Sequence[Watch]) -> Iterator[Tally]:
    """Count answers from the grades of each interval."""
    for watch in watches:
        stages = stages_of(summary, watch)
        for k, flow in summary.flow.items():
            for (name, workload, stage), n in flow.items():
                if name.startswith("grade.") and watch.workload in (None, workload) and stage in stages:
                    grade = name.removeprefix("grade.")
                    missed = 0 if grade == "right" else n
                    yield Tally(watch.clause, k, n=n, over=missed, causes={grade: n} if missed else {})
