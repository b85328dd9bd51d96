"""How many misses of n attempts pass, and how many fail, at the edge: found by asking for each number."""

from bisect import bisect_left

from r1perf.sla.binomial import fails, passes


def pass_at_most(n: int, q: float, alpha: float) -> int | None:
    """Return the most misses of n that still pass; None where even none would not."""
    passing = bisect_left(range(n + 1), True, key=lambda x: not passes(x, n, q, alpha))
    return passing - 1 if passing else None


def fail_at_least(n: int, q: float, alpha: float) -> int | None:
    """Return the fewest misses of n that fail; None where even all would not."""
    fewest = bisect_left(range(n + 1), True, key=lambda x: fails(x, n, q, alpha))
    return fewest if fewest <= n else None
