"""The scenarios that are shipped can be run as they are, and are what they say."""

import math

import numpy as np
import pytest
from services import ROOT

from r1perf.check import check
from r1perf.datasets import Expected
from r1perf.scenario import Shorthands, load, resolved, shipped
from r1perf.units import Rate

NAMES = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))

VLLM_SET = 'workload.aime.dataset={kind="aime", file="%s", raw=true, grade=false, sample="choice", solution_room=true}'


class Known:
    """Stands in for datasets that would be fetched."""

    digest, size, expected = "d", 90, Expected(1.0, 100.0, 300.0)

    def conversation(self, item):
        raise NotImplementedError


def test_all_are_found():
    assert list(shipped()) == NAMES
    assert {"smoke", "r1-mixed", "aime-ramp-vllm", "aime-ramp", "closed-32", "provider-probe"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_loads_under_its_own_name_and_says_what_it_is_for(name):
    scenario = load(name)
    assert scenario.name == name
    assert load(resolved(scenario)) == scenario
    assert shipped()[name].read_text().startswith("# ")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "aime-ramp-vllm"])
def test_each_plans_without_a_file_or_a_network_and_no_answer_times_out(name):
    scenario = load(name)
    items = scenario.items()
    made = check(scenario, items, scenario.plan(items))
    assert made.requests > 0
    assert [text for text in made.warnings if "timeout" in text or "fit into" in text or "max_in_flight" in text] == []


def test_smoke_is_ten_lines():
    lines = [line for line in shipped()["smoke"].read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 10


def test_r1_mixed_is_sized_for_sixteen_gpus_and_judges_a_stationary_stage():
    scenario = load("r1-mixed")
    items = scenario.items()
    made = check(scenario, items, scenario.plan(items))
    steady = [row for row in made.rows if row.judged]
    assert {row.stage for row in steady} == {"steady"}
    assert 8_000 < sum(row.output_tokens_per_s for row in steady) < 16_000  # of 29,600 that two published decode nodes give
    assert sum(row.in_flight for row in steady) < scenario.target.max_in_flight
    assert made.warnings == ()


def test_aime_ramp_vllm_is_the_published_benchmark():
    scenario = load("aime-ramp-vllm")
    made = scenario.plan({"aime": Known()})
    random = np.random.RandomState(42)
    times = np.cumsum([random.gamma(1.0, 1 / (1 + 9 * i / 399)) for i in range(400)])
    assert made.times_ns.tolist() == pytest.approx((times * 1e9).tolist(), abs=2)
    assert made.items.tolist() == list(range(400))
    assert scenario.target.endpoint == "completions"
    dataset = scenario.workload["aime"].dataset
    assert (dataset.hub, dataset.raw, dataset.sample, dataset.solution_room) == (
        "AI-MO/aimo-validation-aime",
        True,
        "choice",
        True,
    )
    assert math.isclose(399 / 9 * math.log(10), 102.08, abs_tol=0.01)  # its expected length, s


def test_aime_ramp_vllm_runs_from_a_file(shared):
    scenario = load("aime-ramp-vllm", [VLLM_SET % (shared / "data" / "aime24.jsonl")])
    items = scenario.items()
    made = scenario.plan(items)
    asked = [items["aime"].conversation(arrival.item) for arrival in made]
    assert (len(asked), len({each.turns[0].text for each in asked}), items["aime"].size) == (400, 30, 30)
    assert all(each.turns[0].max_tokens and "boxed" not in each.turns[0].text for each in asked)


def test_provider_probe_is_the_published_comparison():
    for name, tokens in (("provider-probe", 2000), ("provider-probe-4k", 4000)):
        scenario = load(name)
        items = scenario.items()
        made = scenario.plan(items)
        assert [(group.count, group.conversations) for group in made.sessions] == [(1, 500), (8, 500), (32, 500)]
        assert scenario.workload["probe"].max_tokens == 256
        conversation = items["probe"].conversation(0)
        assert (len(conversation.turns), conversation.before) == (1, ())
        assert items["probe"].expected.input_tokens == pytest.approx(tokens, rel=0.1)


@pytest.mark.parametrize(
    ("name", "inputs", "outputs"), [("shape-1k-1k", 1024, 1024), ("shape-1k-8k", 1024, 8192), ("shape-8k-1k", 8192, 1024)]
)
def test_shapes_are_those_of_inferencex(name, inputs, outputs):
    expected = load(name).items()["shape"].expected
    assert (expected.input_tokens, expected.output_tokens) == (
        pytest.approx(0.9 * inputs, rel=0.01),
        pytest.approx(0.9 * outputs, rel=0.01),
    )


def test_the_demo_of_r1_mixed_fits_into_a_minute_and_a_half():
    scenario = load("r1-mixed", ["warmup=5s"], Shorthands(url="simulate:tiny", rate="8/s", duration="40s"))
    made = scenario.plan(scenario.items())
    assert made.stages[-1].start_ns == 45 * 10**9
    assert scenario.arrivals.stages[1].rate == Rate(8)
    assert len(made) == pytest.approx(8 * 32 + 4.4 * 8 + 4, rel=0.2)
