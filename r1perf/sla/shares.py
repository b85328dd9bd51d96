"""Judge claims on a share of attempts: quantiles, goodput, error rate, accuracy, and the largest value."""

from typing import Any

from r1perf.sla.binomial import at_least, attempts_to_decide, fails, lower, passes, upper
from r1perf.sla.curtailment import kindest
from r1perf.sla.dependence import Worth, worth
from r1perf.sla.evidence import Attempts
from r1perf.sla.wording import count, decide, percent

MOST_MORE = 100_000_000
"""Beyond so many attempts a claim is too near its limit to be decided."""

WINDOW_ONLY = (
    "the window has too few batches that outlast the requests: this holds for this run's window, not for the target at large"
)
_UNMEASURED = "dependence could not be measured: attempts count as independent"
_INDEPENDENT = "no intervals were kept: attempts count as independent"


def judge_share(seen: Attempts, allowed: float, alpha: float) -> dict[str, Any]:
    """Judge "at most this share of attempts misses"; return the fields of a Verdict."""
    if not seen.n:
        return {
            "verdict": "inconclusive",
            "says": _nothing(seen),
            "n": 0,
            "allowed": allowed,
            "not_applicable": seen.not_applicable,
        }
    worthy = worth(
        seen.n, alpha=alpha, intervals=seen.intervals, interval_s=seen.interval_s, residence_s=seen.residence_p90_s,
        requests=seen.requests, conversations=seen.conversations,
    )  # fmt: skip
    scale, high_x, n_eff = worthy.n_eff / seen.n, seen.over_possible * worthy.n_eff / seen.n, worthy.n_eff
    # A run that was ended early failed only where it would have failed at its end too, however the rest had turned out.
    ending = kindest(seen, worthy, allowed, alpha)
    n_fail = ending.worth.n_eff
    low_x = ending.over * n_fail / ending.n
    fields: dict[str, Any] = {
        "n": seen.n, "over": seen.over_certain, "over_possible": seen.over_possible, "allowed": allowed,
        "value": seen.over_certain / seen.n, "lower": lower(low_x, n_fail, alpha), "upper": upper(high_x, n_eff, alpha),
        "n_eff": n_fail, "deff": ending.worth.deff, "clusters": ending.worth.by, "batches": ending.worth.batches,
        "batch_s": ending.worth.batch_s, "window_only": ending.worth.window_only, "observed": seen.observed,
        "observed_ok": seen.observed_ok, "causes": seen.causes, "not_applicable": seen.not_applicable,
        "p_fail": at_least(low_x, n_fail, allowed), "notes": _notes(seen, ending.worth),
    }  # fmt: skip
    tally = f"{seen.over_certain:,} of {seen.n:,} = {percent(fields['value'])} missed, {percent(allowed)} may"
    planned, whole = seen.planned or 0, ""
    if planned > seen.n:
        fields["planned"], whole = planned, f" of the {planned:,} planned"
    if fails(low_x, n_fail, allowed, alpha):
        return fields | {"verdict": "fail", "says": f"{tally}; at least {percent(fields['lower'])}{whole} do"}
    passing = passes(high_x, n_eff, allowed, alpha)
    if whole and (passing or fails(seen.over_certain * scale, n_eff, allowed, alpha)):
        left, would = max(planned - seen.n - seen.not_applicable, 0), "pass" if passing else "fail"
        return fields | {"verdict": "inconclusive", "says": f"{tally}: that would {would}, but {left:,}{whole} were not sent"}
    if passing:
        return fields | {"verdict": "pass", "says": f"{tally}; at most {percent(fields['upper'])} do"}
    return fields | {"verdict": "inconclusive"} | _undecided(seen, fields, allowed, alpha, scale)


