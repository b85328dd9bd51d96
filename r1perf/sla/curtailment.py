"""Say when a run can be ended early: a clause can no longer pass whatever the requests still to come do.

Misses only grow, so "they reach the number that fails the planned run" happens at some point before the end exactly when it is true at
the end. Looking after every request therefore costs nothing (curtailed sampling; Alling 1963): no correction for peeking is due.
"""

from r1perf.sla.binomial import fail_at_least


def settled(over_certain: int, planned: int, allowed: float, alpha: float, deff: float = 1.0) -> bool:
    """Say whether so many certain misses fail `planned` attempts even if all others meet the limit.

    `deff` is how many attempts count as one (n / n_eff, as measured so far). 117 misses settle a p95 over 2,000 independent attempts.
    """
    effective = int(planned / deff)
    needed = fail_at_least(effective, allowed, alpha)
    return needed is not None and over_certain / deff >= needed
