"""Length distributions: the three range ratios by name, truncation, units, and what a wrong one says."""

import math
from random import Random
from statistics import NormalDist, mean

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets import lengths
from r1perf.datasets.lengths import InferencexRange, Lognormal, Normal, SglangRange, Uniform, VllmRange


@pytest.mark.parametrize(
    ("spec", "low", "high"),
    [
        pytest.param(512, 512, 512, id="fixed"),
        pytest.param("8k", 8192, 8192, id="fixed with unit"),
        pytest.param(Uniform(low=10, high=12), 10, 12, id="uniform"),
        pytest.param(VllmRange(length=100, ratio=0.25), 75, 125, id="vllm"),
        pytest.param(VllmRange(length=101, ratio=0.25), 75, 127, id="vllm rounds outwards"),
        pytest.param(VllmRange(length=100, ratio=0), 100, 100, id="vllm 0 is exact"),
        pytest.param(SglangRange(length=100, ratio=0.25), 25, 100, id="sglang"),
        pytest.param(SglangRange(length=100, ratio=0), 1, 100, id="sglang 0 is from 1"),
        pytest.param(InferencexRange(length=1024), 819, 1024, id="inferencex"),
    ],
)
def test_bounds_are_reached_and_evenly_filled(spec, low, high):
    law = lengths.tokens(spec, "input_tokens")
    assert (law.at(0.0), law.at(1 - 1e-12)) == (low, high)
    assert law.mean == pytest.approx((low + high) / 2, rel=0.002)
    drawn = [law.draw(Random(k)) for k in range(2000)]
    assert low <= min(drawn) <= max(drawn) <= high
    if high - low < 5:
        assert set(drawn) == set(range(low, high + 1))


def test_normal_is_normal():
    law = lengths.tokens(Normal(mean=1000, stdev=100), "x")
    for u in (0.05, 0.5, 0.95):
        assert law.at(u) == round(NormalDist(1000, 100).inv_cdf(u))


def test_truncation_cuts_and_does_not_pile_up():
    law = lengths.tokens(Normal(mean=100, stdev=50, low=90, high=110), "x")
    drawn = [law.draw(Random(k)) for k in range(4000)]
    assert (min(drawn), max(drawn)) == (90, 110)
    assert drawn.count(90) < 4000 * 0.04  # half a step of 21: a clamp would put 42 % here
    assert law.mean == pytest.approx(100, abs=0.5)


def test_lognormal_has_its_median_and_mean():
    law = lengths.tokens(Lognormal(median=1000, sigma=0.5), "x")
    assert law.at(0.5) == 1000
    assert law.at(NormalDist().cdf(1)) == pytest.approx(1000 * math.exp(0.5), abs=1)
    assert law.mean == pytest.approx(1000 * math.exp(0.125), rel=0.01)


def test_mean_is_that_of_draws():
    law = lengths.tokens(Lognormal(median=60, sigma=0.8, low=8, high=2000), "x")
    random = Random(1)
    assert mean(law.draw(random) for _ in range(20_000)) == pytest.approx(law.mean, rel=0.02)


@pytest.mark.parametrize(
    ("spec", "expected", "most"),
    [
        pytest.param(100, 100, 100, id="fixed"),
        pytest.param(Uniform(low=1, high=999), 500, 999, id="uniform"),
        pytest.param(Uniform(low=1.5, high=3.2), 2.5, 3, id="uniform takes whole numbers"),
        pytest.param(VllmRange(length=101, ratio=0.25), 101, 127, id="vllm"),
        pytest.param(Lognormal(median=100, sigma=1.5), 308.35, None, id="lognormal, from 1 on"),
        pytest.param(Lognormal(median=60, sigma=0.8, low=8, high=2000), 83.066, 2000, id="lognormal, truncated"),
        pytest.param(Lognormal(median=200, sigma=50, high=10_000), 1085.2, 10_000, id="lognormal, no closed form"),
        pytest.param(Normal(mean=1000, stdev=100), 1000, None, id="normal"),
        pytest.param(Normal(mean=100, stdev=50, low=90, high=300), 133.744, 300, id="normal, truncated"),
    ],
)
def test_the_mean_is_exact_and_the_largest_known(spec, expected, most):
    law = lengths.tokens(spec, "x")
    assert law.mean == pytest.approx(expected, rel=1e-4)
    assert law.most == most
    steps = 20_000
    assert sum(law.at((k + 0.5) / steps) for k in range(steps)) / steps == pytest.approx(law.mean, rel=2e-3)


