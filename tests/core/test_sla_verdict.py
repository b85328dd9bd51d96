"""Verdicts of every kind of clause: on what ground, in which words, and never on nothing."""

import math
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

import r1perf.sla
from r1perf.errors import UsageError
from r1perf.sla import Attempts, Circumstances, Clusters, Evidence, Flow, Runs, Verdict, family, judge, parse, render, special
from r1perf.sla.bootstrap import ratio
from r1perf.sla.clauses import Aggregate
from r1perf.sla.multiple import holm
from r1perf.sla.wording import percent

signal = pytest.importorskip("scipy.signal")


def spread(n: int, x: int, intervals: int = 200) -> tuple[tuple[int, int], ...]:
    """Spread attempts and misses evenly over intervals."""
    edges = range(intervals + 1)
    return tuple(
        (n * (i + 1) // intervals - n * i // intervals, x * (i + 1) // intervals - x * i // intervals) for i in edges[:intervals]
    )


def attempts(n: int, certain: int, possible: int | None = None, **more: Any) -> Attempts:
    known = {"intervals": spread(n, certain)} | more
    return Attempts(n=n, over_certain=certain, over_possible=certain if possible is None else possible, **known)


def ruling(text: str, evidence: Evidence, **more: Any) -> str:
    return judge(parse(text), evidence, **more).verdict


class TestShares:
    @pytest.mark.parametrize(
        ("text", "n", "misses", "verdict"),
        [
            ("p95(ttft) < 800ms", 2000, 60, "pass"),
            ("p95(ttft) < 800ms", 2000, 104, "inconclusive"),
            ("p95(ttft) < 800ms", 2000, 174, "fail"),
            ("p95(ttft) < 800ms", 59, 0, "pass"),
            ("p95(ttft) < 800ms", 58, 0, "inconclusive"),
            ("p95(ttft) >= 800ms", 2000, 60, "pass"),
            ("p99.9(e2e) < 1m", 2995, 0, "pass"),
            ("goodput(ttft<1s, tpot<60ms) >= 95%", 2000, 60, "pass"),
            ("goodput(ttft<1s, tpot<60ms) >= 95%", 2000, 174, "fail"),
            ("error_rate < 1%", 299, 0, "pass"),
            ("error_rate < 1%", 298, 0, "inconclusive"),
            ("error_rate < 1%", 1000, 40, "fail"),
            ("accuracy >= 0.70", 300, 60, "pass"),
            ("accuracy >= 0.70", 300, 120, "fail"),
            ("max(ttft) < 5s", 10, 0, "pass"),
            ("max(ttft) < 5s", 10, 1, "fail"),
        ],
    )
    def test_verdict(self, text: str, n: int, misses: int, verdict: str) -> None:
        assert ruling(text, attempts(n, misses)) == verdict

    @pytest.mark.parametrize(
        "text",
        [
            "p95(ttft) < 800ms",
            "error_rate < 1%",
            "goodput(ttft<1s) >= 95%",
            "accuracy >= 70%",
            "max(ttft) < 5s",
            "p99(itl) < 60ms",
        ],
    )
    def test_nothing_is_never_a_pass(self, text: str) -> None:
        found = judge(parse(text), Attempts(n=0, over_certain=0, over_possible=0, not_applicable=7))
        assert (found.verdict, found.says) == (
            "inconclusive",
            "nothing to judge: the metric does not apply to any of 7 requests",
        )
        assert ruling(text, Attempts(n=0, over_certain=0, over_possible=0)) == "inconclusive"

    def test_every_request_failed(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(500, 500, causes=(("connect_error", 500),)))
        assert (found.verdict, found.value) == ("fail", 1.0)

    @pytest.mark.parametrize(
        ("certain", "possible", "verdict"),
        [(40, 60, "pass"), (40, 200, "inconclusive"), (40, 2000, "inconclusive"), (174, 2000, "fail")],
        ids=["either way", "cut ones decide", "all cut", "fails either way"],
    )
    def test_what_is_not_known_counts_both_ways(self, certain: int, possible: int, verdict: str) -> None:
        assert ruling("p95(ttft) < 800ms", attempts(2000, certain, possible)) == verdict

    def test_cut_requests_that_decide_are_named(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(2000, 40, 200))
        assert found.says.endswith("160 values cut by the end of the run decide, let them end")
        assert found.needs_requests is None

    def test_where_all_were_cut_no_number_of_others_is_named(self) -> None:
        found = judge(parse("p90(e2e) < 60s"), attempts(25, 0, 25))
        assert (
            found.says
            == "0 of 25 = 0 % missed; 0 % to 100 % straddle 10 %; 25 values cut by the end of the run decide, let them end"
        )
        assert found.needs_requests is None

    def test_requests_that_the_archive_has_lost_cannot_be_let_end(self) -> None:
        lost = judge(parse("p90(e2e) < 60s"), attempts(100, 0, 50, missing=50))
        assert lost.says.endswith("; 50 requests without a line in the archive decide")
        both = judge(parse("p90(e2e) < 60s"), attempts(100, 0, 50, missing=49))
        says = "1 value cut by the end of the run and 49 requests without a line in the archive"
        assert both.says.endswith(f"; {says} decide, let them end")
        assert f"{says}: counted both ways" in both.notes

    def test_how_many_more_counts_the_cut_ones_in(self) -> None:
        """5 met the limit and 20 are not known: 286 pass a p90 with 20 misses, if no other misses."""
        found = judge(parse("p90(e2e) < 60s"), attempts(25, 0, 20, intervals=spread(25, 0, 25)))
        assert found.needs_requests == 286 - 25
        assert ruling("p90(e2e) < 60s", attempts(286, 0, 20)) == "pass"
        assert ruling("p90(e2e) < 60s", attempts(285, 0, 20)) == "inconclusive"

    def test_how_many_more_fail_though_the_cut_ones_met(self) -> None:
        """A fifth of the 20 that are known missed."""
        found = judge(parse("p90(e2e) < 60s"), attempts(30, 4, 14, intervals=spread(30, 4, 30)))
        assert found.needs_requests is not None
        n = 30 + found.needs_requests
        assert ruling("p90(e2e) < 60s", attempts(n, round(0.2 * (n - 10)) + 1)) == "fail"

    def test_a_bracketed_limit_is_named(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(2000, 40, 200, bracketed=True))
        assert found.says.endswith("160 values in the limit's bucket decide")

    def test_inconclusive_says_how_many_more(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(58, 0, intervals=spread(58, 0, 58)))
        assert (found.needs_requests, found.needs_s) == (1, 1.0)

    def test_how_long_that_takes_counts_the_rate_of_the_intervals_that_are_known(self) -> None:
        """58 attempts in 58 s, and 29 more of which an archive has no interval."""
        more = {"intervals": spread(58, 0, 58)}
        assert judge(parse("p99(ttft) < 1s"), attempts(87, 0, **more)).needs_requests == 299 - 87
        assert judge(parse("p99(ttft) < 1s"), attempts(87, 0, **more)).needs_s == pytest.approx(299 - 87)
        assert judge(parse("p99(ttft) < 1s"), attempts(87, 0, intervals=spread(0, 0, 58))).needs_s is None

    def test_one_that_decides_is_one(self) -> None:
        cut = judge(parse("p90(e2e) < 60s"), attempts(29, 0, 1, intervals=spread(29, 0, 29)))
        assert cut.says.endswith("; 1 value cut by the end of the run decides, let it end")
        lost = judge(parse("p90(e2e) < 60s"), attempts(29, 0, 1, missing=1, intervals=spread(29, 0, 29)))
        assert lost.says.endswith("; 1 request without a line in the archive decides")

    def test_that_many_more_decide(self) -> None:
        first = judge(parse("p95(ttft) < 800ms"), attempts(1000, 40))
        assert first.verdict == "inconclusive"
        assert first.needs_requests is not None
        n = 1000 + first.needs_requests
        assert ruling("p95(ttft) < 800ms", attempts(n, round(n * 0.04) - 1)) == "pass"
        assert ruling("p95(ttft) < 800ms", attempts(n * 3 // 4, round(n * 0.03))) == "inconclusive"

    def test_too_near_for_any_number(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(2000, 100))
        assert (found.needs_requests, found.says.endswith("too near its limit for any number of requests")) == (None, True)

    def test_confidence(self) -> None:
        assert ruling("p95(ttft) < 800ms", attempts(59, 0), confidence=0.95) == "pass"
        assert ruling("p95(ttft) < 800ms", attempts(89, 0), confidence=0.99) == "inconclusive"
        assert ruling("p95(ttft) < 800ms", attempts(90, 0), confidence=0.99) == "pass"

    @pytest.mark.parametrize(
        ("n", "misses", "verdict"),
        [(600, 130, "inconclusive"), (1200, 250, "fail"), (1200, 120, "inconclusive"), (600, 0, "inconclusive")],
    )
    def test_a_run_that_was_ended_early(self, n: int, misses: int, verdict: str) -> None:
        """Of 2,000 planned: 117 misses would fail independent ones, but the rest may show that those so far came as one lump."""
        assert ruling("p95(ttft) < 800ms", attempts(n, misses, planned=2000)) == verdict

    def test_a_row_of_misses_proves_nothing_of_what_is_to_come(self) -> None:
        """63 of 63 are one lump once the other 37 meet the limit; at the end of such a run a median is inconclusive too."""
        row = ((1, 1),) * 63
        found = judge(parse("p50(ttft) < 100ms"), attempts(63, 63, planned=100, intervals=row), Circumstances(early="so far"))
        assert found.says == (
            "the run ended early (so far); so far 63 of 63 = 100 % missed, 50 % may: that would fail, "
            "but 37 of the 100 planned were not sent"
        )
        assert (found.verdict, found.needs_requests) == ("inconclusive", None)
        assert ruling("p50(ttft) < 100ms", attempts(100, 63, intervals=row + ((1, 0),) * 37)) == "inconclusive"

    def test_a_run_that_was_ended_early_and_would_pass(self) -> None:
        """Nothing straddles, and no more requests would decide than were planned."""
        seen = attempts(241, 0, planned=325, not_applicable=4)
        found = judge(parse("error_rate < 5%"), seen, Circumstances(early="the limit of $1"))
        assert found.says == (
            "the run ended early (the limit of $1); so far 0 of 241 = 0 % missed, 5 % may: that would pass, "
            "but 80 of the 325 planned were not sent"
        )
        assert (found.verdict, found.needs_requests, found.needs_s, found.planned) == ("inconclusive", None, None, 325)

    def test_a_fail_of_a_run_that_was_ended_early_names_what_was_planned(self) -> None:
        """Nothing is said of others than those planned, and the effective number is theirs."""
        seen = attempts(80, 80, planned=200, observed=9e8, causes=(("slow", 80),), intervals=((1, 1),) * 80)
        found = judge(parse("p95(ttft) < 800ms"), seen, Circumstances(early="`p95(ttft) < 800ms` cannot pass any more"))
        assert found.says == "80 of 80 = 100 % missed, 5 % may; at least 10.2 % of the 200 planned do"
        assert (
            render(found)
            == """\
SLA FAIL  p95(ttft) < 800ms
  observed   p95 = 900 ms
  missed     80 of 80 = 100 %, of 200 planned  (80 slow); allowed 5 %
  bounds     10.2 % of the 200 planned to 100 % of the 80  (one-sided 95 % each, exact binomial, n_eff 6.4, deff 28, 20 x 10 s batches)
  note       the run ended early (`p95(ttft) < 800ms` cannot pass any more)"""
        )
        assert judge(parse("p95(ttft) < 800ms"), attempts(58, 8, planned=58)).planned is None

    def test_gaps_are_not_the_unit(self) -> None:
        """30 clean streams of 1,000 gaps show nothing of a p99; 400 in 400 s do."""
        few = Clusters.of([(1000, 0)] * 30)
        many = Clusters.of([(1000, 0)] * 400)
        assert ruling("p99(itl) < 60ms", attempts(30_000, 0, requests=few)) == "inconclusive"
        assert ruling("p99(itl) < 60ms", attempts(400_000, 0, requests=many, intervals=spread(400_000, 0, 400))) == "pass"

    def test_residence_longer_than_the_window_is_said(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(2000, 40, residence_p90_s=300.0))
        assert (found.verdict, found.window_only) == ("pass", True)
        assert "this run's window only" in render(found)
        assert any("not for the target at large" in note for note in found.notes)

    def test_no_intervals_is_said(self) -> None:
        found = judge(parse("p95(ttft) < 800ms"), attempts(2000, 40, intervals=()))
        assert found.notes == ("no intervals were kept: attempts count as independent",)


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("p95(ttft) < 800ms", attempts(2000, 10)),
        ("p95(ttft) < 800ms", attempts(2000, 1000)),
        ("throughput(requests) > 1/s", Flow(intervals=((5.0, 1.0),) * 60)),
        ("p95(ttft) < baseline +10%", Runs(current=(1.0, 1.0, 1.0), baseline=(1.0, 1.0, 1.0))),
    ],
    ids=["would pass", "would fail", "flow", "baseline"],
)
def test_an_invalid_run_is_an_error(text: str, evidence: Evidence) -> None:
    found = judge(parse(text), evidence, Circumstances(invalid=("3 arrivals were dropped", "a worker was lost")))
    assert (found.verdict, found.says) == ("error", "the run is invalid: 3 arrivals were dropped; a worker was lost")
    assert (found.lower, found.p_fail) == (None, None)


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("p95(ttft) < 800ms", Flow(intervals=((1.0, 1.0),))),
        ("throughput(requests) > 1/s", attempts(1, 0)),
        ("p95(ttft) < baseline +10%", attempts(1, 0)),
        ("p95(ttft) < 1s", Runs(current=(1.0,), baseline=(1.0,))),
        ("goodput(ttft<1s) >= 5/s", attempts(1, 0)),
    ],
)
def test_evidence_of_another_kind(text: str, evidence: Evidence) -> None:
    with pytest.raises(TypeError, match="cannot be judged on"):
        judge(parse(text), evidence)


