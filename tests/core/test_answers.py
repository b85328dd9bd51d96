"""Accuracy with its interval, the prefix cache's share, and the bounds of what the end of a run cuts."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from virtual_run import S, a_run

from r1perf.histogram import Counts
from r1perf.report import print_report
from r1perf.snapshot import Counter, Health, Series, Snapshot
from r1perf.summary import Accuracy, Between, Bounds, Caching, Summary, accuracy, bounds, caching, document
from r1perf.summary.accuracy import wilson
from r1perf.summary.censoring import between

STEADY, WARMUP = 2, 0
HEALTH = Health(0, 0, 0, S, 0, 0, 0)


def summary(counters=(), series=()):
    """Merge one interval with (name, workload, stage, n) counters and (metric, workload, stage, values) series."""
    merged = Summary(a_run())
    made = []
    for metric, workload, stage, values in series:
        counts = Counts.of(values)
        made.append(Series(metric, workload, stage, *counts.sparse(), counts.count, counts.total, counts.least, counts.most))
    merged.merge(Snapshot("0", 0, made, [Counter(*one) for one in counters], HEALTH, [], []))
    return merged


# --- Accuracy ---

WILSON = [
    # Newcombe 1998, table I, method 3: https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<857::AID-SIM777>3.0.CO;2-E
    pytest.param(81, 263, 0.2553, 0.3662, id="81 of 263"),
    pytest.param(15, 148, 0.0624, 0.1605, id="15 of 148"),
    pytest.param(0, 20, 0.0, 0.1611, id="none of 20"),
    pytest.param(1, 29, 0.0061, 0.1718, id="1 of 29"),
    pytest.param(20, 20, 1 - 0.1611, 1.0, id="all of 20"),
]


@pytest.mark.parametrize(("right", "total", "low", "high"), WILSON)
def test_intervals_are_those_of_the_literature(right, total, low, high):
    assert wilson(right, total) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@given(total=st.integers(1, 5000), data=st.data())
def test_an_interval_lies_around_its_share_and_mirrors(total, data):
    right = data.draw(st.integers(0, total))
    low, high = wilson(right, total)
    assert 0 <= low <= right / total <= high <= 1
    assert wilson(total - right, total) == (pytest.approx(1 - high), pytest.approx(1 - low))


def test_accuracy_is_of_all_four_grades_and_beside_it_of_the_answered():
    grades = [
        (f"grade.{grade}", "aime", STEADY, n) for grade, n in (("right", 6), ("wrong", 2), ("unanswered", 1), ("truncated", 3))
    ]
    made = accuracy(summary([*grades, ("grade.wrong", "aime", WARMUP, 50), ("grade.wrong", "chat", STEADY, 50)]), "aime")
    assert made == Accuracy(
        value=0.5, low=wilson(6, 12)[0], high=wilson(6, 12)[1], answered=0.75, answered_low=wilson(6, 8)[0], answered_high=wilson(6, 8)[1],
    )  # fmt: skip


def test_accuracy_is_absent_where_nothing_was_graded_and_of_the_answered_where_none_was():
    assert accuracy(summary([("outcome.ok", "aime", STEADY, 5)]), "aime") is None
    made = accuracy(summary([("grade.truncated", "aime", STEADY, 4)]), "aime")
    assert (made.value, made.answered, made.answered_low) == (0.0, None, None)


def test_cut_answers_bound_the_accuracy_of_all():
    counters = [("grade.right", "aime", STEADY, 3), ("grade.wrong", "aime", STEADY, 1)]
    counters += [
        ("outcome.cancelled", "aime", STEADY, 4),
        ("outcome.lost", "aime", STEADY, 2),
        ("outcome.cancelled", "chat", STEADY, 9),
    ]
    made = accuracy(summary([*counters, ("outcome.cancelled", "aime", WARMUP, 7)]), "aime")
    assert (made.cut, made.least, made.most) == (6, 0.3, 0.9)


# --- Prefix cache ---


def test_the_hit_ratio_counts_only_requests_whose_cached_tokens_were_told():
    counters = [
        ("input_tokens", "chat", STEADY, 9000),
        ("cache_told_tokens", "chat", STEADY, 1000),
        ("cached_tokens", "chat", STEADY, 400),
    ]
    counters += [
        ("cache_told_tokens", "aime", STEADY, 3000),
        ("partly_cached", "aime", STEADY, 3),
        ("cached_tokens", "chat", WARMUP, 77),
    ]
    merged = summary(counters, [("ttft_cold", "aime", STEADY, [5, 6]), ("ttft_warm", "chat", STEADY, [1, 1, 2])])
    assert caching(merged, "chat") == Caching(hit_ratio=0.4, cold=0, partly=0, warm=3)
    assert caching(merged, "aime") == Caching(hit_ratio=0.0, cold=2, partly=3, warm=0)
    assert caching(merged) == Caching(hit_ratio=0.1, cold=2, partly=3, warm=3)
    assert caching(summary([("input_tokens", "chat", STEADY, 9000)])) is None


# --- What the end cuts ---


@given(
    known=st.lists(st.integers(0, 10**6), min_size=0, max_size=60), data=st.data(), p=st.sampled_from(["50", "90", "95", "99"])
)
def test_the_bounds_hold_whatever_the_cut_ones_would_have_been(known, data, p):
    cut = data.draw(st.lists(st.integers(0, 10**7), min_size=1, max_size=20))
    counts, bound = Counts.of(known), between(Counts.of(known), p, len(cut))
    counts.record(cut)
    true = counts.percentile(p)
    assert bound.least is None or bound.least <= true
    assert bound.most is None or true <= bound.most


@given(
    known=st.lists(st.integers(0, 10**6), min_size=1, max_size=60),
    n=st.integers(1, 20),
    p=st.sampled_from(["50", "90", "95", "99"]),
)
def test_the_bounds_are_reached(known, n, p):
    """Each bound is the percentile of the worst case on its side: a tighter one would be wrong."""
    bound = between(Counts.of(known), p, n)
    shortest, longest = Counts.of([*known, *[0] * n]), Counts.of([*known, *[10**9] * n])
    assert bound.least in (None, shortest.percentile(p))
    assert bound.most in (None, longest.percentile(p))
    assert (bound.least is None) == (shortest.percentile(p) == 0 and bound.least is None)
    assert (bound.most is None) == (longest.percentile(p) > 10**6 * 2)


def cut_run():
    seconds = [(n + 1) * 1_000_000 for n in range(90)]
    counters = [
        ("outcome.ok", "aime", STEADY, 90),
        ("outcome.cancelled", "aime", STEADY, 6),
        ("outcome.dropped", "aime", STEADY, 3),
    ]
    counters += [
        ("outcome.lost", "aime", STEADY, 1),
        ("outcome.cancelled", "aime", WARMUP, 40),
        ("outcome.timeout", "aime", STEADY, 30),
    ]
    return summary(counters, [("e2e", "aime", STEADY, seconds), ("output_tokens", "aime", STEADY, [n + 1 for n in range(90)])])


def test_bounds_of_e2e_and_length_by_workload():
    found = {(row.metric, row.workload): row for row in bounds(cut_run())}
    assert set(found) == {(metric, workload) for metric in ("e2e", "output_tokens") for workload in (None, "aime")}
    row = found["output_tokens", "aime"]
    assert row == Bounds(
        metric="output_tokens", workload="aime", unit="tokens", known=90, cut=10,
        p50=Between(40, 50), p90=Between(80, 90), p95=Between(85, None), p99=Between(89, None),
    )  # fmt: skip
    assert found["e2e", None].p90.most == pytest.approx(90_000, rel=1e-3)
    assert found["e2e", None].p95.most is None


def test_nothing_is_bounded_where_nothing_was_cut():
    assert bounds(summary([("outcome.ok", "aime", STEADY, 90), ("outcome.cancelled", "aime", WARMUP, 3)])) == []
    assert document(summary()).bounds == []


def test_the_report_says_how_many_were_cut_and_what_that_leaves_open():
    out = io.StringIO()
    print_report(document(cut_run()), Console(file=out, width=80, color_system=None))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    at = lines.index("E2E, cut ones included")
    assert lines[at + 1] == "cut p50 p90 p95 p99"
    assert lines[at + 4] == "aime 10 40.0 to 50.0 s 80.0 to 90.0 s ≥ 85.0 s ≥ 89.1 s"
    at = lines.index("output tokens, cut ones included")
    assert lines[at + 4] == "aime 10 40 to 50 80 to 90 ≥ 85 ≥ 89"


def test_the_report_shows_ttft_cold_and_warm_with_the_hit_ratio():
    counters = [
        ("cache_told_tokens", "chat", STEADY, 1000),
        ("cached_tokens", "chat", STEADY, 415),
        ("outcome.ok", "aime", STEADY, 1),
    ]
    merged = summary(counters, [("ttft_cold", "chat", STEADY, [90_000]), ("ttft_warm", "chat", STEADY, [7_000, 8_000])])
    out = io.StringIO()
    print_report(document(merged), Console(file=out, width=80, color_system=None))
    lines = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    at = lines.index("TTFT by prefix cache")
    assert lines[at + 1] == "hit ratio cold p50 p95 warm p50 p95 other"
    assert lines[at + 3 : at + 5] == [
        "chat 41.5 % 1 90.0 ms 90.0 ms 2 7.00 ms 8.00 ms 0", "all 41.5 % 1 90.0 ms 90.0 ms 2 7.00 ms 8.00 ms 0",
    ]  # fmt: skip