def test_times_are_ns():
    assert lengths.times("2s", "think_time").at(0.5) == 2_000_000_000
    law = lengths.times(Lognormal(median="5s", sigma=0.6, low="1s", high="60s"), "think_time")
    assert law.at(0.0) == 1_000_000_000
    assert law.at(1 - 1e-15) == 60_000_000_000
    assert lengths.times(Uniform(low=0, high="1ms"), "think_time").at(0.0) == 0


@pytest.mark.parametrize(
    ("read", "spec", "says"),
    [
        pytest.param(lengths.tokens, "8q", 'input_tokens: "8q" is not a count of tokens such as 2048 or "8k" (8192)', id="unit"),
        pytest.param(lengths.tokens, "0", "input_tokens: must be at least 1, not 0", id="zero"),
        pytest.param(lengths.tokens, Uniform(low=5, high=4), "input_tokens: low (5) must not be above high (4)", id="order"),
        pytest.param(lengths.tokens, Normal(mean=5, stdev=1, low="x"), "input_tokens.low: ", id="bound"),
        pytest.param(lengths.tokens, Normal(mean=5, stdev=0.1, low=1000), "nothing of the distribution lies between", id="empty"),
        pytest.param(lengths.tokens, Lognormal(median=0, sigma=1), "input_tokens.median: must be above 0", id="median"),
        pytest.param(lengths.times, "5", 'input_tokens: "5" is not a duration such as', id="time without unit"),
        pytest.param(lengths.times, Uniform(low=1, high="2s"), "input_tokens.low: 1 is not a duration such as", id="bare time"),
        pytest.param(
            lengths.tokens, "9999999999999M", "input_tokens: must be at most 16,777,216 tokens, not 9999999999999M", id="M"
        ),
        pytest.param(lengths.tokens, "9" * 400, "input_tokens: must be at most 16,777,216 tokens, not 9999", id="400 digits"),
        pytest.param(lengths.tokens, 2**53 - 1, "must be at most 16,777,216 tokens, not 9007199254740991", id="2 ** 53"),
        pytest.param(lengths.tokens, 50_000_000, "must be at most 16,777,216 tokens, not 50000000", id="50 M"),
        pytest.param(lengths.tokens, Uniform(low=1, high="99M"), "input_tokens.high: must be at most 16,777,216", id="high"),
        pytest.param(lengths.tokens, Uniform(low=0, high=9), "input_tokens.low: must be at least 1, not 0", id="low"),
        pytest.param(
            lengths.tokens, Normal(mean=9, stdev=1, low=0), "input_tokens.low: must be at least 1, not 0", id="low, normal"
        ),
        pytest.param(
            lengths.tokens, Lognormal(median=200, sigma=50), "would draw more than 16,777,216 tokens; give it a `high`", id="s"
        ),
        pytest.param(
            lengths.tokens, Lognormal(median=200, sigma=8), "would draw more than 16,777,216 tokens; give it a `high`", id="s 8"
        ),
        pytest.param(
            lengths.tokens, Normal(mean=1e12, stdev=1), "input_tokens.mean: must be at most 16,777,216 tokens", id="mean"
        ),
        pytest.param(lengths.turns, 20_000, "input_tokens: must be at most 10,000 turns, not 20000", id="turns"),
        pytest.param(
            lengths.times, Lognormal(median="5s", sigma=90), "would draw more than 30 days; give it a `high`", id="years"
        ),
    ],
)
def test_a_wrong_length_is_told(read, spec, says):
    with pytest.raises(ValueError, match=r".") as error:
        read(spec, "input_tokens")
    assert says in str(error.value)


@pytest.mark.parametrize(
    "table",
    [
        {"dist": "uniform", "low": 1, "high": "2k"},
        {"dist": "normal", "mean": 100, "stdev": 10.5},
        {"dist": "lognormal", "median": 100, "sigma": 0.5, "high": 4096},
        {"dist": "vllm-range", "length": 1024, "ratio": 0.2},
        {"dist": "sglang-range", "length": 1024, "ratio": 0.2},
        {"dist": "inferencex-range", "length": 1024},
    ],
    ids=lambda table: table["dist"],
)
def test_tables_decode(table):
    spec = msgspec.convert(table, lengths.Length)
    assert lengths.tokens(spec, "x").mean > 1


@given(st.floats(0, 1, exclude_max=True), st.floats(0, 1, exclude_max=True), st.floats(0.01, 2), st.integers(1, 5000))
def test_quantiles_grow_and_stay_inside(u, v, sigma, median):
    law = lengths.tokens(Lognormal(median=median, sigma=sigma, low=max(1, median // 2), high=median * 3), "x")
    low, high = sorted((u, v))
    assert max(1, median // 2) <= law.at(low) <= law.at(high) <= median * 3
