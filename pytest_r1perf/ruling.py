"""Make a test's outcome of a verdict: what `r1_inconclusive` says."""

from r1perf.sla import Bound, Clause, Verdict

_ROUNDING = 1e-12
"""1 - 0.9 is a little less than 0.1."""


def estimate(clause: Clause, verdict: Verdict) -> bool | None:
    """Say whether what was observed meets the clause, proven or not; None where nothing was observed."""
    if verdict.n is not None:
        unknown = (verdict.over_possible or 0) - (verdict.over or 0)
        known = verdict.n - unknown
        if not known:
            return None
        return (verdict.over or 0) / known <= (verdict.allowed or 0.0) + _ROUNDING
    if verdict.value is None:
        return None
    bound = clause.bound.value if isinstance(clause.bound, Bound) else clause.bound.ratio
    match clause.op:
        case "<":
            return verdict.value < bound
        case "<=":
            return verdict.value <= bound
        case ">":
            return verdict.value > bound
    return verdict.value >= bound
