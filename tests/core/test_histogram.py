import base64
import struct
import tracemalloc
import zlib
from fractions import Fraction

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from r1perf.histogram import BUCKETS, HIGHEST, Counts, highest, index, indices, lowest, rank

EDGES = sorted({v for k in range(33) for d in (-2, -1, 0, 1, 2) if 0 <= (v := 2**k + d) <= HIGHEST})
values = st.lists(st.integers(0, HIGHEST) | st.sampled_from(EDGES), min_size=1, max_size=80)


def hdrh(recorded):
    histogram = HdrHistogram(1, HIGHEST, 3)
    for value in recorded:
        assert histogram.record_value(value)
    return histogram


@given(values)
def test_buckets_are_those_of_hdrhistogram(recorded):
    reference = hdrh(recorded)
    for value in recorded:
        at = index(value)
        assert reference.counts[at] > 0
        assert (lowest(at), highest(at)) == (
            reference.get_lowest_equivalent_value(value),
            reference.get_highest_equivalent_value(value),
        )


@given(values)
def test_bulk_indices_equal_single_ones(recorded):
    assert indices(np.array(recorded)).tolist() == [index(value) for value in recorded]


def test_bulk_indices_equal_single_ones_at_every_edge():
    assert indices(np.array(EDGES)).tolist() == [index(value) for value in EDGES]
    assert index(HIGHEST) < BUCKETS


@pytest.mark.parametrize("copies", [1, 300], ids=["plain-python", "numpy"])
def test_exact_figures(copies):
    counts = Counts.of([5, 1_000_003, 7] * copies)
    assert (counts.count, counts.total, counts.least, counts.most) == (3 * copies, 1_000_015 * copies, 5, 1_000_003)
    assert counts.mean == 1_000_015 / 3
    assert counts.buckets == {5: copies, 7: copies, index(1_000_003): copies}


@pytest.mark.parametrize("copies", [1, 300], ids=["plain-python", "numpy"])
def test_values_out_of_range_are_clamped_and_counted(copies):
    counts = Counts.of([-4, 10, HIGHEST + 1, 2**52] * copies)
    assert counts.clamped == 3 * copies
    assert counts.buckets == {0: copies, 10: copies, index(HIGHEST): 2 * copies}
    assert (counts.least, counts.most, counts.count) == (-4, 2**52, 4 * copies)


def test_zero_is_a_value():
    counts = Counts.of([0, 0, 3])
    assert (counts.count, counts.clamped, counts.percentile(50)) == (3, 0, 0)


def test_nothing_has_no_figures():
    counts = Counts()
    assert (counts.count, counts.mean, counts.least, counts.most) == (0, None, None, None)
    assert counts.percentiles((50, 99)) == [None, None]
    assert counts.count_over(0) == (0, 0)
    with pytest.raises(ValueError, match="cannot be encoded"):
        counts.encode()