@pytest.mark.parametrize(("n", "certain", "possible"), [(1, 2, 2), (5, 3, 2), (5, -1, 2)])
def test_counts_that_cannot_be(n: int, certain: int, possible: int) -> None:
    with pytest.raises(ValueError, match="do not add up"):
        Attempts(n=n, over_certain=certain, over_possible=possible)


def noise(mean: float, sd: float, count: int = 300) -> Flow:
    rng = np.random.default_rng(7)
    return Flow(intervals=tuple((float(value), 1.0) for value in rng.normal(mean, sd, count)))


class TestFlows:
    @pytest.mark.parametrize(
        ("text", "evidence", "verdict"),
        [
            ("throughput(output_tokens) >= 2000/s", noise(2100, 300), "pass"),
            ("throughput(output_tokens) >= 2000/s", noise(2010, 300), "inconclusive"),
            ("throughput(output_tokens) >= 2000/s", noise(1900, 300), "fail"),
            ("throughput(requests) < 10/s", noise(9, 1), "pass"),
            ("goodput(ttft<1s) >= 120/min", noise(2.2, 0.5), "pass"),
            ("mean(ttft) < 500ms", noise(450e6, 100e6), "pass"),
            ("mean(ttft) < 500ms", noise(550e6, 100e6), "fail"),
            ("cost_per_1m(output_tokens) < $2.50", noise(2.4, 0.3), "pass"),
            ("cost_per_1m(output_tokens) < $2.50", noise(2.6, 0.3), "fail"),
        ],
    )
    def test_verdict(self, text: str, evidence: Flow, verdict: str) -> None:
        assert ruling(text, evidence) == verdict

    @pytest.mark.parametrize("intervals", [(), ((5.0, 1.0),), ((0.0, 0.0),) * 50], ids=["none", "one", "nothing happened"])
    def test_nothing_is_never_a_pass(self, intervals: tuple[tuple[float, float], ...]) -> None:
        assert ruling("mean(ttft) < 500ms", Flow(intervals=intervals)) == "inconclusive"

    def test_the_seed_decides_alone(self) -> None:
        first, again, other = (judge(parse("mean(ttft) < 500ms"), noise(450e6, 9e7), seed=seed) for seed in (1, 1, 2))
        assert first == again
        assert first.upper != other.upper

    def test_cut_requests_count_both_ways(self) -> None:
        evidence = noise(450e6, 10e6)
        cut = msgspec.structs.replace(evidence, cut=30, cut_low=30 * 100e6, cut_high=30 * 10e9)
        assert ruling("mean(ttft) < 500ms", evidence) == "pass"
        assert ruling("mean(ttft) < 500ms", cut) == "inconclusive"
        assert ruling("mean(ttft) < 350ms", cut) == "fail"

    def test_without_any_bound_on_the_cut_ones_there_is_no_upper_bound(self) -> None:
        seen = msgspec.structs.replace(noise(45, 1), cut=1, cut_high=math.inf)
        found = judge(parse("mean(output_tokens) < 50"), seen)
        assert (found.verdict, found.upper) == ("inconclusive", None)
        assert found.says.endswith("tokens to no limit straddle the bound; 1 request cut by the end of the run decides")
        assert judge(parse("mean(output_tokens) > 40"), seen).verdict == "pass"

    def test_inconclusive_says_how_much_longer(self) -> None:
        found = judge(parse("throughput(output_tokens) >= 2000/s"), noise(2010, 300))
        assert found.needs_s is not None
        assert 0 < found.needs_s < 3600

    @pytest.mark.parametrize(
        ("missing", "says"),
        [
            (0, "30 requests cut by the end of the run decide"),
            (30, "30 requests without a line in the archive decide"),
            (29, "1 request cut by the end of the run and 29 requests without a line in the archive decide"),
            (10, "20 requests cut by the end of the run and 10 requests without a line in the archive decide"),
        ],
    )
    def test_what_is_not_known_and_decides_is_named(self, missing: int, says: str) -> None:
        """No longer window would tell more of it."""
        seen = msgspec.structs.replace(noise(450e6, 10e6), cut=30, cut_low=30 * 100e6, cut_high=30 * 10e9, missing=missing)
        found = judge(parse("mean(ttft) < 500ms"), seen)
        assert found.verdict == "inconclusive"
        assert found.says.endswith(f"straddle the bound; {says}")
        assert found.needs_s is None

    def test_how_much_longer_is_said_of_what_is_known(self) -> None:
        """The requests that were cut widen the bounds, and do not need a longer window."""
        clause, plain = parse("throughput(output_tokens) >= 2000/s"), noise(2010, 300)
        cut = msgspec.structs.replace(plain, unknown=30, cut_high=300_000.0)
        found = judge(clause, cut)
        assert found.upper > judge(clause, plain).upper
        assert found.needs_s == judge(clause, plain).needs_s

    def test_failed_requests_are_said(self) -> None:
        found = judge(parse("mean(ttft) < 500ms"), msgspec.structs.replace(noise(450e6, 1e6), without_value=12))
        assert any("12 failed requests without a value" in note for note in found.notes)

    def test_bounds_cover_a_series_with_memory(self) -> None:
        """One-sided 95 % bounds over an AR(1) series (rho 0.8) of 400 intervals miss the true ratio at most 7.5 % of the time."""
        rng = np.random.default_rng(20261130)
        series = 10 + signal.lfilter([1], [1, -0.8], rng.standard_normal((300, 600)), axis=1)[:, 200:]
        found = [ratio([(value, 1.0) for value in row], alpha=0.05, against=10.0) for row in series.tolist()]
        assert all(one is not None for one in found)
        assert 0.02 <= np.mean([one.upper < 10 for one in found if one]) <= 0.075
        assert 0.02 <= np.mean([one.lower > 10 for one in found if one]) <= 0.075


