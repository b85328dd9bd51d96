"""A fail that is told before the end is one at the end, however the rest turns out; so that looking early costs nothing."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from r1perf.sla.dependence import Clusters, Interval
from r1perf.sla.evidence import Attempts
from r1perf.sla.shares import judge_share

special = pytest.importorskip("scipy.special")
signal = pytest.importorskip("scipy.signal")

ALPHA = 0.05


def fails(rows: Sequence[Interval], allowed: float, planned: int | None = None, residence_s: float = 0.0, turns: int = 1) -> bool:
    """Judge intervals; with `turns`, each holds conversations that missed as a whole, as far as its misses go."""
    n, x = sum(n for n, _ in rows), sum(x for _, x in rows)
    talks = [(min(turns, n - i), max(0, min(turns, n - i, x - i))) for n, x in rows for i in range(0, n, turns)]
    seen = Attempts(
        n=n, over_certain=x, over_possible=x, intervals=tuple(rows), planned=planned, residence_p90_s=residence_s,
        conversations=Clusters.of(talks) if turns > 1 else None,
    )  # fmt: skip
    return bool(judge_share(seen, allowed, ALPHA)["verdict"] == "fail")


@st.composite
def misses(draw: st.DrawFn, intervals: int, size: int) -> list[Interval]:
    """Draw stretches that miss alike: a target that is slow, or down, or well, for a while."""
    rows: list[Interval] = []
    while len(rows) < intervals:
        rows += [(size, draw(st.integers(0, size)))] * draw(st.integers(1, intervals - len(rows)))
    return rows


@st.composite
def halves(draw: st.DrawFn) -> tuple[list[Interval], list[Interval]]:
    """Draw what a run has done, biased to what fails, and what it is still to do."""
    size, done, more = draw(st.sampled_from([1, 4, 10, 20])), draw(st.integers(1, 60)), draw(st.integers(1, 60))
    so_far = draw(st.one_of(misses(done, size), st.just([(size, size)] * done)))
    return so_far, draw(misses(more, size))


@given(halves(), st.sampled_from([0.01, 0.05, 0.1, 0.5]), st.sampled_from([0.0, 2.0, 10.0]), st.sampled_from([1, 1, 2]))
@example(([(1, 1)] * 63, [(1, 0)] * 37), 0.5, 0.0, 1)  # a row of misses
@example(([(20, 5)] * 19, [(20, 20)]), 0.1, 10.0, 1)  # a lump at the end, where two batches are all that a window holds
def test_an_early_fail_is_a_fail_at_the_end(
    halves: tuple[list[Interval], list[Interval]], allowed: float, residence_s: float, turns: int
) -> None:
    so_far, rest = halves
    planned = sum(n for n, _ in so_far + rest)
    if fails(so_far, allowed, planned, residence_s, turns):
        assert fails(so_far + [(n, 0) for n, _ in rest], allowed, None, residence_s, turns), "all others met"
        assert fails(so_far + rest, allowed, None, residence_s, turns), "as it came"


@pytest.mark.parametrize(
    ("allowed", "share", "after"),
    [(0.01, 1.0, 31), (0.01, 0.1, 68), (0.05, 1.0, 57), (0.05, 0.2, 107), (0.1, 0.5, 100), (0.5, 1.0, 172), (0.5, 0.5, None)],
    ids=["p99 down", "p99 slow", "p95 down", "p95 slow", "p90 half", "median down", "median at its limit"],
)
def test_when_a_run_can_be_ended(allowed: float, share: float, after: int | None) -> None:
    """Of 200 intervals of 10 attempts."""
    row = (10, round(10 * share))
    assert next((k for k in range(1, 201) if fails([row] * k, allowed, 2000)), None) == after


def test_without_intervals_attempts_count_as_independent() -> None:
    seen = {x: Attempts(n=x, over_certain=x, over_possible=x, planned=2000) for x in (116, 117)}
    assert [judge_share(one, 0.05, ALPHA)["verdict"] for one in seen.values()] == ["inconclusive", "fail"]


@pytest.mark.parametrize(("window", "verdict"), [(None, "fail"), (100, "fail"), (400, "inconclusive"), (40, "fail")])
def test_the_rest_fills_what_is_left_of_the_planned_window(window: int | None, verdict: str) -> None:
    """40 of 40 missed in 40 s: two fifths of a window whose rate stays, a tenth of one whose rate falls."""
    seen = Attempts(n=40, over_certain=40, over_possible=40, intervals=((1, 1),) * 40, planned=100, planned_intervals=window)
    assert judge_share(seen, 0.05, ALPHA)["verdict"] == verdict


def test_many_intervals_are_merged() -> None:
    """An hour of which a sixth was down: the same as 360 intervals of 10 s."""
    assert fails([(1, 1)] * 900, 0.01, 3600) == fails([(10, 10)] * 90, 0.01, 3600) is True


@pytest.mark.parametrize(
    ("rho", "allowed", "size", "intervals", "most"),
    [(0.0, 0.05, 10, 200, 0.04), (0.95, 0.05, 10, 200, 0.04), (0.99, 0.05, 10, 200, 0.04), (0.95, 0.5, 1, 100, 0.2)],
)
def test_looking_early_costs_nothing(rho: float, allowed: float, size: int, intervals: int, most: float) -> None:
    """A clause at exactly its limit (AR(1) neighbours): the runs that fail at any look are those that fail at their end."""
    rng = np.random.default_rng(20261130)
    noise = signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.standard_normal((100, size * intervals + 400)), axis=1)[:, 400:]
    runs = (noise > special.ndtri(1 - allowed)).reshape(100, intervals, size).sum(axis=2).tolist()
    rows = [[(size, x) for x in run] for run in runs]
    at_end = [fails(run, allowed) for run in rows]
    looks = range(intervals // 20, intervals + 1, intervals // 20)
    assert [any(fails(run[:k], allowed, size * intervals) for k in looks) for run in rows] == at_end
    assert 0 < np.mean(at_end) <= most
