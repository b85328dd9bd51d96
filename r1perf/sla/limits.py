"""Say what one request means for one clause: met, missed, not known, or not applicable.

Live and recorded runs use this one rule, so they cannot disagree. It needs nothing above `result`.
"""

import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from r1perf.histogram import IntArray
from r1perf.result import CENSORED, FAILED, Outcome, Result


class Fate(StrEnum):
    """What a request means for a clause. `UNKNOWN`: the end of the run cut it before it showed."""

    MET = "met"
    MISSED = "missed"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


STREAMED = frozenset({"ttft", "service_ttft", "ttft_cold", "ttft_warm", "ttfo", "thinking", "itl", "itl_max", "tpot"})
"""Metrics that only a streamed response has."""

_BEFORE = frozenset({"schedule_delay", "connect"})
"""Metrics that are over before the target can fail a request: what a failed one shows of them counts."""


class Limit(msgspec.Struct, frozen=True, array_like=True):
    """One bound on a metric of METRICS, in ns or tokens."""

    metric: str
    op: Literal["<", "<=", ">", ">="]
    value: float

    def holds(self, value: float) -> bool:
        """Say whether a value meets the bound."""
        match self.op:
            case "<":
                return value < self.value
            case "<=":
                return value <= self.value
            case ">":
                return value > self.value
        return value >= self.value

    def hold(self, values: IntArray) -> npt.NDArray[np.bool_]:
        """Say of each value whether it meets the bound."""
        return _COMPARE[self.op](values, self.value)