class TestBaselines:
    @pytest.mark.parametrize(
        ("text", "current", "verdict"),
        [
            ("p95(ttft) < baseline +10%", (1.01, 1.03, 0.99), "pass"),
            ("p95(ttft) < baseline +10%", (1.08, 1.12, 1.10), "inconclusive"),
            ("p95(ttft) < baseline +10%", (1.28, 1.31, 1.30), "fail"),
            ("throughput(output_tokens) >= baseline -5%", (0.99, 1.00, 1.01), "pass"),
            ("throughput(output_tokens) >= baseline -5%", (0.80, 0.81, 0.79), "fail"),
            ("accuracy >= baseline -5%", (0.99, 1.00, 1.01), "pass"),
        ],
    )
    def test_verdict(self, text: str, current: tuple[float, ...], verdict: str) -> None:
        assert ruling(text, Runs(current=current, baseline=(1.0, 1.01, 0.99))) == verdict

    @pytest.mark.parametrize(
        ("current", "note"),
        [
            ((1.02, 1.03, 1.01), "no difference from the baseline is shown (Welch on log values, p = 0.071)"),
            ((0.97, 0.98, 0.96), "less than the baseline (Welch on log values, p = 0.021)"),
            ((1.0, 1.01, 0.99), "no difference from the baseline is shown (Welch on log values, p = 1)"),
        ],
        ids=["one-sided it would be", "less", "the same"],
    )
    def test_the_direction_is_read_off_the_data_so_that_both_count(self, current: tuple[float, ...], note: str) -> None:
        found = judge(parse("p95(ttft) < baseline +10%"), Runs(current=current, baseline=(1.0, 1.01, 0.99)))
        assert found.notes == (note,)

    def test_one_run_a_side_cannot_be_judged(self) -> None:
        found = judge(parse("p95(ttft) < baseline +10%"), Runs(current=(1.5,), baseline=(1.0,)))
        assert found.verdict == "inconclusive"
        assert (
            found.says
            == "+50 % against the baseline, but 1 run against 1 run cannot be judged: runs of the same system differ too"
        )

    @pytest.mark.parametrize(
        ("current", "baseline", "says"),
        [
            ((), (1.0,), "nothing to compare"),
            ((0.0, 1.0), (1.0, 1.0), "needs values above zero"),
            ((1.0, 1.1), (), "nothing to compare"),
        ],
    )
    def test_nothing_to_compare(self, current: tuple[float, ...], baseline: tuple[float, ...], says: str) -> None:
        found = judge(parse("error_rate < baseline +10%"), Runs(current=current, baseline=baseline))
        assert (found.verdict, says in found.says) == ("inconclusive", True)

    def test_whether_they_differ_at_all_is_said(self) -> None:
        found = judge(parse("p95(ttft) < baseline +10%"), Runs(current=(1.05, 1.06, 1.07), baseline=(1.0, 1.01, 0.99)))
        assert (found.verdict, found.notes[0].startswith("more than the baseline (Welch on log values, p = 0.00")) == (
            "pass",
            True,
        )


