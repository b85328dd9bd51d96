"""Judge claims on a ratio of sums over time: throughput, means, cost, goodput per second."""

import math
from typing import Any

import msgspec

from r1perf.sla.bootstrap import RESAMPLES, Spread, ratio
from r1perf.sla.clauses import Clause, Dimension
from r1perf.sla.evidence import Flow
from r1perf.sla.shares import WINDOW_ONLY, without_line
from r1perf.sla.wording import amount, count, decide


def judge_flow(clause: Clause, seen: Flow, bound: float, dimension: Dimension, alpha: float, seed: int = 0) -> dict[str, Any]:
    """Judge "the ratio lies on this side of the bound"; return the fields of a Verdict."""
    spread = ratio(
        seen.intervals, alpha=alpha, against=bound, interval_s=seen.interval_s, residence_s=seen.residence_p90_s, seed=seed
    )
    if spread is None:
        parts = [without_line(seen.missing)] * bool(seen.missing) + [_untold(seen)] * bool(seen.untold)
        left = f", and {' and '.join(parts)}" if parts else ""
        return {"verdict": "inconclusive", "says": f"nothing to judge: no interval has a value{left}", "dimension": dimension}
    known, spread = spread, _with_cut(seen, spread)
    best, worst = _ends(clause, spread)
    p_fail = spread.at_or_over if clause.upward else 1 - spread.at_or_over
    fields: dict[str, Any] = {
        "dimension": dimension, "value": spread.value, "lower": spread.lower, "clusters": "time",
        "upper": spread.upper if math.isfinite(spread.upper) else None,
        "batches": spread.blocks, "batch_s": spread.block_s, "window_only": spread.window_only, "notes": _notes(seen, spread),
        "p_fail": max(p_fail, 1 / RESAMPLES),
    }  # fmt: skip
    name = str(clause.aggregate)
    if _meets(clause, worst, bound):
        edge = "at least" if clause.upward else "at most"
        return fields | {
            "verdict": "pass",
            "says": f"{name} = {amount(spread.value, dimension)}, {edge} {amount(worst, dimension)}",
        }
    if not _meets(clause, best, bound):
        edge = "at most" if clause.upward else "at least"
        return fields | {
            "verdict": "fail",
            "says": f"{name} = {amount(spread.value, dimension)}, {edge} {amount(best, dimension)}",
        }
    says = f"{name} = {amount(spread.value, dimension)}; {amount(spread.lower, dimension)} to {amount(spread.upper, dimension)} straddle the bound"
    best, worst = _ends(clause, known)
    if _meets(clause, worst, bound) or not _meets(clause, best, bound):  # no longer window would tell more of what is not known
        unknown = seen.cut + seen.unknown + seen.untold
        return fields | {"verdict": "inconclusive", "says": f"{says}; {' and '.join(_unknown(seen))} {decide(unknown)}"}
    return fields | {"verdict": "inconclusive", "says": says} | _needs(seen, known, bound)


def _ends(clause: Clause, spread: Spread) -> tuple[float, float]:
    """Return the bound that is best for the clause, and the worst."""
    return (spread.upper, spread.lower) if clause.upward else (spread.lower, spread.upper)


def _meets(clause: Clause, value: float, bound: float) -> bool:
    match clause.op:
        case "<":
            return value < bound
        case "<=":
            return value <= bound
        case ">":
            return value > bound
    return value >= bound


def _with_cut(seen: Flow, spread: Spread) -> Spread:
    """Move each bound by what the requests of which not all is known can do to it."""
    if not seen.cut and not seen.unknown and not seen.untold:
        return spread
    numerator = sum(a for a, _ in seen.intervals)
    denominator = sum(b for _, b in seen.intervals)
    ends = ((seen.cut_low, seen.cut), (seen.cut_high, seen.cut), *seen.untold_ends)
    moved = [(numerator + a) / (denominator + b) - spread.value for a, b in ends]
    return msgspec.structs.replace(spread, lower=spread.lower + min(0.0, *moved), upper=spread.upper + max(0.0, *moved))


def _needs(seen: Flow, spread: Spread, bound: float) -> dict[str, Any]:
    """Say how much longer a window would decide: bounds close in with the root of its length."""
    away = abs(spread.value - bound)
    reach = spread.upper - spread.value if spread.value < bound else spread.value - spread.lower
    window_s = len(seen.intervals) * seen.interval_s
    if away == 0 or (reach / away) ** 2 > 10_000:
        return {}
    return {"needs_s": max(0.0, window_s * ((reach / away) ** 2 - 1))}


def _unknown(seen: Flow) -> list[str]:
    """Name the requests of which it is not known what they add."""
    cut = seen.cut + seen.unknown - seen.missing
    parts = [f"{count(cut, 'request')} cut by the end of the run"] * bool(cut)
    return parts + [without_line(seen.missing)] * bool(seen.missing) + [_untold(seen)] * bool(seen.untold)


def _untold(seen: Flow) -> str:
    return f"{count(seen.untold, 'request')} whose input tokens nobody told"


def _notes(seen: Flow, spread: Spread) -> tuple[str, ...]:
    notes = []
    if spread.window_only:
        notes.append(WINDOW_ONLY)
    notes += [f"{unknown}: counted both ways" for unknown in _unknown(seen)]
    if seen.without_value:
        notes.append(
            f"{count(seen.without_value, 'failed request')} without a value: a mean does not see them, an error_rate clause does"
        )
    return tuple(notes)
