"""Judge clauses on their evidence: pass, fail, inconclusive, or error where the run itself cannot be judged.

    pass          the pessimistic bound meets the clause
    fail          the optimistic bound misses it
    inconclusive  neither; the verdict says how much more would decide
    error         the run is invalid: it says nothing on the target

What cannot be known (requests cut by the end, values in the limit's histogram bucket) counts as bad for a pass and as good for a
fail (Manski 1989). Nothing to judge is inconclusive, never a pass.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from r1perf.metrics import METRICS
from r1perf.sla.clauses import Baseline, Bound, Clause, Dimension, Goodput, Max, Mean, Quantile, dimension
from r1perf.sla.compile import allowed
from r1perf.sla.evidence import Absent, Attempts, Circumstances, Evidence, Flow, Runs
from r1perf.sla.finding import Verdict
from r1perf.sla.flows import judge_flow
from r1perf.sla.multiple import holm
from r1perf.sla.shares import judge_largest, judge_share
from r1perf.sla.sides import judge_runs

_UNITS: dict[str, str] = {metric.name: metric.unit for metric in METRICS.values()}
_NOT_HELD = Circumstances()


def judge(
    clause: Clause, evidence: Evidence, circumstances: Circumstances = _NOT_HELD, *, confidence: float = 0.95, seed: int = 0
) -> Verdict:
    """Judge one clause; raises TypeError where the evidence is of another kind than the clause."""
    alpha = 1 - confidence
    if circumstances.invalid:
        fields: dict[str, Any] = {"verdict": "error", "says": f"the run is invalid: {'; '.join(circumstances.invalid)}"}
    else:
        fields = _judge(clause, evidence, alpha, seed)
        if circumstances.early is not None:
            early = f"the run ended early ({circumstances.early})"
            if _settled(clause, evidence, fields):
                fields["notes"] = (*fields.get("notes", ()), early)
            else:
                fields |= {"verdict": "inconclusive", "says": f"{early}; so far {fields['says']}"}
    kind = "baseline" if isinstance(clause.bound, Baseline) else str(msgspec.to_builtins(clause.aggregate)["kind"])
    fields["notes"] = (*fields.get("notes", ()), *circumstances.notes)
    fields.setdefault("dimension", _dimension(clause))
    return Verdict(
        clause=str(clause), kind=kind, confidence=confidence, target=circumstances.target, stage=clause.during,
        observed_name=_observed_name(clause), **fields,
    )  # fmt: skip


def family(verdicts: Sequence[Verdict]) -> list[Verdict]:
    """Mark each fail with whether it stands for the whole family of clauses (Holm); passes need no correction."""
    if not verdicts:
        return []
    stands = holm([one.p_fail for one in verdicts], 1 - max(one.confidence for one in verdicts))
    return [
        msgspec.structs.replace(one, holm=stand) if one.verdict == "fail" and one.p_fail is not None else one
        for one, stand in zip(verdicts, stands, strict=True)
    ]


def _judge(clause: Clause, evidence: Evidence, alpha: float, seed: int) -> dict[str, Any]:
    share = allowed(clause)
    match evidence:
        case Absent():
            return {"verdict": "inconclusive", "says": f"cannot be judged: {evidence.why}"}
        case Attempts() if share is not None:
            return judge_share(evidence, share, alpha)
        case Attempts() if isinstance(clause.aggregate, Max):
            return judge_largest(evidence, alpha)
        case Flow() if isinstance(clause.bound, Bound) and share is None and not isinstance(clause.aggregate, Max):
            return judge_flow(clause, evidence, clause.bound.value, _dimension(clause), alpha, seed)
        case Runs() if isinstance(clause.bound, Baseline):
            return judge_runs(clause, clause.bound, evidence, alpha)
    raise TypeError(f"`{clause}` cannot be judged on {type(evidence).__name__}")


def _settled(clause: Clause, evidence: Evidence, fields: dict[str, Any]) -> bool:
    """Say whether a fail stands though the run ended early: a largest value that missed, or misses that fail all that was planned."""
    known = isinstance(evidence, Attempts) and (evidence.planned is not None or isinstance(clause.aggregate, Max))
    return known and fields["verdict"] == "fail"


def _dimension(clause: Clause) -> Dimension:
    """Return the dimension of what is bounded; a goodput is a share unless its bound is a rate."""
    wanted = dimension(clause.aggregate, _UNITS)
    if isinstance(clause.aggregate, Goodput) and isinstance(clause.bound, Bound) and clause.bound.unit.startswith("/"):
        return "rate"
    return wanted[0]


def _observed_name(clause: Clause) -> str | None:
    """Name the observed value: p95, or p5 where 95 % are to reach a bound."""
    match clause.aggregate:
        case Quantile() as quantile if isinstance(clause.bound, Bound):
            return f"p{100 * quantile.missing:.6g}" if clause.upward else f"p{quantile.percent}"
        case Max():
            return "max"
        case Mean():
            return "mean"
    return None
