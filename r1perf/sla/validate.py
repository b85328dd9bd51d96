"""Check, before a run, that a clause's names, units and numbers can be judged at all."""

import msgspec

from r1perf.metrics import METRICS
from r1perf.sla.clauses import (
    ALLOWED_UNITS,
    COSTS,
    LIMITED,
    THROUGHPUTS,
    UNITS,
    Accuracy,
    Aggregate,
    Baseline,
    Bound,
    Clause,
    Cost,
    ErrorRate,
    Goodput,
    Max,
    Mean,
    Quantile,
    Throughput,
    dimension,
)  # fmt: skip
from r1perf.sla.grammar import Reading, did_you_mean, read
from r1perf.sla.limits import STREAMED
from r1perf.target import Timeouts

_METRIC_UNITS: dict[str, str] = {metric.name: metric.unit for metric in METRICS.values()}
_NAMES = (*METRICS, "interactivity")
_KEYS = ("workload", "target")

_TIMEOUTS: dict[str, tuple[str, ...]] = {
    "ttft": ("first_chunk", "total"),
    "service_ttft": ("first_chunk", "total"),
    "ttfo": ("total",),
    "thinking": ("total",),
    "itl": ("between_chunks", "total"),
    "itl_max": ("between_chunks", "total"),
    "e2e": ("total",),
    "service_e2e": ("total",),
    "connect": ("connect",),
}
"""The client's timeouts that end a request before it can show a larger value of the metric."""


