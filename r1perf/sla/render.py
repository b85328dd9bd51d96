"""Write a verdict for people: one line and what goes with it for a pass, the whole reckoning for anything else."""

from r1perf.result import FAILED
from r1perf.sla.clauses import Dimension
from r1perf.sla.finding import Verdict
from r1perf.sla.shares import WINDOW_ONLY
from r1perf.sla.wording import amount, count, duration, number, percent

_OUTCOMES = {
    "slow": "slow",
    "no_answer": "without an answer",
    "timeout": "timeout",
    "server_error": "HTTP 5xx",
    "client_error": "HTTP 4xx",
    "rate_limited": "HTTP 429",
}
_UNIT_OF = {"requests": "requests", "conversations": "conversations"}


def render(verdict: Verdict) -> str:
    """Return the verdict's lines, without a line end."""
    head = f"SLA {verdict.verdict.upper()}  {verdict.clause}"
    where = ", ".join(f"{key}={value}" for key, value in (("target", verdict.target), ("stage", verdict.stage)) if value)
    if verdict.verdict == "pass":
        return "\n  ".join([f"{head}: {verdict.says}" + _scope(verdict), *_notes(verdict, said=WINDOW_ONLY)])
    lines = [f"{head}   [{where}]" if where else head]
    if verdict.verdict != "fail" or verdict.over is None:
        lines.append(verdict.says)
    if verdict.over is not None and verdict.verdict == "fail":
        lines += _reckoning(verdict)
    elif verdict.lower is not None and verdict.upper is not None:
        lines.append(f"{'bounds':<10} {_bounds(verdict)}")
    needs = needed(verdict)
    if needs:
        lines.append(f"{'needs':<10} {needs}")
    if verdict.holm is False:
        lines.append("together   one fail among several clauses: it does not stand once all of them are counted (Holm)")
    return "\n  ".join([*lines, *_notes(verdict)])


def _notes(verdict: Verdict, said: str | None = None) -> list[str]:
    return [f"{'note':<10} {note}" for note in verdict.notes if note != said]


def needed(verdict: Verdict) -> str | None:
    """Say how much more would decide; None where nothing is known to."""
    if verdict.needs_requests is not None:
        long = f" ({duration(verdict.needs_s * 1e9)} at this rate)" if verdict.needs_s else ""
        thing = "gap" if verdict.clause.partition("(")[2].startswith("itl)") else "request"
        return f"about {count(verdict.needs_requests, f'more {thing}')}{long}"
    if verdict.needs_s is not None:
        return f"a window about {duration(verdict.needs_s * 1e9)} longer"
    if verdict.needs_runs is not None:
        return f"about {count(verdict.needs_runs, 'run')} a side"
    return None


def _reckoning(verdict: Verdict) -> list[str]:
    lines = []
    kind: Dimension = verdict.dimension or "time"
    if verdict.observed_name and (verdict.observed is not None or verdict.observed_ok is not None):
        all_of = _without_value(verdict) if verdict.observed is None else amount(verdict.observed, kind)
        ok = "" if verdict.observed_ok is None else f"   (those with a value {amount(verdict.observed_ok, kind)})"
        lines.append(f"{'observed':<10} {verdict.observed_name} = {all_of}{ok}")
    causes = ", ".join(_cause(name, n) for name, n in verdict.causes)
    share = "" if verdict.value is None else f" = {percent(verdict.value)}"
    share += f", of {verdict.planned:,} planned" if verdict.planned else ""
    may = "; none may" if verdict.allowed is None else f"; allowed {percent(verdict.allowed)}"
    lines.append(f"{'missed':<10} {verdict.over:,} of {verdict.n:,}{share}" + (f"  ({causes})" if causes else "") + may)
    if verdict.lower is not None:
        lines.append(f"{'bounds':<10} {_bounds(verdict)}")
    return lines


def _without_value(verdict: Verdict) -> str:
    """Say what stands at a percentile where no value does."""
    failed = sum(n for name, n in verdict.causes if name in FAILED)
    silent = dict(verdict.causes).get("no_answer", 0)
    if failed and not silent:
        return "a failed attempt stands there"
    parts = [f"{failed:,} failed"] * bool(failed) + [f"{silent:,} without an answer"] * bool(silent)
    return f"no value there ({', '.join(parts) or 'cut by the end of the run'})"


def _cause(name: str, n: int) -> str:
    word = _OUTCOMES.get(name, name.replace("_", " "))
    return count(n, word) if word.endswith(("error", "timeout")) else f"{n:,} {word}"


def _bounds(verdict: Verdict) -> str:
    assert verdict.lower is not None
    assert verdict.upper is not None
    if verdict.kind == "baseline":
        pair = f"{number(verdict.lower)} to {number(verdict.upper)} times the baseline"
    elif verdict.planned:
        pair = f"{percent(verdict.lower)} of the {verdict.planned:,} planned to {percent(verdict.upper)} of the {verdict.n:,}"
    elif verdict.n is not None:
        pair = f"{percent(verdict.lower)} to {percent(verdict.upper)}"
    else:
        kind: Dimension = verdict.dimension or "time"
        pair = f"{amount(verdict.lower, kind)} to {amount(verdict.upper, kind)}"
    how = [f"one-sided {percent(verdict.confidence)} each"]
    if verdict.n_eff is not None:
        how.append(f"exact binomial, n_eff {_effective(verdict.n_eff)}")
    if verdict.clusters == "time":
        times = "" if verdict.deff is None else f"deff {_deff(verdict.deff)}, "
        how.append(f"{times}{verdict.batches} x {duration((verdict.batch_s or 0) * 1e9)} batches")
    elif verdict.clusters in _UNIT_OF:
        how.append(f"deff {_deff(verdict.deff or 1)}, {verdict.batches:,} {verdict.clusters}")
    return f"{pair}  ({', '.join(how)})"


def _effective(n: float) -> str:
    return f"{n:,.0f}" if n >= 10 else f"{n:.2g}" if n >= 0.01 else "under 0.01"


def _deff(deff: float) -> str:
    return f"{deff:,.0f}" if deff >= 10 else f"{deff:.2g}"


def _scope(verdict: Verdict) -> str:
    return " (this run's window only)" if verdict.window_only else ""