def judge_largest(seen: Attempts, alpha: float) -> dict[str, Any]:
    """Judge "no attempt of this run missed"; says of the target only how rare a miss must be."""
    if not seen.n:
        return {"verdict": "inconclusive", "says": _nothing(seen), "n": 0, "not_applicable": seen.not_applicable}
    fields: dict[str, Any] = {
        "n": seen.n, "over": seen.over_certain, "over_possible": seen.over_possible, "window_only": True, "observed": seen.observed,
        "observed_ok": seen.observed_ok, "causes": seen.causes, "not_applicable": seen.not_applicable,
    }  # fmt: skip
    if seen.over_certain:
        return fields | {"verdict": "fail", "says": f"{seen.over_certain:,} of {seen.n:,} missed, none may"}
    if seen.over_possible:
        return fields | {"verdict": "inconclusive", "says": f"{_cut(seen)} may have missed, none may"}
    share = percent(upper(0, seen.n, alpha))
    note = f"a largest value is that of this run: of other requests up to {share} may still miss"
    return fields | {"verdict": "pass", "says": f"none of {seen.n:,} missed", "notes": (note,)}


def _undecided(seen: Attempts, fields: dict[str, Any], allowed: float, alpha: float, scale: float) -> dict[str, Any]:
    """Say why neither bound decides, and how many more attempts would."""
    bounds = f"{percent(fields['lower'])} to {percent(fields['upper'])} straddle {percent(allowed)}"
    says = f"{seen.over_certain:,} of {seen.n:,} = {percent(fields['value'])} missed; {bounds}"
    unknown = seen.over_possible - seen.over_certain
    if unknown and (unknown == seen.n or passes(seen.over_certain * scale, seen.n * scale, allowed, alpha)):
        waiting = f", let {'it' if unknown == 1 else 'them'} end" if unknown > seen.missing and not seen.bracketed else ""
        return {"says": f"{says}; {_cut(seen)} {decide(unknown)}{waiting}"}
    if seen.bracketed:  # the bucket's share stays as well
        share, unknown = (seen.over_possible if seen.over_possible <= allowed * seen.n else seen.over_certain) / seen.n, 0
    else:
        share = seen.over_certain / (seen.n - unknown)
    total = attempts_to_decide(share, allowed, alpha, 1 / scale, MOST_MORE, unknown)
    if total is None:
        return {"says": f"{says}; too near its limit for any number of requests"}
    more = max(1, total - seen.n)
    window_s, inside = len(seen.intervals) * seen.interval_s, sum(n for n, _ in seen.intervals)
    needs: dict[str, Any] = {"says": says, "needs_requests": more}
    if inside:  # what an archive lost of the intervals is in `n` alone
        needs["needs_s"] = window_s * more / inside
    return needs


def _cut(seen: Attempts) -> str:
    unknown = seen.over_possible - seen.over_certain - seen.missing
    parts = [count(unknown, "value") + (" in the limit's bucket" if seen.bracketed else " cut by the end of the run")]
    return " and ".join([*(parts if unknown else ()), *((without_line(seen.missing),) if seen.missing else ())])


def without_line(n: int) -> str:
    """Name requests that an archive has lost."""
    return f"{count(n, 'request')} without a line in the archive"


def _nothing(seen: Attempts) -> str:
    if seen.not_applicable:
        return f"nothing to judge: the metric does not apply to any of {count(seen.not_applicable, 'request')}"
    return "nothing to judge: no request matches"


def _notes(seen: Attempts, worthy: Worth) -> tuple[str, ...]:
    notes = []
    if not seen.intervals:
        notes.append(_INDEPENDENT)
    elif not worthy.measured:
        notes.append("no miss to measure dependence by: attempts count as independent" if not seen.over_certain else _UNMEASURED)
    if worthy.window_only:
        notes.append(WINDOW_ONLY)
    if seen.over_possible > seen.over_certain:
        notes.append(f"{_cut(seen)}: counted both ways")
    if seen.not_applicable:
        notes.append(f"not applicable to {count(seen.not_applicable, 'request')}")
    return tuple(notes)
