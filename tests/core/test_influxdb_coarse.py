"""Coarse counts are exact down to a bucket, grow with their limits, and add up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.histogram import Counts, index
from r1perf.metrics import METRICS
from r1perf.sinks.influxdb.coarse import LIMITS_MS, coarse, name

VALUES = st.lists(st.integers(0, 200_000_000), max_size=50)


def test_counts_lie_below_their_limits():
    counts = Counts.of([4_000, 5_000, 5_001, 7_000, 2_000_000])
    fields = coarse("itl", counts)
    assert fields == {name("itl", limit): n for limit, n in zip(LIMITS_MS["itl"], [3, *[4] * 13], strict=True)}
    assert next(iter(fields)) == "itl_le_5_ms"


def test_only_metrics_with_limits_have_them():
    assert coarse("e2e", Counts.of([1])) == {}
    assert set(LIMITS_MS) <= set(METRICS)


def test_nothing_is_below_any_limit_of_nothing():
    assert set(coarse("ttft", Counts()).values()) == {0}


@pytest.mark.parametrize("metric", LIMITS_MS)
@given(values=VALUES)
def test_each_counts_the_values_up_to_its_limit(metric, values):
    expected = {name(metric, limit): sum(index(value) <= index(limit * 1000) for value in values) for limit in LIMITS_MS[metric]}
    assert coarse(metric, Counts.of(values)) == expected
    assert list(expected.values()) == sorted(expected.values())


@given(one=VALUES, other=VALUES)
def test_they_add_up(one, other):
    both = coarse("ttft", Counts.of(one + other))
    assert both == {key: n + coarse("ttft", Counts.of(other))[key] for key, n in coarse("ttft", Counts.of(one)).items()}
