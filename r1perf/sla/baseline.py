"""Hold this side's runs against the baseline's: the run is the unit.

Requests of one run share a machine, a placement and a cache state, so two runs of the same system differ by more than their requests
do: a rank test on requests calls that a regression 11-37 % of the time at a nominal 5 %. So each run gives one value, and Welch's t
(1947) compares the means of their logarithms; a difference of logarithms is a ratio.
"""

import math
from collections.abc import Sequence

import msgspec

from r1perf.sla.special import t_cdf, t_quantile


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The ratio of this side to the baseline with one-sided bounds.

    `p_more` and `p_less` are the p-values of "this side is more" and "is less" than the baseline at all.
    """

    ratio: float
    lower: float
    upper: float
    p_more: float
    p_less: float
    error: float  # standard error of the log ratio
    df: float


def welch(current: Sequence[float], baseline: Sequence[float], alpha: float, margin: float = 1.0) -> Comparison:
    """Compare two sides of at least two positive values; p-values are against the ratio `margin`. Raises ValueError otherwise."""
    if min(len(current), len(baseline)) < 2:
        raise ValueError("a comparison needs at least two runs a side")
    if min(*current, *baseline) <= 0:
        raise ValueError("a ratio needs positive values")
    mean_a, var_a = _log_moments(current)
    mean_b, var_b = _log_moments(baseline)
    error = math.sqrt(var_a + var_b)
    # Equal values on both sides leave no spread at all; a df is then without meaning, and any difference is certain.
    df = (var_a + var_b) ** 2 / (var_a**2 / (len(current) - 1) + var_b**2 / (len(baseline) - 1)) if error else math.inf
    log_ratio = mean_a - mean_b
    reach = t_quantile(df, 1 - alpha) * error if error else 0.0
    away = log_ratio - math.log(margin)
    p_less = t_cdf(df, away / error) if error else float(away >= 0)
    p_more = t_cdf(df, -away / error) if error else float(away <= 0)
    return Comparison(
        ratio=math.exp(log_ratio), lower=math.exp(log_ratio - reach), upper=math.exp(log_ratio + reach),
        p_more=p_more, p_less=p_less, error=error, df=df,
    )  # fmt: skip


def runs_to_decide(ratio: float, margin: float, error: float, runs: int, alpha: float) -> int | None:
    """Return about how many runs a side decide if ratio and spread stay as observed; None over 100."""
    away = abs(math.log(ratio) - math.log(margin))
    for count in range(2, 101):
        if t_quantile(2 * count - 2, 1 - alpha) * error * math.sqrt(runs / count) < away:
            return count
    return None


def _log_moments(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean of the logarithms and the variance of that mean."""
    logs = [math.log(value) for value in values]
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((one - mean) ** 2 for one in logs) / (len(logs) - 1) / len(logs)
