"""Count values below a few fixed limits, for heatmaps: what draws charts cannot decode a histogram.

`<metric>_le_<limit>_ms` counts the values up to a limit, as precise as the histogram's buckets (1/1000). Such counts add up over
any points; a cell of a heatmap is the difference of two neighbours, and the last one `<metric>_count` less the highest limit's.
"""

from bisect import bisect_right
from itertools import accumulate

from r1perf.histogram import Counts, index

LIMITS_MS = {
    "ttft": (50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10_000, 20_000, 60_000),
    "itl": (5, 10, 15, 20, 25, 30, 40, 50, 65, 80, 100, 200, 500, 1000),
}
"""By metric: a few limits, close where answers are usual. A run already written keeps the limits that it had."""


def name(metric: str, limit_ms: int) -> str:
    """Name the field of one limit."""
    return f"{metric}_le_{limit_ms}_ms"


def coarse(metric: str, counts: Counts) -> dict[str, int]:
    """Return the fields of one metric; none for a metric without limits."""
    if metric not in LIMITS_MS:
        return {}
    at, numbers = counts.sparse()
    below = [0, *accumulate(numbers)]
    return {name(metric, limit): below[bisect_right(at, index(limit * 1000))] for limit in LIMITS_MS[metric]}
