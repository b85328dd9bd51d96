"""Turn a clause into what a worker counts for it, and into what decides it."""

from collections.abc import Mapping, Sequence

from r1perf.sla.clauses import Accuracy, Bound, Clause, ErrorRate, Goodput, Max, Mean, MetricLimit, Op, Quantile
from r1perf.sla.limits import Limit, Watch
from r1perf.sla.validate import is_share, share_of

_TURNED: dict[Op, Op] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def watch(clause: Clause, index: int, stages: Mapping[str, Sequence[int]]) -> Watch | None:
    """Return what a worker counts for a clause; None where the summary's own sums do: throughput, cost, what is held against a
    baseline and has no limits.

    `stages` gives the indices of each stage's name (a name may stand for several live stages).
    """
    where = None if clause.during is None else tuple(stages[clause.during])
    workload = clause.select("workload")
    match clause.aggregate:
        case Quantile() | Mean() | Max() as plain if isinstance(clause.bound, Bound):
            return Watch(index, limits(clause), workload, where, "gap" if plain.metric == "itl" else "request")
        case Goodput():
            return Watch(index, limits(clause), workload, where)
        case ErrorRate():
            return Watch(index, (), workload, where)
        case Accuracy():
            return Watch(index, (), workload, where, "answer")
    return None


def limits(clause: Clause) -> tuple[Limit, ...]:
    """Return every bound that a single request (or gap) meets or misses."""
    match clause.aggregate:
        case Goodput() as goodput:
            return tuple(limit(one) for one in goodput.limits)
        case Quantile() | Mean() | Max() as plain if isinstance(clause.bound, Bound):
            return (limit(MetricLimit(plain.metric, clause.op, clause.bound)),)
    return ()


def limit(stated: MetricLimit) -> Limit:
    """Return the limit in ns or tokens; interactivity is 1 / tpot, so at least 30/s is a tpot of at most 33.3 ms."""
    if stated.metric == "interactivity":
        return Limit("tpot", _TURNED[stated.op], float(10**9 / stated.bound.exact))
    return Limit(stated.metric, stated.op, stated.bound.value)


def allowed(clause: Clause) -> float | None:
    """Return the share of attempts that may miss; None where the clause is no claim on a share."""
    match clause.aggregate:
        case Quantile() as quantile if isinstance(clause.bound, Bound):
            return quantile.missing
        case Goodput() | Accuracy() if isinstance(clause.bound, Bound) and is_share(clause.bound):
            return 1 - share_of(clause.bound)
        case ErrorRate() if isinstance(clause.bound, Bound):
            return share_of(clause.bound)
    return None