_COMPARE: dict[str, Callable[..., npt.NDArray[np.bool_]]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class Watch(msgspec.Struct, frozen=True, array_like=True):
    """What a worker counts for one clause.

    A request meets it when it did not fail and every limit holds; no limit at all counts failures (error rate). `unit` says what
    an attempt is: a request, a gap between chunks, or a graded answer. `stages` are indices; None is every judged stage.
    """

    clause: int  # place in the run's list of clauses
    limits: tuple[Limit, ...] = ()
    workload: str | None = None
    stages: tuple[int, ...] | None = None
    unit: Literal["request", "gap", "answer"] = "request"


def fate(limits: Sequence[Limit], result: Result) -> Fate:
    """Say what a request means for limits that must all hold."""
    if result.outcome in FAILED and not _before(limits):
        return Fate.MISSED
    if not limits:
        return Fate.UNKNOWN if result.outcome in CENSORED else Fate.MET
    fates = [_fate(limit, result) for limit in limits]
    for worst in (Fate.MISSED, Fate.UNKNOWN, Fate.MET):
        if worst in fates:
            return worst
    return Fate.NOT_APPLICABLE


def cause(limits: Sequence[Limit], result: Result) -> str:
    """Say why a request missed: its outcome, `slow`, or `no_answer` where it ended well and never showed what was limited."""
    values = [(limit, measured(limit.metric, result)) for limit in limits]
    if result.outcome in FAILED and not (_before(limits) and any(value is not None for _, value in values)):
        return str(result.outcome)
    shown = result.outcome in CENSORED or any(value is not None and not limit.holds(value) for limit, value in values)
    return "slow" if shown else "no_answer"


def _before(limits: Sequence[Limit]) -> bool:
    return bool(limits) and all(limit.metric in _BEFORE for limit in limits)


def _fate(limit: Limit, result: Result) -> Fate:
    if limit.metric in STREAMED and not result.streamed:
        return Fate.NOT_APPLICABLE
    if result.outcome in CENSORED:
        low = _reached(limit.metric, result)
        return _between(limit, low, low if _final(limit.metric, result) else math.inf)
    value = measured(limit.metric, result)
    if value is not None:
        return Fate.MET if limit.holds(value) else Fate.MISSED
    never_produced = limit.metric in ("ttft", "service_ttft", "ttfo", "e2e", "service_e2e") and result.streamed
    return Fate.MISSED if never_produced or (limit.metric == "connect" and result.unconnected) else Fate.NOT_APPLICABLE


def _between(limit: Limit, low: float, high: float) -> Fate:
    """Judge a value that is known to lie between two; every operator is monotone, so the ends decide."""
    ends = limit.holds(low), limit.holds(high)
    return Fate.MET if all(ends) else Fate.UNKNOWN if any(ends) else Fate.MISSED


def measured(metric: str, result: Result) -> float | None:
    """Return a metric of an ended request in ns or tokens; None where it has none. `itl` belongs to gaps, not to requests."""
    if metric in STREAMED and not result.streamed:
        return None
    match metric:
        case "schedule_delay":
            return _span(result.scheduled_ns, result.sent_ns)
        case "ttft":
            return _span(result.scheduled_ns, result.first_ns)
        case "service_ttft":
            return _span(result.sent_ns, result.first_ns)
        case "ttft_cold" | "ttft_warm":
            return measured("ttft", result) if metric == f"ttft_{result.usage.warmth}" else None
        case "ttfo":
            return _span(result.scheduled_ns, result.first_answer_ns)
        case "thinking":
            return _span(result.first_reasoning_ns, result.first_answer_ns)
        case "e2e":
            return _span(result.scheduled_ns, result.last_ns)
        case "service_e2e":
            return _span(result.sent_ns, result.last_ns)
        case "connect":
            return result.connect_ns
        case "itl_max":
            return result.itl_max_ns
        case "tpot":
            return _tpot(result)
    tokens: int | None = getattr(result.usage, metric)
    return tokens


def final(metric: str, result: Result) -> float | None:
    """Return the metric of a request that has one for good: not of one that failed later, nor of one cut before it showed."""
    if (result.outcome in FAILED and metric not in _BEFORE) or (result.outcome in CENSORED and not _final(metric, result)):
        return None
    return measured(metric, result)


def at_least(metric: str, result: Result) -> float | None:
    """Return the least that the metric of a request that was cut can be; None where it is known or the request was not cut."""
    return None if result.outcome not in CENSORED or _final(metric, result) else _reached(metric, result)


def at_most(metric: str, result: Result) -> float | None:
    """Return the most tokens that a request that was cut can have; None where the request itself says nothing of that."""
    match metric:
        case "output_tokens" | "reasoning_tokens":
            return result.length_ordered if result.length_ordered is not None else result.output_most
        case "input_tokens" | "cached_tokens":
            return result.input_most if result.usage.input_tokens is None else result.usage.input_tokens
    return None


def _span(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else end_ns - start_ns


def _tpot(result: Result) -> float | None:
    """Return the same as `recorder.ending.tpot_us`, unrounded and in ns."""
    tokens = result.usage.output_tokens
    if tokens is None or result.first_ns is None or result.last_ns is None:
        return None
    if result.reasoning_hidden:
        tokens -= result.usage.reasoning_tokens or 0
    return (result.last_ns - result.first_ns) / (tokens - 1) if tokens > 1 else None


def _final(metric: str, result: Result) -> bool:
    """Say whether a request that was cut had already shown its value of the metric: only what its beginning fixes."""
    match metric:
        case "schedule_delay":
            return result.sent_ns is not None
        case "connect":
            return result.connect_ns is not None
        case "ttft" | "service_ttft":
            return result.first_ns is not None
    return False


def _reached(metric: str, result: Result) -> float:
    """Return the least that the metric of a cut request can be: what it showed, or how long it had waited without showing it."""
    if result.outcome is not Outcome.CANCELLED:
        return 0.0  # never sent, or gone with its worker: nothing is known
    if _final(metric, result):
        return measured(metric, result) or 0.0
    match metric:
        case "ttft" | "e2e":
            return result.done_ns - result.scheduled_ns
        case "ttfo":
            # A later reasoning chunk would move it out, so an answer that has begun is a least value, not a final one.
            return (result.first_answer_ns or result.done_ns) - result.scheduled_ns
        case "service_ttft" | "service_e2e":
            return result.done_ns - (result.sent_ns or result.done_ns)
        case "itl_max":
            open_gap = result.done_ns - result.last_ns if result.last_ns else 0
            return max(result.itl_max_ns or 0, open_gap)
        case "schedule_delay":
            return result.done_ns - result.scheduled_ns
    return 0.0