class Scope(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has that a clause may name. `stages` are the judged ones, `ungraded` the workloads whose answers have no grades.

    `by_tokens` says that the price is one of tokens; GPU hours cannot be parted between workloads. `streamed` False: answers come in one piece.
    """

    workloads: tuple[str, ...]
    stages: tuple[str, ...]
    unjudged: tuple[str, ...] = ()
    target: str | None = None
    timeouts: Timeouts | None = None
    ungraded: tuple[str, ...] = ()
    priced: bool = True
    by_tokens: bool = True
    streamed: bool = True


def parse(text: str, scope: Scope | None = None) -> Clause:
    """Read a clause and check it, with a scope also against the run; raises ClauseError with column and what is allowed."""
    reading = read(text)
    _check_aggregate(reading)
    _check_bound(reading)
    _check_selector(reading)
    if scope is not None:
        _check_scope(reading, scope)
    return reading.clause


def _check_aggregate(reading: Reading) -> None:
    match reading.clause.aggregate:
        case Quantile() as quantile:
            if not 0 < quantile.missing < 1:
                raise reading.error("fn", f"`p{quantile.percent}` is no percentile; allowed: between p0 and p100, or max")
            _check_name(reading, "metric", "metric", quantile.metric, _NAMES)
        case Mean() as mean:
            _check_name(reading, "metric", "metric", mean.metric, tuple(METRICS))
        case Max() as largest:
            _check_name(reading, "metric", "metric", largest.metric, _NAMES)
        case Throughput() as throughput:
            _check_name(reading, "metric", "throughput", throughput.of, THROUGHPUTS)
        case Cost() as cost:
            _check_name(reading, "metric", "cost", cost.of, COSTS)
        case Goodput() as goodput:
            for index, limit in enumerate(goodput.limits):
                _check_name(reading, f"limit {index}", "limit", limit.metric, LIMITED)
                if UNITS[limit.bound.unit][0] != "time":
                    raise reading.error(
                        f"limit {index}", f"`{limit}` does not fit; `{limit.metric}` takes {ALLOWED_UNITS['time']}"
                    )
                _check_zero(reading, f"limit {index}", limit.metric, limit.op, limit.bound)


def _check_name(reading: Reading, part: str, what: str, name: str, allowed: tuple[str, ...]) -> None:
    if name not in allowed:
        raise reading.error(part, f"unknown {what} `{name}`; {did_you_mean(name, allowed)}")


def _check_direction(reading: Reading) -> None:
    """Refuse a promise that is turned round: that most requests fail, or that the largest value is at least something."""
    aggregate, upward = reading.clause.aggregate, reading.clause.upward
    if isinstance(aggregate, Goodput | Accuracy) and not upward:
        raise reading.error("op", f"`{aggregate}` takes > or >=")
    if isinstance(aggregate, ErrorRate | Cost | Max) and upward:
        raise reading.error("op", f"`{aggregate}` takes < or <=")


def _check_bound(reading: Reading) -> None:
    clause = reading.clause
    _check_direction(reading)
    if isinstance(clause.bound, Baseline):
        if isinstance(clause.aggregate, Max):
            raise reading.error("bound", "a largest value cannot be held against a baseline: it has no spread; use a percentile")
        if clause.bound.ratio <= 0:
            raise reading.error("bound", f"`{clause.bound}` leaves nothing; allowed: less than -100%")
        return
    wanted = dimension(clause.aggregate, _METRIC_UNITS)
    if not fits(clause.bound, wanted):
        allowed = " or ".join(ALLOWED_UNITS[one] for one in wanted)
        raise reading.error("bound", f"`{clause.bound}` does not fit; `{clause.aggregate}` takes {allowed}")
    if "share" in wanted and is_share(clause.bound):
        _check_share(reading, clause.bound)
    else:
        _check_zero(reading, "bound", str(clause.aggregate), clause.op, clause.bound)


def _check_share(reading: Reading, bound: Bound) -> None:
    """Refuse a share that no number of requests can show: the confidence bound never reaches 0 or 100 %."""
    upward, share = reading.clause.upward, share_of(bound)
    if share > 1:
        raise reading.error("bound", f"`{bound}` is over 100%; {ALLOWED_UNITS['share']}")
    if (upward and share == 1) or (not upward and share == 0):
        room = "99.9%" if upward else "0.1%"
        raise reading.error(
            "bound", f"`{reading.clause.op} {bound}` cannot be shown by any number of requests; leave room, as in {room}"
        )


def _check_zero(reading: Reading, part: str, name: str, op: str, bound: Bound) -> None:
    """Refuse a bound of 0 that nothing can meet, or everything does: times are over 0, all else is 0 or more."""
    if bound.exact:
        return
    positive = UNITS[bound.unit][0] == "time" or "interactivity" in name
    if op == "<" or (positive and op == "<="):
        raise reading.error(part, f"`{name} {op} {bound}` holds for nothing; allowed: a bound above 0")
    if op == ">=" or positive:
        raise reading.error(part, f"`{name} {op} {bound}` holds for everything; allowed: a bound above 0")


def _check_selector(reading: Reading) -> None:
    for key, _ in reading.clause.selector:
        if key not in _KEYS:
            raise reading.error(f"key {key}", f"unknown selector `{key}`; {did_you_mean(key, _KEYS)}")


def _check_scope(reading: Reading, scope: Scope) -> None:
    clause = reading.clause
    workload, target = clause.select("workload"), clause.select("target")
    if workload is not None:
        _check_name(reading, "workload", "workload", workload, scope.workloads)
    if target is not None and scope.target is not None and target != scope.target:
        raise reading.error("target", f"unknown target `{target}`; this run's target is `{scope.target}`")
    if clause.during in scope.unjudged:
        raise reading.error("during", f"stage `{clause.during}` is not judged; {did_you_mean('', scope.stages)}")
    if clause.during is not None:
        _check_name(reading, "during", "stage", clause.during, scope.stages)
    if not scope.streamed:
        _check_whole(reading)
    for part, metric, op, bound in _limits(clause):
        _check_timeout(reading, scope, part, metric, op, bound)
    _check_known(reading, scope, clause.aggregate)


def _check_whole(reading: Reading) -> None:
    """Refuse what only a streamed response has."""
    match reading.clause.aggregate:
        case Goodput() as goodput:
            named = [(f"limit {i}", limit.metric) for i, limit in enumerate(goodput.limits)]
            allowed = [name for name in LIMITED if name not in STREAMED]
        case Quantile() | Mean() | Max() as plain:
            named, allowed = [("metric", plain.metric)], [name for name in METRICS if name not in STREAMED]
        case _:
            return
    for part, metric in named:
        if metric in STREAMED or metric == "interactivity":
            raise reading.error(part, f"`{metric}` needs a stream, and `target.stream` is false; allowed: {', '.join(allowed)}")


def _check_known(reading: Reading, scope: Scope, aggregate: Aggregate) -> None:
    if isinstance(aggregate, Cost) and not scope.priced:
        raise reading.error("fn", "a cost needs `target.price`")
    if isinstance(aggregate, Cost) and not scope.by_tokens and reading.clause.select("workload") is not None:
        raise reading.error(
            "workload", "GPU hours cannot be parted between workloads; leave the selector out, or give prices by tokens"
        )
    asked = {reading.clause.select("workload")} - {None} or set(scope.workloads)
    if isinstance(aggregate, Accuracy) and asked <= set(scope.ungraded):
        raise reading.error("fn", "accuracy needs a workload whose dataset has answers and is graded")


def _limits(clause: Clause) -> list[tuple[str, str, str, Bound]]:
    """Return (part, metric, operator, bound) of every bound that a single request meets or misses."""
    match clause.aggregate:
        case Goodput() as goodput:
            return [(f"limit {i}", limit.metric, limit.op, limit.bound) for i, limit in enumerate(goodput.limits)]
        case Quantile() | Max() as plain if isinstance(clause.bound, Bound):
            return [("bound", plain.metric, clause.op, clause.bound)]
    return []


def _check_timeout(reading: Reading, scope: Scope, part: str, metric: str, op: str, bound: Bound) -> None:
    """Refuse an upper limit above the client's own timeout: a request that was cut there says nothing about the limit."""
    if scope.timeouts is None or op in (">", ">="):
        return
    for name in _TIMEOUTS.get(metric, ()):
        timeout = getattr(scope.timeouts, name)
        if timeout < bound.exact:
            raise reading.error(
                part,
                f"`{bound}` cannot be judged: the client gives up after `target.timeouts.{name}` = {timeout}; raise that timeout",
            )


def fits(bound: Bound, wanted: tuple[str, ...]) -> bool:
    """Say whether a bound has one of the dimensions; a plain number is also a share."""
    return UNITS[bound.unit][0] in wanted or (bound.unit == "" and "share" in wanted)


def is_share(bound: Bound) -> bool:
    """Say whether a bound on a goodput, an error rate or an accuracy is a share (not a rate)."""
    return bound.unit in ("%", "")


def share_of(bound: Bound) -> float:
    """Return a share between 0 and 1, written as a percentage or as a plain number."""
    return bound.value
