"""What dependent attempts are worth; the false-pass rates at a nominal 5 % are simulated with a fixed seed.

Every simulation has exactly the share of misses that the clause allows, so each pass is a false one.
"""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from r1perf.sla.binomial import passes
from r1perf.sla.dependence import BATCHES, Clusters, Worth, batch, design_effect, korn_graubard, worth

special = pytest.importorskip("scipy.special")
signal = pytest.importorskip("scipy.signal")

ALPHA = 0.05
Grid = NDArray[np.float64] | NDArray[np.int64]


def passed(attempts: int, misses: int, effective: Worth, q: float) -> bool:
    scale = effective.n_eff / attempts
    return passes(misses * scale, effective.n_eff, q, ALPHA)


def naive(attempts: Sequence[int], misses: Sequence[int], q: float) -> float:
    return float(np.mean([passes(int(x), int(n), q, ALPHA) for n, x in zip(attempts, misses, strict=True)]))


def by_time(attempts: Grid, misses: Grid, q: float, **known: float) -> tuple[float, list[Worth]]:
    """Judge each row of interval counts; return the share that passed and what each was worth."""
    found = [
        worth(int(n.sum()), alpha=ALPHA, intervals=[*zip(n.tolist(), x.tolist(), strict=True)], **known)
        for n, x in zip(attempts.astype(int), misses.astype(int), strict=True)
    ]
    share = np.mean([passed(int(n.sum()), int(x.sum()), w, q) for n, x, w in zip(attempts, misses, found, strict=True)])
    return float(share), found


class TestSums:
    def test_design_effect_by_hand(self) -> None:
        """Four clusters of 10 with 0, 0, 5, 5 misses: p = 1/4, squares 4 x 6.25, var = 4/3 x 25 / 1600, binomial 3/640."""
        sums = Clusters.of([(10, 0), (10, 0), (10, 5), (10, 5)])
        assert sums == Clusters(4, 40, 10, 400, 50, 100, 2)
        assert design_effect(sums) == pytest.approx(4 / 3 * 25 / 1600 / (0.25 * 0.75 / 40))

    @pytest.mark.parametrize(
        "counts", [[], [(10, 3)], [(10, 0), (10, 0)], [(10, 10), (5, 5)]], ids=["no cluster", "one", "no miss", "only misses"]
    )
    def test_design_effect_is_undefined(self, counts: list[tuple[int, int]]) -> None:
        assert design_effect(Clusters.of(counts)) is None

    @given(
        st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)).map(lambda mx: (mx[0], min(mx))), max_size=20),
        st.integers(0, 20),
    )
    def test_sums_merge(self, counts: list[tuple[int, int]], cut: int) -> None:
        assert Clusters.of(counts[:cut]) + Clusters.of(counts[cut:]) == Clusters.of(counts)

    def test_korn_graubard(self) -> None:
        """2,000 attempts at deff 2.1 over 20 batches: t(19) = 1.729, z = 1.645, so 2000 / (2.1 x 1.105) = 862."""
        assert korn_graubard(2000, 2.1, 20, ALPHA) == pytest.approx(862, abs=0.5)

    @given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=200), st.integers(1, 25))
    def test_batches_part_the_intervals(self, intervals: list[tuple[int, int]], count: int) -> None:
        batches = batch(intervals, count)
        assert len(batches) == count
        assert (sum(n for n, _ in batches), sum(x for _, x in batches)) == (
            sum(n for n, _ in intervals),
            sum(x for _, x in intervals),
        )


