"""Make evidence of what a run left behind: requests one by one, gaps from histograms."""

from collections.abc import Iterable, Sequence

from r1perf.histogram import Counts
from r1perf.result import Result
from r1perf.sla.limits import Limit, Watch
from r1perf.sla.tallied import Tallied
from r1perf.sla.tally import Tallier


def replay(watches: Sequence[Watch], judged: Iterable[int], results: Iterable[tuple[int, Result]]) -> Tallied:
    """Count finished requests, each with the interval in which it was scheduled, as a worker would have counted them.

    Gaps are not in there: `gap` watches see the failed attempts only; add `bracket` of each interval's histogram.
    """
    tallier = Tallier(watches, judged)
    for k, result in results:
        tallier.ended(result, k)
    tallier.close()
    tallied = Tallied()
    tallied.add(tallier.take())
    return tallied


def bracket(counts: Counts, limit: Limit) -> tuple[int, int]:
    """Return how many values of a histogram (us) miss a limit (ns), at least and at most.

    The two differ by the bucket that holds the limit, and by values in the limit's own us, which were rounded down to it.
    """
    us, rest = divmod(limit.value, 1000)
    at = int(us)
    inside = rest or limit.op in ("<=", ">")  # the limit lies inside its us, or a value equal to it counts the other way
    over = counts.count_over(at if inside else at - 1)[0], counts.count_over(at - 1)[1]
    if limit.op in ("<", "<="):
        return over
    return counts.count - over[1], counts.count - over[0]
