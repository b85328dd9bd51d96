"""Bound a ratio of two sums over time by resampling blocks of consecutive intervals.

Circular block bootstrap (Politis and Romano 1992): draw whole blocks with replacement, so that what moves together inside a block
stays together. Quantiles are taken further out (Hesterberg 2015, "expanded percentile"), at Phi(-sqrt(B / (B - 1)) t(alpha, B - 1))
for B blocks, since with few blocks the plain ones are too narrow; and where neighbouring blocks still move together (lag-1
correlation c > 0), all resamples are moved apart by sqrt(1 + 2 c), since blocks drawn at random do not.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from r1perf.sla.dependence import BATCHES, ENOUGH
from r1perf.sla.special import normal_cdf, t_quantile

RESAMPLES = 4000


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio, its one-sided bounds, and the share of resamples at or over `against` (the p-value of a claim to be under it)."""

    value: float
    lower: float
    upper: float
    at_or_over: float
    blocks: int
    block_s: float
    window_only: bool


def ratio(
    intervals: Sequence[tuple[float, float]],
    *,
    alpha: float,
    against: float,
    interval_s: float = 1.0,
    residence_s: float = 0.0,
    seed: int = 0,
) -> Spread | None:
    """Bound sum(numerators) / sum(denominators); None without a denominator or with fewer than two intervals.

    A block lasts at least `residence_s`; with fewer than `ENOUGH` of them in the window the bounds stand for this window only.
    """
    rows = np.asarray(intervals, dtype=float).reshape(-1, 2)
    length = len(rows)
    totals = rows.sum(axis=0)
    if length < 2 or totals[1] <= 0:
        return None
    window_s = length * interval_s
    fitting = BATCHES if BATCHES * residence_s <= window_s else int(window_s / residence_s)
    blocks = min(length, min(BATCHES, fitting) if fitting >= ENOUGH else BATCHES)
    size = max(1, round(length / blocks))
    turns = np.concatenate([np.zeros((1, 2)), np.cumsum(np.concatenate([rows, rows[:size]]), axis=0)])
    block_sums = turns[size : size + length] - turns[:length]
    starts = np.random.default_rng(seed).integers(0, length, size=(RESAMPLES, blocks))
    drawn = block_sums[starts].sum(axis=1)
    ratios = drawn[:, 0] / np.where(drawn[:, 1] > 0, drawn[:, 1], np.nan)
    value = float(totals[0] / totals[1])
    ratios = value + (np.sort(ratios[np.isfinite(ratios)]) - value) * _widening(rows, value, blocks)
    level = normal_cdf((blocks / (blocks - 1)) ** 0.5 * t_quantile(blocks - 1, alpha))
    low, high = np.quantile(ratios, [level, 1 - level])
    return Spread(
        value=value, lower=float(low), upper=float(high), at_or_over=float((ratios >= against).mean()),
        blocks=blocks, block_s=size * interval_s, window_only=min(fitting, length) < ENOUGH,
    )  # fmt: skip


def _widening(rows: npt.NDArray[np.float64], value: float, blocks: int) -> float:
    edges = [len(rows) * i // blocks for i in range(blocks)]
    away = np.add.reduceat(rows[:, 0] - value * rows[:, 1], edges)
    square = float((away * away).sum())
    together = float((away[1:] * away[:-1]).sum()) / square if square else 0.0
    return float(max(1.0, 1 + 2 * together) ** 0.5)
