"""Judge recorded runs, from their archives alone and with any clauses.

A clause that the run itself declared keeps its verdict, which was made of exact live counts. Others are counted anew (`recount`): requests one
by one from `requests.<worker>.jsonl`, gaps between chunks from the histograms of each interval, where the bucket that holds the limit counts
both ways.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from r1perf.errors import UsageError
from r1perf.journal import Damage
from r1perf.scenario import load
from r1perf.sla.clauses import Baseline, Clause
from r1perf.sla.comparable import Picked, sides
from r1perf.sla.finding import Verdict
from r1perf.sla.judge import family
from r1perf.sla.recount import recount
from r1perf.sla.terms import Terms, scope_of, unique
from r1perf.sla.validate import parse
from r1perf.sla.verdicts import Side, read_verdicts, verdicts
from r1perf.summary.archived import RUN_JSON, standing


def judge_archive(
    run: Path,
    clauses: Sequence[str] | None = None,
    *,
    confidence: float | None = None,
    baseline: Sequence[Path] = (),
    beside: Sequence[Path] = (),
    damage: Damage = lambda sentence: None,
) -> list[Verdict]:
    """Judge one recorded run; raises ClauseError, ArchiveError, and UsageError where a run is on both sides of a comparison.

    `clauses` None: those that its scenario declared; `confidence` None: its scenario's. Clauses against a baseline hold this run and those
    `beside` it (of the same side) against the `baseline` runs, as far as they are `comparable`.
    """
    written, alive = standing(run)
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
        held = [clause for clause in open_ if isinstance(clause.bound, Baseline)]
        against, with_it = sides(run, baseline, beside) if held else (Picked(()), Picked(()))
        account, built = recount(run, written, scenario, asked, damage, alive=alive)
        early = built.reason or built.status if built.early or built.status != "finished" else None
        found |= {
            one.clause: one
            for one in verdicts(
                account,
                invalid=built.validity.reasons,
                early=early,
                baselines={str(clause): _side(against, clause, damage) for clause in held},
                beside={str(clause): _side(with_it, clause, damage) for clause in held},
            )
        }
    return family([msgspec.structs.replace(found[str(clause)], holm=None) for clause in terms.clauses])


def on_disk(path: str) -> str:
    """Refuse the address of recorded runs that are no folder: they have no single requests. Raises UsageError."""
    if "://" in path:
        raise UsageError(
            f"{path}: recorded runs are read from folders, since a database has no single requests; give the run's archive"
        )
    return path


def runs_in(path: Path) -> list[Path]:
    """Return a run's folder, or the runs of a folder of runs (`--repeat` makes one); raises UsageError where there is none."""
    if (path / RUN_JSON).is_file():
        return [path]
    found = sorted(one.parent for one in path.glob(f"*/{RUN_JSON}"))
    if not found:
        deeper = sorted({str(one.parent.parent) for one in path.glob(f"*/*/{RUN_JSON}")})
        hint = f"; {', '.join(deeper)} {'is one' if len(deeper) == 1 else 'are some'}" if deeper else ""
        raise UsageError(f"{path}: is no run archive, and no folder of some{hint}")
    return found


def passed_over(path: Path) -> list[str]:
    """Say which folders of runs lie deeper in a folder of runs, so that `runs_in` does not go into them."""
    if (path / RUN_JSON).is_file():
        return []
    deeper = Counter(one.parent.parent for one in path.glob(f"*/*/{RUN_JSON}") if not (one.parent.parent / RUN_JSON).is_file())
    return [f"{folder} was passed over: it is a folder of {n} run{'s' * (n > 1)}" for folder, n in sorted(deeper.items())]


def _side(picked: Picked, clause: Clause, damage: Damage) -> Side:
    """Return a clause's value in each run; one that has none, or that is not valid, says nothing of its side."""
    values, left_out = list[float](), list(picked.notes)
    for run in picked.runs:
        written, alive = standing(run)
        account, built = recount(run, written, load(written.scenario), Terms((clause,)), damage, alive=alive)
        value = account.value(0)
        if not built.validity.valid:
            left_out.append(f"{run} was left out: it is invalid ({'; '.join(built.validity.reasons)})")
        elif value is None:
            left_out.append(f"{run} was left out: {account.absent(0) or 'it has no value'}")
        else:
            values.append(value)
    return Side(tuple(values), tuple(left_out))
