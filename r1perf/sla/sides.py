"""Judge claims against a baseline: several runs a side, the run is the unit."""

from typing import Any

from r1perf.sla.baseline import Comparison, runs_to_decide, welch
from r1perf.sla.clauses import Baseline, Clause
from r1perf.sla.evidence import Runs
from r1perf.sla.wording import count, percent


def judge_runs(clause: Clause, baseline: Baseline, seen: Runs, alpha: float) -> dict[str, Any]:
    """Judge "the ratio to the baseline lies on this side of the margin"; return the fields of a Verdict.

    What was left out of a side, and why, stands in the notes. The margin is the minimum effect: a difference fails only when it is
    significantly larger than the clause allows. Whether the sides differ at all is said beside it.
    """
    fields = _judged(clause, baseline, seen, alpha)
    return fields | {"notes": (*fields.get("notes", ()), *seen.left_out)} if seen.left_out else fields


def _judged(clause: Clause, baseline: Baseline, seen: Runs, alpha: float) -> dict[str, Any]:
    sides = f"{count(len(seen.current), 'run')} against {count(len(seen.baseline), 'run')}"
    if not seen.current or not seen.baseline:
        return {"verdict": "inconclusive", "says": f"nothing to compare: {sides} of the baseline"}
    if min(*seen.current, *seen.baseline) <= 0:
        return {"verdict": "inconclusive", "says": "a ratio to the baseline needs values above zero on both sides"}
    if min(len(seen.current), len(seen.baseline)) < 2:
        ratio = _mean(seen.current) / _mean(seen.baseline)
        says = f"{_change(ratio)} against the baseline, but {sides} cannot be judged: runs of the same system differ too"
        return {"verdict": "inconclusive", "says": says, "value": ratio, "needs_runs": 3}
    found = welch(seen.current, seen.baseline, alpha)
    margin = baseline.ratio
    p_fail = welch(seen.current, seen.baseline, alpha, margin)
    fields: dict[str, Any] = {
        "value": found.ratio, "lower": found.lower, "upper": found.upper,
        "p_fail": p_fail.p_less if clause.upward else p_fail.p_more, "notes": (_differ(found, alpha),),
    }  # fmt: skip
    best, worst = (found.upper, found.lower) if clause.upward else (found.lower, found.upper)
    says = f"{_change(found.ratio)} against the baseline ({_change(found.lower)} to {_change(found.upper)}, {sides})"
    if (worst >= margin) if clause.upward else (worst <= margin):
        return fields | {"verdict": "pass", "says": says}
    if (best < margin) if clause.upward else (best > margin):
        return fields | {"verdict": "fail", "says": says}
    needed = runs_to_decide(found.ratio, margin, found.error, min(len(seen.current), len(seen.baseline)), alpha)
    return fields | {"verdict": "inconclusive", "says": says, "needs_runs": needed}


def _change(ratio: float) -> str:
    """Write a ratio as a change: `+3.2 %`."""
    return ("+" if ratio >= 1 else "-") + percent(abs(ratio - 1))


def _differ(found: Comparison, alpha: float) -> str:
    """Say whether the sides differ; in which direction is read off the data, hence two-sided."""
    p = min(1.0, 2 * min(found.p_more, found.p_less))
    if p >= alpha:
        return f"no difference from the baseline is shown (Welch on log values, p = {p:.2g})"
    return f"{'more' if found.p_more < found.p_less else 'less'} than the baseline (Welch on log values, p = {p:.2g})"


def _mean(values: tuple[float, ...]) -> float:
    return sum(values) / len(values)