class TestWorth:
    def test_steady_misses_are_worth_nearly_all(self) -> None:
        found = worth(2000, alpha=ALPHA, intervals=[(10, 1), (10, 0)] * 100)
        assert (found.deff, found.by, found.batches, found.batch_s, found.window_only) == (1.0, "time", 20, 10.0, False)
        assert found.n_eff == pytest.approx(2000 / 1.105, rel=1e-3)

    def test_misses_in_one_stretch_are_worth_little(self) -> None:
        found = worth(2000, alpha=ALPHA, intervals=[(10, 0)] * 180 + [(10, 5)] * 20)
        assert found.n_eff < 50

    def test_batches_outlast_the_residence_time(self) -> None:
        found = worth(3600, alpha=ALPHA, intervals=[(10, 1), (10, 0)] * 180, residence_s=20.0)
        assert (found.batches, found.batch_s, found.window_only) == (18, 20.0, False)

    @pytest.mark.parametrize("residence_s", [25.0, 300.0, 3600.0])
    def test_a_window_too_short_is_flagged(self, residence_s: float) -> None:
        assert worth(3600, alpha=ALPHA, intervals=[(10, 1), (10, 0)] * 180, residence_s=residence_s).window_only

    def test_neighbours_that_move_together_count_again(self) -> None:
        """Misses come and go over five batches each: design effect 8.86, lag-1 correlation 0.65, so 8.86 x 2.3."""
        intervals = ([(10, 0)] * 80 + [(10, 1)] * 80) * 2
        assert design_effect(Clusters.of(batch(intervals, 20))) == pytest.approx(8.864, abs=1e-3)
        assert worth(3200, alpha=ALPHA, intervals=intervals).deff == pytest.approx(8.864 * 2.3, abs=1e-2)

    def test_the_few_long_batches_of_a_short_window_count_where_they_are_worse(self) -> None:
        intervals = ([(10, 0)] * 50 + [(10, 1)] * 50) * 2
        found = worth(2000, alpha=ALPHA, intervals=intervals, residence_s=50.0)
        assert (found.batches, found.batch_s, found.window_only) == (4, 50.0, True)
        assert found.n_eff < worth(2000, alpha=ALPHA, intervals=intervals).n_eff

    def test_few_intervals_are_flagged(self) -> None:
        assert worth(100, alpha=ALPHA, intervals=[(10, 1)] * 5 + [(10, 0)] * 5, interval_s=10.0).window_only

    def test_without_intervals_attempts_count_as_independent(self) -> None:
        assert worth(500, alpha=ALPHA) == Worth(n_eff=500, measured=False)

    def test_conversations_that_miss_as_one(self) -> None:
        conversations = Clusters.of([(5, 5)] * 10 + [(5, 0)] * 190)
        found = worth(1000, alpha=ALPHA, intervals=[(10, 1), (10, 0)] * 50, conversations=conversations)
        assert (found.by, found.batches) == ("conversations", 200)
        assert found.deff == pytest.approx(5.0, rel=0.01)

    def test_conversations_of_one_turn_are_no_clusters(self) -> None:
        found = worth(
            1000, alpha=ALPHA, intervals=[(10, 1), (10, 0)] * 50, conversations=Clusters.of([(1, 1)] * 50 + [(1, 0)] * 950)
        )
        assert found.by == "time"

    def test_three_clean_streams_are_worth_three(self) -> None:
        clean = Clusters.of([(100, 0)] * 3)
        assert worth(300, alpha=ALPHA, requests=clean, intervals=[(50, 0)] * 6).n_eff == pytest.approx(3)

    def test_clean_gaps_are_worth_no_more_than_seconds(self) -> None:
        clean = Clusters.of([(100, 0)] * 500)
        assert worth(50_000, alpha=ALPHA, requests=clean, intervals=[(500, 0)] * 100).n_eff == pytest.approx(100)

    @given(
        st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda mx: (mx[0], min(mx))), max_size=60),
        st.floats(0, 100),
    )
    def test_never_worth_more_than_they_are(self, intervals: list[tuple[int, int]], residence_s: float) -> None:
        n = sum(n for n, _ in intervals)
        found = worth(n, alpha=ALPHA, intervals=intervals, residence_s=residence_s)
        assert 0 <= found.n_eff <= n
        assert found.deff >= 1