@given(st.lists(values, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_merging_in_any_order_and_grouping_equals_recording_everything(parts, random):
    everything = Counts.of([value for part in parts for value in part])
    counted = [Counts.of(part) for part in parts]
    random.shuffle(counted)
    while len(counted) > 1:
        at = random.randrange(len(counted) - 1)
        counted[at : at + 2] = [Counts.merged(counted[at : at + 2])]
    assert counted[0] == everything
    assert counted[0].encode() == everything.encode()


RANKS = [
    (10, 94, 10), (10, 51, 6), (10, 50, 5), (10, 0, 1), (10, 100, 10), (1, "99.9", 1), (1000, "99.9", 999),
    (1000, 50, 500), (10_000, "99.99", 9999), (3, Fraction(100, 3), 1), (7, "14.3", 2),
]  # fmt: skip


@pytest.mark.parametrize(("n", "p", "expected"), RANKS, ids=str)
def test_ranks_are_rounded_up(n, p, expected):
    assert rank(p, n) == expected
    assert Counts.of(range(1, n + 1)).percentile(p) == highest(index(expected))


def test_a_float_percentile_is_refused():
    with pytest.raises(TypeError, match="as a string"):
        rank(99.9, 1000)


@pytest.mark.parametrize("p", [-1, 101, "100.1"])
def test_a_percentile_lies_between_0_and_100(p):
    with pytest.raises(ValueError, match="between 0 and 100"):
        rank(p, 10)


@given(values, st.integers(0, 1000))
def test_a_percentile_is_at_most_a_thousandth_above_the_value_of_its_rank(recorded, tenths):
    p = Fraction(tenths, 10)
    true = sorted(recorded)[rank(p, len(recorded)) - 1]
    got = Counts.of(recorded).percentile(p)
    assert true <= got <= true + max(true // 1000, 0)


BEYOND = st.integers(-10, 10) | st.integers(HIGHEST - 10_000_000, HIGHEST + 10_000_000) | st.integers(HIGHEST, 10 * HIGHEST)


@given(values | st.lists(BEYOND, min_size=1, max_size=9), st.integers(0, HIGHEST) | st.sampled_from(EDGES) | BEYOND)
def test_count_over_brackets_the_truth(recorded, limit):
    over = sum(value > limit for value in recorded)
    low, high = Counts.of(recorded).count_over(limit)
    assert low <= over <= high
    sharing = sum(index(value) == index(limit) for value in recorded)
    assert high - low <= sharing


@pytest.mark.parametrize(
    ("recorded", "limit", "expected"),
    [
        ([100, 200, 300], 200, (1, 1)),
        ([100, 200, 300], 199, (2, 2)),
        ([1_000_000, 1_000_010, 2_000_000], 1_000_005, (1, 2)),
        ([1_000_000, 1_000_006], 1_000_005, (1, 1)),
        ([1_000_010, 1_000_020], 1_000_005, (2, 2)),
        ([1_000_000, 1_000_004], 1_000_005, (0, 0)),
        ([1, HIGHEST, 2 * HIGHEST, 3 * HIGHEST], 2 * HIGHEST, (1, 3)),
    ],
    ids=["at-a-value", "below-a-value", "inside-a-bucket", "least-and-most-inside", "least-is-over", "most-is-not", "clamped"],
)
def test_count_over(recorded, limit, expected):
    assert Counts.of(recorded).count_over(limit) == expected


@given(values)
def test_encoding_equals_hdrhistograms_own_and_comes_back(recorded):
    counts = Counts.of(recorded)
    encoded = counts.encode()
    assert encoded == hdrh(recorded).encode().decode()
    read = Counts.decode(encoded)
    assert (read.buckets, read.count) == (counts.buckets, counts.count)
    assert read.least <= counts.least
    assert read.most >= counts.most


def test_large_counts_come_back():
    counts = Counts()
    counts.add_sparse([7, 23_000], [2**62, 1], 2**62 + 1, 0, 7, 10)
    assert Counts.decode(counts.encode()).buckets == {7: 2**62, 23_000: 1}
    counts.add(counts)
    with pytest.raises(ValueError, match="cannot be encoded"):
        counts.encode()


def packed(payload, cookie=0x1C849314):
    squeezed = zlib.compress(payload)
    return base64.b64encode(struct.pack(">II", cookie, len(squeezed)) + squeezed).decode()


def header(length, digits=3, low=1, high=HIGHEST, cookie=0x1C849313):
    return struct.pack(">IIIIQQd", cookie, length, 0, digits, low, high, 1.0)


WHOLE = Counts.of([5, 900, 10**6]).encode()
DAMAGED = {
    "cut": WHOLE[:-8],
    "empty": "",
    "not-base64": "%%%%",
    "other-cookie": packed(header(1) + b"\x02", cookie=1),
    "other-payload-cookie": packed(header(1, cookie=2) + b"\x02"),
    "five-digits": packed(header(1, digits=5, high=2**63 - 1) + b"\x02"),
    "zlib-bomb": packed(bytes(50_000_000)),
    "too-long": "A" * 300_000,
    "not-zlib": base64.b64encode(struct.pack(">II", 0x1C849314, 4) + b"abcd").decode(),
    "short-payload": packed(b"abc"),
    "count-cut": packed(header(1) + b"\x82"),
    "no-values": packed(header(1) + b"\x00"),
    "beyond-its-range": packed(header(5) + b"\xff\xff\xff\x01\x02"),
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED.keys())
def test_damaged_text_is_refused(text):
    with pytest.raises(ValueError, match=r"histogram"):
        Counts.decode(text)


def test_a_small_text_cannot_claim_much_memory():
    bomb = packed(bytes(50_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="larger than it can be"):
            Counts.decode(bomb)
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