class TestFamily:
    @pytest.mark.parametrize(
        ("p_values", "stands"),
        [
            ([0.01, 0.04, 0.03], [True, False, False]),
            ([0.01, 0.02, 0.03], [True, True, True]),
            ([0.04], [True]),
            ([0.04, None, None], [False, False, False]),
            ([], []),
        ],
    )
    def test_holm(self, p_values: list[float | None], stands: list[bool]) -> None:
        assert holm(p_values, 0.05) == stands

    def test_five_clauses_that_hold_fail_together_rarely(self) -> None:
        """Five true clauses at 5 %: 23 % of runs have a fail by chance, 5 % after Holm."""
        rng = np.random.default_rng(20261130)
        rows = rng.random((4000, 5)).tolist()
        assert np.mean([min(row) < 0.05 for row in rows]) == pytest.approx(0.23, abs=0.02)
        assert np.mean([any(holm(row, 0.05)) for row in rows]) == pytest.approx(0.05, abs=0.01)

    def test_fails_are_marked(self) -> None:
        weak, strong, fine = attempts(2000, 122), attempts(2000, 200), attempts(2000, 20)
        verdicts = family([judge(parse("p95(ttft) < 800ms"), one) for one in (weak, strong, fine, fine, fine)])
        assert [(one.verdict, one.holm) for one in verdicts] == [
            ("fail", False),
            ("fail", True),
            ("pass", None),
            ("pass", None),
            ("pass", None),
        ]
        assert "does not stand once all of them are counted (Holm)" in render(verdicts[0])
        assert family([]) == []