class TestFalsePasses:
    @pytest.mark.parametrize(
        ("n", "rho", "independent", "most"),
        [
            (5000, 0.5, 0.10, 0.07),
            (5000, 0.8, 0.22, 0.07),
            (5000, 0.9, 0.30, 0.07),
            (5000, 0.95, 0.36, 0.07),
            (1000, 0.9, 0.31, 0.10),  # 50 attempts a batch, a memory of 20: batches are short
        ],
    )
    def test_neighbours_in_time(self, n: int, rho: float, independent: float, most: float) -> None:
        """A p95 over a Gaussian AR(1) copula: 10 / 22 / 30 / 36 % as independent, about 5 % by batches (1,000: 31 and 8.8 %)."""
        rng = np.random.default_rng(20261130)
        noise = signal.lfilter([np.sqrt(1 - rho**2)], [1, -rho], rng.standard_normal((2000, n + 200)), axis=1)[:, 200:]
        misses = (noise > special.ndtri(0.95)).reshape(2000, 200, -1).sum(axis=2)
        attempts = np.full_like(misses, n // 200)
        assert naive(attempts.sum(axis=1), misses.sum(axis=1), 0.05) == pytest.approx(independent, abs=0.03)
        share, _ = by_time(attempts, misses, 0.05)
        assert 0.02 <= share <= most

    @pytest.mark.parametrize(("icc", "independent", "most"), [(0.05, 0.09, 0.06), (0.2, 0.16, 0.08), (0.4, 0.31, 0.09)])
    def test_gaps_of_one_request(self, icc: float, independent: float, most: float) -> None:
        """A p99 over 200 requests of 100 gaps, probit-normal: 9 / 16 / 31 % as independent, 5 / 6 / 8 % by requests."""
        rng = np.random.default_rng(20261130)
        share = special.ndtr((special.ndtri(0.01) + np.sqrt(icc) * rng.standard_normal((2000, 200))) / np.sqrt(1 - icc))
        misses = rng.binomial(100, share)
        assert naive([20_000] * 2000, misses.sum(axis=1), 0.01) == pytest.approx(independent, abs=0.035)
        found = [worth(20_000, alpha=ALPHA, requests=Clusters.of((100, x) for x in row)) for row in misses.tolist()]
        assert np.mean([passed(20_000, sum(row), w, 0.01) for row, w in zip(misses.tolist(), found, strict=True)]) <= most

    def test_streams_share_a_decode_batch(self) -> None:
        """A prefill stall hits every stream at once: clusters of requests alone pass falsely 42-46 %, batches of time 2-5 %.

        360 s at 10 requests/s of 100 gaps of 50 ms; each step of the batch stalls with probability 1 %.
        """
        rng = np.random.default_rng(20261130)
        runs, steps, length = 400, 7200, 100
        stalls = rng.random((runs, steps + length)) < 0.01
        so_far = np.concatenate([np.zeros((runs, 1), int), np.cumsum(stalls, axis=1)], axis=1)
        starts = rng.integers(0, steps, (runs, 3600))
        of_request = np.take_along_axis(so_far, starts + length, 1) - np.take_along_axis(so_far, starts, 1)
        begun = np.stack([np.bincount(row, minlength=steps) for row in starts])
        running = np.cumsum(begun, axis=1)
        running[:, length:] -= np.cumsum(begun, axis=1)[:, :-length]
        gaps = running.reshape(runs, 360, -1).sum(axis=2)
        misses = (running * stalls[:, :steps]).reshape(runs, 360, -1).sum(axis=2)
        totals, missed = gaps.sum(axis=1).tolist(), misses.sum(axis=1).tolist()
        requests = [Clusters.of((length, x) for x in row) for row in of_request.tolist()]
        alone = [
            passes(x / deff, n / deff, 0.01, ALPHA)
            for n, x, sums in zip(totals, missed, requests, strict=True)
            if (deff := max(1.0, design_effect(sums) or 1.0))
        ]
        assert 0.36 <= np.mean(alone) <= 0.5
        time_only, _ = by_time(gaps, misses, 0.01)
        assert 0.01 <= time_only <= 0.06
        together = [
            passed(n, x, worth(n, alpha=ALPHA, intervals=[*zip(g, m, strict=True)], requests=sums, residence_s=5.0), 0.01)
            for n, x, g, m, sums in zip(totals, missed, gaps.tolist(), misses.tolist(), requests, strict=True)
        ]
        assert np.mean(together) <= 0.05

    @pytest.mark.parametrize(
        ("hours", "least", "most", "flagged"),
        [(0.1, 0.45, 0.66, True), (0.5, 0.0, 0.3, True), (2.0, 0.0, 0.15, False), (8.0, 0.0, 0.07, False)],
        ids=["6 minutes", "half an hour", "2 hours", "8 hours"],
    )
    def test_answers_that_modulate_the_load(self, hours: float, least: float, most: float, flagged: bool) -> None:
        """Answers of about 300 s make a load that moves slowly, and misses follow it.

        In six minutes 20 batches of 18 s see one state of the load and pass falsely 49-64 %: nothing in the run can tell, so such a
        verdict must say that it stands for its window only. Two hours in batches that just outlast an answer still pass
        11-29 % by simple batches; the correlation of neighbours lowers that, and a longer window cures it.
        """
        rng = np.random.default_rng(20261130)
        runs, step_s, rate, mean_s, steps = 400, 2.0, 1.0, 300.0, round(hours * 1800)
        lengths = np.sort(rng.normal(mean_s, 0.1 * mean_s, 20_000)) / step_s
        warm = 200
        still_there = 1 - np.searchsorted(lengths, np.arange(warm)) / len(lengths)
        arrivals = rng.poisson(rate * step_s, (runs, steps + warm))
        load = signal.fftconvolve(arrivals, still_there[None, :], axes=1)[:, warm : warm + steps]
        scaled = (load - rate * step_s * still_there.sum()) / np.sqrt(rate * step_s * (still_there**2).sum())
        # The level at which the long-run share of misses is exactly 1 %, by Gauss-Hermite quadrature.
        at, weight = np.polynomial.hermite_e.hermegauss(60)
        low, high = -20.0, 5.0
        for _ in range(60):
            middle = (low + high) / 2
            share = float((special.expit(middle + 1.2 * at) * weight).sum() / weight.sum())
            low, high = (low, middle) if share > 0.01 else (middle, high)
        gaps = np.rint(load * step_s * 20).astype(int)
        misses = rng.binomial(gaps, special.expit(low + 1.2 * scaled))
        residence_s = mean_s * (1 + 1.2816 * 0.1)
        share, found = by_time(gaps, misses, 0.01, interval_s=step_s, residence_s=residence_s)
        assert least <= share <= most
        assert {one.window_only for one in found} == {flagged}
        assert all(one.batch_s >= residence_s or one.window_only for one in found)
        assert {one.batches for one in found} <= {BATCHES, int(hours * 3600 / residence_s)}
