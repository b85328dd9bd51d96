"""Bound a share exactly from a count: one-sided Clopper-Pearson bounds, and what follows from them.

A clause allows a share q of misses (5 % for a p95). With x misses of n attempts and alpha = 1 - confidence:

    pass          upper(x, n) <= q      the claim holds even if luck was good
    fail          lower(x, n) >  q      it does not even if luck was bad
    inconclusive  otherwise

The bounds are quantiles of Beta distributions (Clopper and Pearson 1934), so x and n may be fractions: with dependent
attempts both are scaled to the effective n (Korn and Graubard 1998).
"""

from r1perf.sla.special import beta_cdf, beta_quantile

_CEILING = 1 << 40  # more attempts than anybody makes: a search ends here


def upper(x: float, n: float, alpha: float) -> float:
    """Return the largest share that x misses of n leave possible at level alpha, one-sided."""
    return 1.0 if x >= n else beta_quantile(x + 1, n - x, 1 - alpha)


def lower(x: float, n: float, alpha: float) -> float:
    """Return the smallest share that x misses of n leave possible at level alpha, one-sided."""
    return 0.0 if x <= 0 else beta_quantile(x, n - x + 1, alpha)


def at_most(x: float, n: float, q: float) -> float:
    """Return P(X <= x) for n attempts that each miss with probability q: the p-value of a pass."""
    return 1.0 if x >= n else 1 - beta_cdf(x + 1, n - x, q)


def at_least(x: float, n: float, q: float) -> float:
    """Return P(X >= x) for n attempts that each miss with probability q: the p-value of a fail."""
    return 1.0 if x <= 0 else beta_cdf(x, n - x + 1, q)


def passes(x: float, n: float, q: float, alpha: float) -> bool:
    """Say whether x misses of n show that the share of misses is at most q."""
    return n > 0 and at_most(x, n, q) <= alpha


def fails(x: float, n: float, q: float, alpha: float) -> bool:
    """Say whether x misses of n show that the share of misses is over q."""
    return n > 0 and at_least(x, n, q) < alpha


def attempts_to_pass(x: int, q: float, alpha: float) -> int:
    """Return the fewest attempts of which x may miss and the claim still passes: 59 for a p95 with x = 0."""
    low, high = x, max(x, 1)
    while not passes(x, high, q, alpha):
        low, high = high, 2 * high
        if high > _CEILING:
            raise ValueError(f"a share of {q} cannot be shown")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(x, middle, q, alpha) else (middle, high)
    return high


def attempts_for_power(q: float, true: float, power: float, alpha: float) -> int:
    """Return the fewest attempts from which on a target that misses a share `true` < q passes with at least this probability.

    The probability falls between two numbers of allowed misses and rises at each; "from which on" means that it stays.
    Walk over the allowed misses x: between attempts_to_pass(x) and attempts_to_pass(x + 1) - 1 the power falls, so its end is a tooth's lowest point.
    """
    if not 0 <= true < q:
        raise ValueError(f"a target that misses {true} cannot be shown to miss at most {q}")
    x, teeth_above, answer = 0, 0, attempts_to_pass(0, q, alpha)
    while teeth_above < 3 + x // 4:  # teeth shrink as x grows: some that stay above the power settle it
        end = attempts_to_pass(x + 1, q, alpha) - 1
        if at_most(x, end, true) >= power:
            teeth_above += 1
        else:
            teeth_above, answer = 0, end + 1
        x += 1
    return answer


def attempts_to_decide(share: float, q: float, alpha: float, deff: float, ceiling: int, unknown: int = 0) -> int | None:
    """Return about how many attempts decide if the share of misses stays as observed; None over the ceiling.

    `deff` is how many attempts count as one. A share at most q is to pass, one over q to fail. Of `unknown` attempts among them it is not known
    whether they missed, and no more come to these: they do for a pass, and do not for a fail.
    """

    def decided(n: int) -> bool:
        effective, x = n / deff, share * (n - unknown) / deff
        return passes(x + unknown / deff, effective, q, alpha) if share <= q else fails(x, effective, q, alpha)

    if not decided(ceiling):
        return None
    low, high = unknown, ceiling
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if decided(middle) else (middle, high)
    return high