FAIL = judge(
    parse("p95(ttft) < 800ms during steady"),
    attempts(
        2000,
        174,
        180,
        intervals=spread(2000, 174, 360),
        residence_p90_s=12.0,
        observed=941e6,
        observed_ok=902e6,
        causes=(("slow", 161), ("timeout", 9), ("server_error", 4)),
    ),
    Circumstances(target="vllm", notes=("open loop, p99 schedule delay 3 ms",)),
)


@pytest.mark.parametrize(
    ("verdict", "text"),
    [
        (
            FAIL,
            """\
SLA FAIL  p95(ttft) < 800ms during steady   [target=vllm, stage=steady]
  observed   p95 = 941 ms   (those with a value 902 ms)
  missed     174 of 2,000 = 8.7 %  (161 slow, 9 timeouts, 4 HTTP 5xx); allowed 5 %
  bounds     7.6 % to 10.2 %  (one-sided 95 % each, exact binomial, n_eff 1,810, deff 1, 20 x 18 s batches)
  note       6 values cut by the end of the run: counted both ways
  note       open loop, p99 schedule delay 3 ms""",
        ),
        (
            judge(parse("p95(ttft) < 800ms"), attempts(2000, 40)),
            "SLA PASS  p95(ttft) < 800ms: 40 of 2,000 = 2 % missed, 5 % may; at most 2.6 % do",
        ),
        (
            judge(parse("p95(ttft) < 800ms"), attempts(2000, 104)),
            """\
SLA INCONCLUSIVE  p95(ttft) < 800ms
  104 of 2,000 = 5.2 % missed; 4.4 % to 6.1 % straddle 5 %
  bounds     4.4 % to 6.1 %  (one-sided 95 % each, exact binomial, n_eff 1,810, deff 1, 20 x 10 s batches)
  needs      about 34,333 more requests (57.2 m at this rate)""",
        ),
        (
            judge(
                parse("p99(itl) < 60ms"),
                attempts(30_000, 0, requests=Clusters.of([(1000, 0)] * 30)),
                Circumstances(target="vllm"),
            ),
            """\
SLA INCONCLUSIVE  p99(itl) < 60ms   [target=vllm]
  0 of 30,000 = 0 % missed; 0 % to 9.5 % straddle 1 %
  bounds     0 % to 9.5 %  (one-sided 95 % each, exact binomial, n_eff 30, deff 1,000, 30 requests)
  needs      about 268,073 more gaps (29.8 m at this rate)""",
        ),
        (
            judge(parse("p95(ttft) < 800ms"), attempts(2000, 40), Circumstances(invalid=("p99 schedule delay 212 ms",))),
            """\
SLA ERROR  p95(ttft) < 800ms
  the run is invalid: p99 schedule delay 212 ms""",
        ),
        (
            judge(parse("max(ttft) < 5s"), attempts(300, 2, observed=7.2e9, causes=(("slow", 2),))),
            """\
SLA FAIL  max(ttft) < 5s
  observed   max = 7.2 s
  missed     2 of 300  (2 slow); none may""",
        ),
        (
            judge(
                parse("p95(ttft) < 800ms"), attempts(100, 100, observed_ok=None, observed=None, causes=(("connect_error", 100),))
            ),
            """\
SLA FAIL  p95(ttft) < 800ms
  missed     100 of 100 = 100 %  (100 connect errors); allowed 5 %
  bounds     97 % to 100 %  (one-sided 95 % each, exact binomial, n_eff 100)
  note       dependence could not be measured: attempts count as independent""",
        ),
        (
            judge(parse("p95(ttft) < baseline +10%"), Runs(current=(1.28, 1.31, 1.30), baseline=(1.0, 1.01, 0.99))),
            """\
SLA FAIL  p95(ttft) < baseline +10%
  +29.7 % against the baseline (+27.2 % to +32.2 %, 3 runs against 3 runs)
  bounds     1.27 to 1.32 times the baseline  (one-sided 95 % each)
  note       more than the baseline (Welch on log values, p = 1.1e-05)""",
        ),
    ],
    ids=["fail", "pass", "inconclusive", "gaps", "error", "largest", "all failed", "baseline"],
)
def test_words(verdict: Verdict, text: str) -> None:
    assert render(verdict) == text


