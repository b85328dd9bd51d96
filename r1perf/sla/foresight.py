"""Say before a run what its clauses need, and whether the plan has it: an inconclusive verdict is known to come."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from r1perf.sla.binomial import attempts_for_power, attempts_to_pass
from r1perf.sla.clauses import Accuracy, Baseline, Bound, Clause, Goodput, Max, Quantile
from r1perf.sla.compile import allowed
from r1perf.sla.dependence import ENOUGH
from r1perf.sla.wording import count, duration, percent

if TYPE_CHECKING:  # workers judge clauses, and foresee none
    from r1perf.check import Check

POWER = 0.8


class Foresight(msgspec.Struct, frozen=True):
    """What one clause needs. `enough` is False where it will be inconclusive whatever happens, None where that is not known."""

    clause: str
    says: str
    enough: bool | None


def foresee_in(
    made: "Check", clause: Clause, *, confidence: float, interval_s: float, sent: Mapping[str, float] | None = None
) -> Foresight:
    """Hold a clause against a plan; `sent` are the shares of its stages that are sent, where something ends it before."""
    workload = clause.select("workload")
    rows = [row for row in made.rows if row.judged and workload in (None, row.workload) and clause.during in (None, row.stage)]
    shares = {stage.name: 1.0 if sent is None else sent[stage.name] for stage in made.stages}
    whole = all(share == 1 for share in shares.values())
    return foresee(
        clause,
        sum(row.requests * shares[row.stage] for row in rows),
        exact=all(row.counted for row in rows) and (whole or len(made.needs) == 1),
        window_s=sum({row.stage: row.seconds * shares[row.stage] for row in rows}.values()),
        residence_s=made.longest_s,
        confidence=confidence,
        interval_s=interval_s,
    )


def foresee(
    clause: Clause,
    requests: float,
    *,
    exact: bool,
    window_s: float,
    residence_s: float,
    confidence: float,
    interval_s: float = 1.0,
) -> Foresight:
    """Hold a clause against the plan: its judged `requests` (`exact`, or expected), their window, and how long one stays.

    Gaps come in lumps: where few requests, or few intervals of `interval_s`, had a miss, each counts as one attempt (`dependence`).
    """
    has = f"the plan has {'' if exact else 'about '}{count(round(requests), 'request')}"
    if isinstance(clause.bound, Baseline):
        return Foresight(str(clause), "needs several runs on both sides: --repeat, --baseline", None)
    if isinstance(clause.aggregate, Max):
        return Foresight(str(clause), f"speaks of this run only; {has}", requests > 0)
    share = allowed(clause)
    if share is None:
        blocks = f"needs a window of {ENOUGH} times the {duration(residence_s * 1e9)} that a request is expected to stay"
        return Foresight(str(clause), f"{blocks}; the plan has {duration(window_s * 1e9)}", None)
    alpha = 1 - confidence
    least, likely = attempts_to_pass(0, share, alpha), attempts_for_power(share, share / 2, POWER, alpha)
    thing, most = "graded answer" if isinstance(clause.aggregate, Accuracy) else "request", requests
    needs = count(least, thing)
    if isinstance(clause.aggregate, Quantile) and clause.aggregate.metric == "itl":
        intervals = round(window_s / interval_s)
        needs = f"{needs} and {count(least, 'interval')} of {duration(interval_s * 1e9)} with gaps"
        has, most = f"{has} and {count(intervals, 'interval')}", min(requests, intervals)
    says = f"needs {needs} if none misses, {likely:,} if {percent(share / 2)} miss; {has}"
    if most < least:
        return Foresight(str(clause), f"{says}: too few, whatever happens", False)
    return Foresight(str(clause), says, True if most >= likely else None)


def warning(clauses: Sequence[Clause], *, window_s: float, residence_s: float) -> str | None:
    """Say that the window is too short for verdicts on the target at large; None where it is not."""
    judged = any(isinstance(one.bound, Bound) and isinstance(one.aggregate, Quantile | Goodput | Accuracy) for one in clauses)
    if not judged or window_s >= ENOUGH * residence_s:
        return None
    return (
        f"a judged window of {duration(window_s * 1e9)} holds fewer than {ENOUGH} batches that outlast a request "
        f"({duration(residence_s * 1e9)} expected): verdicts will stand for the run's window only"
    )
