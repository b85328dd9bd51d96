"""Runs against runs: the false-regression rate and the power that are known of three, five and eight runs a side."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.sla.baseline import runs_to_decide, welch

stats = pytest.importorskip("scipy.stats")
ALPHA = 0.05


def test_welch_by_scipy() -> None:
    current, baseline = (104.0, 110.0, 121.0, 99.0), (98.0, 101.0, 95.0)
    found = welch(current, baseline, ALPHA)
    known = stats.ttest_ind(np.log(current), np.log(baseline), equal_var=False, alternative="greater")
    assert (found.p_more, found.df) == pytest.approx((known.pvalue, known.df))
    assert found.p_less == pytest.approx(1 - known.pvalue)
    interval = known.confidence_interval(0.95)
    assert found.lower == pytest.approx(math.exp(interval.low))
    assert found.ratio == pytest.approx(math.exp(np.log(current).mean() - np.log(baseline).mean()))


@pytest.mark.parametrize(
    ("runs", "false", "five", "ten"),
    [(3, 0.035, 0.27, 0.61), (5, 0.046, 0.45, 0.92), (8, 0.044, 0.67, 1.0)],
    ids=["3 runs a side", "5 runs a side", "8 runs a side"],
)
def test_false_regressions_and_power(runs: int, false: float, five: float, ten: float) -> None:
    """How often "more than the baseline" is shown at +0, +5 and +10 %.

    Each run gives the p95 of 1,000 log-normal requests (sigma 0.5): its logarithm has an sd of 3 % from run to run, and another
    3.3 % from its sampling. The 950th of 1,000 uniform values is Beta(950, 51).
    """
    rng = np.random.default_rng(20261130)
    sampling = 0.5 * stats.norm.ppf(rng.beta(950, 51, (2000, 2, runs)))
    sides = np.exp(rng.normal(0, 0.03, (2000, 2, runs)) + sampling)
    for slower, expected, tolerance in ((1.0, false, 0.012), (1.05, five, 0.035), (1.10, ten, 0.035)):
        shown = np.mean([welch((a * slower).tolist(), b.tolist(), ALPHA).p_more < ALPHA for a, b in sides])
        assert shown == pytest.approx(expected, abs=tolerance)


def test_a_margin_is_held_at_its_level() -> None:
    """At exactly +10 %, "more than +10 %" is shown at most 5 % of the time, and so is "less than +10 %"."""
    rng = np.random.default_rng(20261130)
    sides = np.exp(rng.normal(0, 0.03, (2000, 2, 5)))
    found = [welch((a * 1.1).tolist(), b.tolist(), ALPHA) for a, b in sides]
    assert np.mean([one.lower > 1.1 for one in found]) <= 0.06
    assert np.mean([one.upper < 1.1 for one in found]) <= 0.06


def test_requests_of_two_runs_are_no_sample() -> None:
    """A rank test on 2,000 requests of two runs of the same system that differ by 3 % (sd): a regression 24-37 % of the time."""
    rng = np.random.default_rng(20261130)
    shifts = np.exp(rng.normal(0, 0.03, (300, 2)))
    found = [
        stats.mannwhitneyu(
            a * np.exp(rng.normal(0, 0.5, 2000)), b * np.exp(rng.normal(0, 0.5, 2000)), alternative="greater"
        ).pvalue
        for a, b in shifts
    ]
    assert 0.2 <= np.mean(np.array(found) < ALPHA) <= 0.4


@pytest.mark.parametrize(
    ("current", "baseline", "message"),
    [((1.0,), (1.0, 2.0), "two runs a side"), ((1.0, 2.0), (1.0,), "two runs a side"), ((0.0, 1.0), (1.0, 1.0), "positive")],
)
def test_what_cannot_be_compared(current: tuple[float, ...], baseline: tuple[float, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        welch(current, baseline, ALPHA)


def test_equal_runs_without_spread() -> None:
    found = welch((2.0, 2.0), (1.0, 1.0), ALPHA)
    assert (found.ratio, found.lower, found.upper, found.p_more, found.p_less) == pytest.approx((2, 2, 2, 0, 1))


values = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6)


@given(values, values, st.floats(0.1, 10))
def test_units_and_sides(current: list[float], baseline: list[float], unit: float) -> None:
    """The ratio does not depend on the unit, and changing the sides turns it over."""
    found = welch(current, baseline, ALPHA)
    scaled = welch([one * unit for one in current], [one * unit for one in baseline], ALPHA)
    turned = welch(baseline, current, ALPHA)
    assert found.lower <= found.ratio * (1 + 1e-12)
    assert found.ratio <= found.upper * (1 + 1e-12)
    assert (scaled.ratio, turned.ratio) == pytest.approx((found.ratio, 1 / found.ratio), rel=1e-6)
    if found.error > 1e-6:
        assert turned.lower == pytest.approx(1 / found.upper, rel=1e-6)


@pytest.mark.parametrize(
    ("ratio", "runs", "expected"),
    [(1.05, 3, 4), (1.0, 3, 2), (1.0999, 3, None)],
    ids=["near", "far", "at the margin"],
)
def test_runs_to_decide(ratio: float, runs: int, expected: int | None) -> None:
    """Three runs a side that differ by 3 %: an error of 0.03 sqrt(2 / 3)."""
    error = 0.03 * math.sqrt(2 / 3)
    count = runs_to_decide(ratio, 1.1, error, runs, ALPHA)
    assert count == expected
    if count is not None:
        away = abs(math.log(ratio / 1.1))
        assert stats.t.ppf(0.95, 2 * count - 2) * 0.03 * math.sqrt(2 / count) < away