@pytest.mark.parametrize(
    ("causes", "says"),
    [
        ((("slow", 90), ("server_error", 9)), "a failed attempt stands there"),
        ((("no_answer", 90),), "no value there (90 without an answer)"),
        ((("no_answer", 90), ("timeout", 2), ("stream_error", 1)), "no value there (3 failed, 90 without an answer)"),
        ((("slow", 90),), "no value there (cut by the end of the run)"),
    ],
    ids=["failed", "no answer", "both", "cut"],
)
def test_what_stands_where_no_value_does(causes: tuple[tuple[str, int], ...], says: str) -> None:
    missed = sum(n for _, n in causes)
    verdict = judge(parse("p95(ttfo) < 800ms"), attempts(325, missed, observed=None, observed_ok=7e8, causes=causes))
    assert render(verdict).splitlines()[1] == f"  observed   p95 = {says}   (those with a value 700 ms)"


def test_causes_are_counted_in_words() -> None:
    causes = (
        ("no_answer", 90),
        ("stream_error", 2),
        ("timeout", 2),
        ("connect_error", 1),
        ("server_error", 2),
        ("overloaded", 2),
    )
    verdict = judge(parse("p95(ttfo) < 800ms"), attempts(325, 99, observed=1e9, causes=causes))
    assert "(90 without an answer, 2 stream errors, 2 timeouts, 1 connect error, 2 HTTP 5xx, 2 overloaded)" in render(verdict)


