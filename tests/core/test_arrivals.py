"""Arrival processes keep their laws: rates, dispersion, variation, vLLM's own numbers."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.arrivals import Constant, Gamma, GammaGaps, Poisson, Ramp, Stream
from r1perf.arrivals.gaps import unit_times
from r1perf.arrivals.ramp import by_request, gap_draws
from r1perf.units import Duration, Rate

STREAM = Stream(42, "times", "test")


def times(process, *, until=math.inf, count=None, turns=1.0, stream=STREAM):
    return process.times(stream, until=until, count=count, turns=turns)


def dispersion(at, window):
    counts = np.histogram(at, bins=np.arange(0, at[-1], window))[0]
    return counts.var() / counts.mean()


def lag_1(at):
    gaps = np.diff(at)
    return np.corrcoef(gaps[:-1], gaps[1:])[0, 1]


def test_constant_arrives_at_once_and_then_every_gap():
    assert times(Constant(rate=Rate(4)), until=1.0).tolist() == [0.0, 0.25, 0.5, 0.75]


def test_a_count_ends_before_the_time_does():
    assert times(Constant(rate=Rate(4)), until=1.0, count=2).tolist() == [0.0, 0.25]


def test_a_rate_by_request_is_divided_by_the_turns():
    assert times(Constant(rate=Rate(4), per="request"), until=2.0, turns=2.0).tolist() == [0.0, 0.5, 1.0, 1.5]


def test_poisson_has_the_dispersion_and_the_independence_of_a_poisson_process():
    at = times(Poisson(rate=Rate(50)), count=100_000)
    assert dispersion(at, 1.0) == pytest.approx(1.0, abs=0.1)
    assert lag_1(at) == pytest.approx(0.0, abs=0.015)
    assert len(at) / at[-1] == pytest.approx(50, rel=0.02)


def test_gamma_of_shape_1_is_poisson():
    gamma, poisson = Gamma(rate=Rate(3), shape=1), Poisson(rate=Rate(3))
    assert times(gamma, until=100).tolist() == times(poisson, until=100).tolist()


@pytest.mark.parametrize("shape", [0.25, 1.0, 4.0])
def test_gamma_gaps_vary_by_one_over_the_root_of_the_shape(shape):
    gaps = np.diff(times(Gamma(rate=Rate(2), shape=shape), count=200_000))
    assert gaps.mean() == pytest.approx(0.5, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(1 / math.sqrt(shape), rel=0.02)


@pytest.mark.parametrize("shape", [0.2, 4.0])
def test_gamma_has_its_rate_from_the_start(shape):
    # An ordinary renewal process would have 1.6 times as many in the first 2 mean gaps (shape 0.2), or 0.8 times (shape 4).
    counts = [len(unit_times(Stream(seed, "x"), GammaGaps(gamma=shape), 2.0, None)) for seed in range(3000)]
    assert np.mean(counts) == pytest.approx(2.0, abs=4 * np.std(counts) / math.sqrt(3000))


@given(seed=st.integers(0, 2**32), short=st.floats(0, 50), longer=st.floats(0, 50), shape=st.sampled_from([0.5, 1.0, 3.0]))
def test_a_longer_process_begins_with_the_shorter_one(seed, short, longer, shape):
    first = unit_times(Stream(seed), GammaGaps(gamma=shape), short, None)
    whole = unit_times(Stream(seed), GammaGaps(gamma=shape), short + longer, None)
    assert whole[: len(first)].tolist() == first.tolist()
    assert (whole[len(first) :] >= short).all()


def test_long_processes_are_drawn_in_chunks_that_go_on():
    at = unit_times(STREAM, "poisson", 200_000.0, None)
    assert len(at) == pytest.approx(200_000, rel=0.01)
    assert (np.diff(at) > 0).all()
    assert at[:70_000].tolist() == unit_times(STREAM, "poisson", math.inf, 70_000).tolist()


# --- Ramps in time ---

LINEAR = Ramp(start=Rate(2), end=Rate(10), duration=Duration.parse("100s"), gaps="constant")


@pytest.mark.parametrize(
    ("ramp", "by_s"),
    [
        # expected arrivals: 2 t + 0.04 t^2
        pytest.param(LINEAR, {0: 0, 25: 75, 50: 200, 75: 375, 100: 600}, id="linear"),
        pytest.param(Ramp(start=Rate(10), end=Rate(2), duration=Duration.parse("100s"), gaps="constant"),
                     {25: 225, 50: 400, 75: 525, 100: 600}, id="falling"),
        pytest.param(Ramp(start=Rate(0), end=Rate(10), duration=Duration.parse("100s"), gaps="constant"),
                     {10: 5, 50: 125, 100: 500}, id="from-0"),
        pytest.param(Ramp(start=Rate(10), end=Rate(0), duration=Duration.parse("100s"), gaps="constant"),
                     {50: 375, 100: 500}, id="to-0"),
        # 1 * (e^(kt) - 1) / k, k = ln(4) / 100
        pytest.param(Ramp(start=Rate(1), end=Rate(4), duration=Duration.parse("100s"), gaps="constant", curve="exponential"),
                     {50: 100 / math.log(4), 100: 300 / math.log(4)}, id="exponential"),
        pytest.param(Ramp(start=Rate(3), end=Rate(3), duration=Duration.parse("100s"), gaps="constant", curve="exponential"),
                     {50: 150, 100: 300}, id="flat"),
        pytest.param(Ramp(start=Rate(2), end=Rate(10), duration=Duration.parse("100s"), gaps="constant", hold=Duration.parse("10s")),
                     {100: 600, 105: 650, 110: 700, 200: 700}, id="hold"),
    ],
)  # fmt: skip
def test_a_ramp_in_time_reaches_its_counts(ramp, by_s):
    at = times(ramp, until=200.0 if ramp.hold else 100.0)
    assert {second: int((at < second).sum()) for second in by_s} == {s: pytest.approx(n, abs=1.01) for s, n in by_s.items()}
    assert (np.diff(at) > 0).all()


def test_without_hold_the_end_rate_goes_on_until_the_end():
    at = times(LINEAR, until=120.0)
    assert int((at >= 100).sum()) == pytest.approx(200, abs=1)


def test_a_poisson_ramp_is_a_poisson_process_at_every_time():
    # By time change: undoing the ramp's integral gives a process of rate 1.
    ramp = Ramp(start=Rate(20), end=Rate(200), duration=Duration.parse("1000s"))
    at = times(ramp, until=1000.0)
    undone = 20 * at + 0.09 * at**2
    assert len(at) == pytest.approx(110_000, rel=0.01)
    assert dispersion(undone, 20) == pytest.approx(1.0, abs=0.1)
    assert lag_1(undone) == pytest.approx(0.0, abs=0.015)


def test_half_of_a_ramp_is_its_first_half():
    poisson = Ramp(start=Rate(2), end=Rate(10), duration=Duration.parse("100s"))
    whole, half = times(poisson, until=100.0), times(poisson, until=50.0)
    assert half.tolist() == whole[whole < 50].tolist()


def test_a_ramp_of_requests_has_its_rate_divided_by_the_turns():
    at = times(
        Ramp(start=Rate(2), end=Rate(10), duration=Duration.parse("100s"), gaps="constant", per="request"), until=100.0, turns=4.0
    )
    assert len(at) == 150


# --- vLLM's ramp by request ---


def vllm(count, start, end, curve, burstiness, seed):
    """Follow vllm/benchmarks/serve.py (0.33) step by step, with the generator that `np.random.seed(seed)` makes the global one."""
    random = np.random.RandomState(seed)
    at, out = 0.0, []
    for i in range(count):
        progress = i / max(count - 1, 1)
        rate = start + (end - start) * progress if curve == "linear" else start * (end / start) ** progress
        at += 1 / rate if burstiness == math.inf else random.gamma(shape=burstiness, scale=1.0 / (rate * burstiness))
        out.append(at)
    return out


@pytest.mark.parametrize("curve", ["linear", "exponential"])
@pytest.mark.parametrize(("burstiness", "gaps"), [(1.0, "poisson"), (0.5, GammaGaps(gamma=0.5)), (math.inf, "constant")])
def test_by_request_gives_the_arrival_times_of_vllm_itself(curve, burstiness, gaps):
    ramp = Ramp(start=Rate(1), end=Rate(10), by="request", curve=curve, gaps=gaps)
    ours = times(ramp, count=400, stream=Stream(42, plain=True))
    assert ours.tolist() == pytest.approx(vllm(400, 1, 10, curve, burstiness, 42), rel=1e-12)


def test_by_request_sums_gaps_over_each_requests_own_rate():
    assert by_request(np.array([1.0, 2.0, 1.0]), np.array([1.0, 2.0, 4.0])).tolist() == [1.0, 2.0, 2.25]


@pytest.mark.parametrize(
    ("curve", "total_s", "rates"),
    [("linear", 256, (1.77, 3.14, 5.61)), ("exponential", 391, (1.29, 1.81, 3.07))],
)
def test_by_request_takes_vllms_time_and_rises_late(curve, total_s, rates):
    """Hold the published consequence: 1 to 10/s over 1,000 requests is at 3.14/s at half time, not at 5.5/s."""
    ramp = Ramp(start=Rate(1), end=Rate(10), by="request", curve=curve, gaps="constant")
    at, by_index = times(ramp, count=1000), ramp.request_rates(1000)
    assert at[-1] == pytest.approx(total_s, abs=1.0)
    seen = [by_index[np.searchsorted(at, at[-1] * share)] for share in (0.25, 0.5, 0.75)]
    assert seen == pytest.approx(list(rates), abs=0.02)
    closed_form = 999 / 9 * math.log(10) if curve == "linear" else 999 * (1 - 0.1) / math.log(10)
    assert at[-1] == pytest.approx(closed_form, abs=1.0)


def test_by_request_is_not_normalised():
    totals = [times(Ramp(start=Rate(1), end=Rate(10), by="request"), count=100, stream=Stream(seed))[-1] for seed in range(20)]
    assert np.std(totals) > 1


def test_one_request_is_sent_at_the_starting_rate():
    assert Ramp(start=Rate(2), end=Rate(10), by="request").request_rates(1).tolist() == [2.0]


# --- Streams ---


def test_streams_are_derived_by_name_and_do_not_change_from_release_to_release():
    assert Stream(1, "times", "a").generator().random() == Stream(1, "times", "a").generator().random()
    assert len({Stream(seed, *names).entropy() for seed in (1, 2) for names in (("a",), ("b",), ("a", "b"), ("ab",))}) == 8
    assert (Stream(1, "times") / "a").entropy() == Stream(1, "times", "a").entropy()
    assert f"{Stream(42, 'times', 'steady').entropy():x}"[:16] == "5cc8dae20699db59"


def test_gap_draws_have_mean_1():
    assert gap_draws(Stream(3), GammaGaps(gamma=2), 100_000).mean() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(
    ("process", "says"),
    [
        (Poisson(rate=Rate(2)), "poisson 2/s"),
        (Constant(rate=Rate(2), per="request"), "constant 2/s requests"),
        (Gamma(rate=Rate(2), shape=0.5), "gamma 2/s, shape 0.5"),
        (LINEAR, "ramp 2/s to 10/s, linear by time, constant gaps"),
        (
            Ramp(start=Rate(1), end=Rate(2), by="request", gaps=GammaGaps(gamma=2)),
            "ramp 1/s to 2/s, linear by request, gamma 2 gaps",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_says_what_it_does(process, says):
    assert process.says() == says


@pytest.mark.parametrize("gaps", ["poisson", "constant", GammaGaps(gamma=0.5)], ids=["poisson", "constant", "gamma"])
def test_a_ramp_before_and_after_keeps_its_law_of_gaps(gaps):
    ramp = Ramp(start=Rate(2), end=Rate(10), duration=Duration.parse("1m"), gaps=gaps)
    steady = ramp.at_rate(Rate(3))
    assert (steady.rate, steady.gaps_law() if gaps != "poisson" else "poisson") == (3.0, gaps)


def test_an_endless_process_is_refused():
    with pytest.raises(ValueError, match="needs an end"):
        unit_times(STREAM, "poisson", math.inf, None)
