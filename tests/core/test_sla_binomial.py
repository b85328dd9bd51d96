"""Exact binomial bounds: the tables that the statistics are known by."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rulings import fail_at_least, pass_at_most

from r1perf.sla.binomial import (
    attempts_for_power,
    attempts_to_decide,
    attempts_to_pass,
    fails,
    lower,
    passes,
    upper,
)

MISSES = (0, 1, 2, 3, 5, 10)


@pytest.mark.parametrize(
    ("percentile", "confidence", "attempts"),
    [
        (50, 0.95, (5, 8, 11, 13, 18, 30)),
        (50, 0.99, (7, 11, 14, 17, 22, 35)),
        (90, 0.95, (29, 46, 61, 76, 103, 167)),
        (90, 0.99, (44, 64, 81, 97, 127, 197)),
        (95, 0.95, (59, 93, 124, 153, 208, 336)),
        (95, 0.99, (90, 130, 165, 198, 259, 398)),
        (99, 0.95, (299, 473, 628, 773, 1049, 1693)),
        (99, 0.99, (459, 662, 838, 1001, 1307, 2010)),
        (99.9, 0.95, (2995, 4742, 6294, 7752, 10511, 16959)),
        (99.9, 0.99, (4603, 6636, 8403, 10042, 13105, 20140)),
    ],
)
def test_fewest_attempts(percentile: float, confidence: float, attempts: tuple[int, ...]) -> None:
    q = (100 - percentile) / 100
    assert tuple(attempts_to_pass(x, q, 1 - confidence) for x in MISSES) == attempts


@pytest.mark.parametrize(
    ("percentile", "n", "most", "fewest"),
    [
        (95, 200, 4, 16),
        (95, 500, 16, 34),
        (95, 1000, 38, 63),
        (95, 2000, 83, 117),
        (95, 5000, 224, 277),
        (95, 10000, 463, 537),
        (99, 500, 1, 10),
        (99, 1000, 4, 16),
        (99, 2000, 12, 29),
        (99, 5000, 38, 63),
        (99, 10000, 83, 118),
    ],
)
def test_most_misses_that_pass_and_fewest_that_fail(percentile: int, n: int, most: int, fewest: int) -> None:
    q = (100 - percentile) / 100
    assert (pass_at_most(n, q, 0.05), fail_at_least(n, q, 0.05)) == (most, fewest)


def test_too_few_attempts_cannot_pass() -> None:
    assert pass_at_most(58, 0.05, 0.05) is None
    assert pass_at_most(59, 0.05, 0.05) == 0


@pytest.mark.parametrize(("n", "percent"), [(100, 2.95), (300, 0.99), (1000, 0.30), (3000, 0.10)])
def test_error_rate_after_no_error(n: int, percent: float) -> None:
    assert round(100 * upper(0, n, 0.05), 2) == percent
    assert upper(0, n, 0.05) == pytest.approx(1 - 0.05 ** (1 / n))


@pytest.mark.parametrize(
    ("q", "true", "eighty", "ninety", "rough"),
    [
        (0.05, 0.04, 2869, 3871, (2818, 3831)),
        (0.05, 0.03, 694, 900, (698, 882)),
        (0.05, 0.02, 286, 361, (287, 363)),
        (0.05, 0.01, 124, 181, (124, 181)),
        (0.01, 0.008, 14814, 20039, (14664, 19936)),
        (0.01, 0.005, 2185, 2784, (2186, 2799)),
        (0.01, 0.002, 773, 913, (777, 918)),
    ],
)
def test_attempts_for_power(q: float, true: float, eighty: int, ninety: int, rough: tuple[int, int]) -> None:
    """Power rises in saw teeth, and ours is where it stays; the rough figures come from a search on a coarse grid."""
    found = attempts_for_power(q, true, 0.8, 0.05), attempts_for_power(q, true, 0.9, 0.05)
    assert found == (eighty, ninety)
    assert found == pytest.approx(rough, rel=0.025)


def test_power_stays_from_there_on() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")

    def power(n: int) -> float:
        most = pass_at_most(n, 0.05, 0.05)
        return 0.0 if most is None else float(scipy_stats.binom.cdf(most, n, 0.02))

    start = attempts_for_power(0.05, 0.02, 0.8, 0.05)
    assert power(start - 1) < 0.8
    assert min(power(n) for n in range(start, 2 * start)) >= 0.8


@pytest.mark.parametrize(
    ("x", "n", "low", "high"),
    [(0, 20, 0.0, 0.1391083), (1, 20, 0.0025614, 0.2161060), (10, 20, 0.3019539, 0.6980461), (20, 20, 0.8608917, 1.0)],
)
def test_clopper_pearson(x: int, n: int, low: float, high: float) -> None:
    assert (lower(x, n, 0.05), upper(x, n, 0.05)) == pytest.approx((low, high), abs=1e-6)


@given(st.integers(1, 3000), st.data(), st.floats(0.001, 0.5), st.sampled_from([0.05, 0.01]))
def test_bounds_and_rulings_agree(n: int, data: st.DataObject, q: float, alpha: float) -> None:
    x = data.draw(st.integers(0, n))
    assert lower(x, n, alpha) <= x / n <= upper(x, n, alpha)
    assert not (passes(x, n, q, alpha) and fails(x, n, q, alpha))
    if abs(upper(x, n, alpha) - q) > 1e-9:
        assert passes(x, n, q, alpha) == (upper(x, n, alpha) <= q)
    if abs(lower(x, n, alpha) - q) > 1e-9:
        assert fails(x, n, q, alpha) == (lower(x, n, alpha) > q)
    most, fewest = pass_at_most(n, q, alpha), fail_at_least(n, q, alpha)
    assert passes(x, n, q, alpha) == (most is not None and x <= most)
    assert fails(x, n, q, alpha) == (fewest is not None and x >= fewest)


def test_no_attempts_decide_nothing() -> None:
    assert not passes(0, 0, 0.05, 0.05)
    assert not fails(0, 0, 0.05, 0.05)


@pytest.mark.parametrize(
    ("share", "deff", "attempts"),
    [(0.0, 1.0, 59), (0.0, 2.0, 117), (0.04, 1.0, 1332), (0.052, 1.0, 32_878), (0.05, 1.0, None)],
    ids=["none", "none, two count as one", "under", "over", "at the limit"],
)
def test_attempts_to_decide(share: float, deff: float, attempts: int | None) -> None:
    assert attempts_to_decide(share, 0.05, 0.05, deff, 10_000_000) == attempts


def test_effective_attempts_of_a_known_verdict() -> None:
    """174 of 2,000 that are worth 862: bounds of 7.2 and 10.4 %."""
    bounds = lower(174 / 2000 * 862, 862, 0.05), upper(174 / 2000 * 862, 862, 0.05)
    assert [round(100 * one, 1) for one in bounds] == [7.2, 10.4]