@pytest.mark.parametrize(
    ("clause", "seen", "lines"),
    [
        (
            "p95(ttft) < 800ms",
            attempts(300, 0),
            ["0 of 300 = 0 % missed, 5 % may; at most 1 % do", "no miss to measure dependence by: attempts count as independent"],
        ),
        (
            "max(ttft) < 800ms",
            attempts(300, 0),
            [
                "none of 300 missed (this run's window only)",
                "a largest value is that of this run: of other requests up to 1 % may still miss",
            ],
        ),
        (
            "p95(ttft) < 800ms",
            attempts(3000, 20, 21, residence_p90_s=100.0),
            [
                "20 of 3,000 = 0.7 % missed, 5 % may; at most 2.6 % do (this run's window only)",
                "1 value cut by the end of the run: counted both ways",
            ],
        ),
    ],
    ids=["no miss", "largest", "what its first line says is not said again"],
)
def test_a_pass_says_what_goes_with_it(clause: str, seen: Attempts, lines: list[str]) -> None:
    first, *rest = render(judge(parse(clause), seen)).splitlines()
    assert first == f"SLA PASS  {clause}: {lines[0]}"
    assert rest == [f"  note       {line}" for line in lines[1:]]


def test_few_attempts_are_no_row_of_digits() -> None:
    seen = attempts(
        5, 1, intervals=((1, 0), (1, 1), (1, 0), (1, 0), (1, 0)) + ((0, 0),) * 195, requests=Clusters.of([(5, 1), (0, 0)])
    )
    verdict = judge(parse("p95(ttft) < 800ms"), seen)
    pair = render(msgspec.structs.replace(verdict, lower=9.4e-21, upper=0.99999999, n_eff=0.0003, clusters=None)).splitlines()[2]
    assert pair == "  bounds     under 0.0001 % to over 99.9999 %  (one-sided 95 % each, exact binomial, n_eff under 0.01)"
    assert "n_eff 2.3" in render(msgspec.structs.replace(verdict, n_eff=2.34))


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0, "0 %"), (9e-7, "under 0.0001 %"), (1.5e-6, "0.00015 %"), (3.2e-4, "0.032 %"), (0.999999, "99.9999 %"), (0.9999995, "over 99.9999 %"), (1.0, "100 %")],
)  # fmt: skip
def test_shares_near_none_and_all(share: float, text: str) -> None:
    assert percent(share) == text


def test_every_verdict_goes_to_run_json_and_back() -> None:
    verdicts = [
        FAIL,
        judge(parse("throughput(output_tokens) >= 2000/s"), noise(2010, 300)),
        judge(parse("p95(ttft) < baseline +10%"), Runs(current=(1.5,), baseline=(1.0,))),
        judge(parse("max(ttft) < 5s"), attempts(300, 0)),
        judge(parse("max(ttft) < 5s"), attempts(300, 0), Circumstances(invalid=("x",))),
    ]
    for one in verdicts:
        assert msgspec.json.decode(msgspec.json.encode(one), type=Verdict) == one
    assert msgspec.to_builtins(FAIL)["verdict"] == "fail"


def test_exported_names_are_sorted() -> None:
    assert r1perf.sla.__all__ == sorted(r1perf.sla.__all__)
    assert all(hasattr(r1perf.sla, name) for name in r1perf.sla.__all__)


def test_every_kind_has_its_heading() -> None:
    """Each aggregate, and the baseline, is a heading of the reference."""
    page = (Path(__file__).parents[2] / "docs" / "sla.md").read_text(encoding="utf-8")
    kinds = [member.__struct_config__.tag for member in Aggregate.__args__]
    assert len(kinds) == 8
    for kind in [*kinds, "baseline"]:
        assert f"\n### `{kind}`" in page


def test_without_scipy_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    special._module.cache_clear()
    monkeypatch.setattr(special.importlib, "import_module", missing)
    with pytest.raises(UsageError, match=r"needs scipy, which is not installed; allowed: pip install scipy"):
        special.require()
    monkeypatch.undo()
    special.require()
