"""Real problems and real traffic in one mix, from end to end: on the simulated endpoint, whose own log is the truth, and on a real LLM server."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import runs
import services
from runs import Ran

from r1perf.datasets.synthetic import Prefix, Synthetic
from r1perf.datasets.trace import TraceLengths
from r1perf.replay import replay
from r1perf.result import Result
from r1perf.scenario import Scenario, load
from r1perf.simulator.truth import Truth
from r1perf.traces import read_trace
from r1perf.units import Duration, Rate

# Every workload has arrivals of its own; both traces replay a window of their own time, faster, thinned out and shorter.
MIX = """
name = "mix"
seed = 11
duration = "6s"
[target]
url = "simulate:tiny?speed=10&truth={truth}"
[workload.aime]
dataset = {{ kind = "aime", file = "{data}/aime24.jsonl" }}
max_tokens = "4k"
sampling = {{ temperature = 0.6, top_p = 0.95 }}
arrivals = {{ kind = "poisson", rate = "20/s" }}
[workload.azure]
dataset = {{ kind = "trace", file = "{data}/azure_llm_2023_conv.csv", start = "1m", length = "1m", speed = 10.0, rate = "10/s", scale = 0.1 }}
arrivals = {{ kind = "trace", file = "{data}/azure_llm_2023_conv.csv", start = "1m", length = "1m", speed = 10.0, rate = "10/s" }}
[workload.mooncake]
dataset = {{ kind = "trace", file = "{data}/mooncake_conversation.jsonl", length = "1m", speed = 10.0, rate = "12/s", scale = 0.05 }}
arrivals = {{ kind = "trace", file = "{data}/mooncake_conversation.jsonl", length = "1m", speed = 10.0, rate = "12/s" }}
[workload.chat]
dataset = {{ kind = "chat", turns = 3, think_time = "100ms" }}
max_tokens = 200
arrivals = {{ kind = "closed", sessions = 2 }}
"""
SCALES = {"azure": 0.1, "mooncake": 0.05}


@pytest.fixture(scope="module")
def data(shared) -> Path:
    for name in ("aime24.jsonl", "azure_llm_2023_conv.csv", "mooncake_conversation.jsonl"):
        if not (shared / "data" / name).exists():
            services.missing("shared")
    return shared / "data"


@pytest.fixture(scope="module")
def mixed(data, tmp_path_factory) -> tuple[Ran, list[Truth], Scenario]:
    """Run the mix on two workers."""
    folder = tmp_path_factory.mktemp("mix")
    file = folder / "mix.toml"
    file.write_text(MIX.format(data=data, truth=folder / "truth"))
    ran = runs.run(folder / "runs", file, "--workers", "2", seconds=90)
    return ran, runs.truths(folder / "truth"), load(file)


def of(results: list[Result], workload: str) -> list[Result]:
    """Return a workload's results in the order of their arrivals."""
    return sorted((result for result in results if result.workload == workload), key=lambda result: result.scheduled_ns)


def row(ran: Ran, workload: str) -> dict:
    return next(row for row in ran.document["workloads"] if row["name"] == workload)


def test_all_workloads_end_well_with_figures_of_their_own(mixed):
    ran, truths, _ = mixed
    runs.ended(ran)
    assert {result.outcome for result in ran.results} <= {"ok", "truncated"}
    names = {"aime", "azure", "mooncake", "chat"}
    assert {row["name"] for row in ran.document["workloads"]} == names
    for metric in ("ttft", "itl", "e2e", "output_tokens"):
        counts = {
            row.get("workload"): row["count"] for row in ran.document["series"] if row["metric"] == metric and "stage" not in row
        }
        assert set(counts) == names | {None}
        assert counts[None] == sum(counts[name] for name in names)
    assert all(f"workload {name}" in ran.stdout for name in names)
    # Four requests for each of the two workloads that had to be calibrated, and no more than the run's own.
    assert len(truths) == len(ran.results) + 8


def test_every_request_of_a_trace_comes_at_its_time_and_is_as_long(mixed, data):
    """Row by row: the i-th request of the replay has the i-th time and the i-th lengths, whichever worker sent it."""
    ran, _, scenario = mixed
    for name, scale in SCALES.items():
        spec = scenario.workload[name].dataset
        assert isinstance(spec, TraceLengths)
        trace = read_trace(Path(spec.file))
        chosen = replay(trace, start_ns=spec.start, length_ns=spec.length, speed=spec.speed, rate=spec.rate)
        results = sorted(of(ran.results, name), key=lambda result: result.item)
        assert [result.item for result in results] == list(range(len(chosen.rows)))
        assert [r.usage.output_tokens for r in results] == [
            max(1, round(int(n) * scale)) for n in trace.output_tokens[chosen.rows]
        ]
        assert not any(result.length_mismatch for result in results)
        # Each worker has a clock of its own: times are compared within a worker.
        for worker in (0, 1):
            mine = [result for result in results if result in of_worker(ran, worker)]
            offsets = np.array([result.scheduled_ns for result in mine])
            planned = chosen.offsets_ns[[result.item for result in mine]]
            assert (offsets - offsets[0] == planned - planned[0]).all()


def of_worker(ran: Ran, worker: int) -> list[Result]:
    return list(runs.read_requests(ran.folder / f"requests.{worker}.jsonl"))


def test_inputs_are_as_long_as_recorded_by_the_servers_own_count(mixed):
    ran, _, scenario = mixed
    for name, scale in SCALES.items():
        spec = scenario.workload[name].dataset
        trace = read_trace(Path(spec.file))
        chosen = replay(trace, start_ns=spec.start, length_ns=spec.length, speed=spec.speed, rate=spec.rate)
        wanted = np.maximum(1, np.rint(trace.input_tokens[chosen.rows] * scale))
        results = sorted(of(ran.results, name), key=lambda result: result.item)
        got = np.array([result.usage.input_tokens for result in results])
        told = row(ran, name)["prompting"]["calibration"]
        assert told["requests"] == 4
        assert told["tokens_per_word"] > 1.2  # the simulated endpoint counts four bytes a token
        # Prompts too short for the template apart, the sums agree, and so do single ones but for the luck of the words drawn.
        long_enough = wanted > 4 * told["overhead"]
        assert got[long_enough].sum() == pytest.approx(wanted[long_enough].sum(), rel=0.02)
        # Half a word more or less is much of a short prompt.
        assert (np.abs(got - wanted) <= np.maximum(5, max(0.12, 2 * told["error"]) * wanted))[long_enough].all()
        assert f"prompts of {name}: cache bust; " in ran.stdout


def test_the_report_s_hit_ratio_is_the_truth_s(mixed):
    ran, truths, _ = mixed
    ended = {(truth.prompt_tokens, truth.cached_tokens) for truth in truths}
    assert {(r.usage.input_tokens, r.usage.cached_tokens) for r in ran.results} <= ended
    first, own = truths_in_order(truths)
    assert sum(t.prompt_tokens for t in first) == sum(
        row(ran, name)["prompting"]["calibration"]["input_tokens"] for name in SCALES
    )
    found = ran.document["counters"]
    assert found["cache_told_tokens"] == sum(t.prompt_tokens for t in own)
    assert found["cached_tokens"] == sum(t.cached_tokens for t in own)
    assert row(ran, "mooncake")["caching"]["hit_ratio"] > row(ran, "azure")["caching"]["hit_ratio"]
    # Text that is shared is found; requests that share and come at once, or whose blocks were evicted, find less.
    assert 0 < row(ran, "mooncake")["caching"]["hit_ratio"] <= row(ran, "mooncake")["prompting"]["repeats"]["shared"] + 0.02


def truths_in_order(truths: list[Truth]) -> tuple[list[Truth], list[Truth]]:
    """Return the requests of the calibration, which came first, and those of the run."""
    came = sorted(truths, key=lambda truth: truth.received_ns)
    return came[:8], came[8:]


def test_answers_of_the_real_problems_are_right_as_often_as_the_profile_says(mixed):
    ran, _, _ = mixed
    aime = row(ran, "aime")
    graded = sum(aime["grades"].values())
    assert graded == sum(aime["counts"].get(outcome, 0) for outcome in ("ok", "truncated")) > 80
    accuracy = aime["accuracy"]
    assert accuracy["low"] < 0.7 < accuracy["high"]
    assert accuracy["value"] == aime["grades"]["right"] / graded
    assert "accuracy of aime: " in ran.stdout
    assert aime["prompting"]["repeats"]["repeated"] >= graded - 30 - 5  # thirty problems, asked again and again


@pytest.mark.parametrize(("accuracy", "grades"), [("1", {"right"}), ("0", {"wrong"})])
def test_the_simulated_endpoint_is_right_as_often_as_it_is_told(tmp_path, data, accuracy, grades):
    ran = runs.run(
        tmp_path, "aime", "--set", f"workload.aime.dataset.file={data}/aime24.jsonl", "--rate", "20/s", "--requests", "30",
        "--url", f"simulate:tiny?speed=10&accuracy={accuracy}",
    )  # fmt: skip
    runs.ended(ran)
    assert set(row(ran, "aime")["grades"]) == grades


PREFIX = """
name = "prefix"
requests = 150
[target]
url = "simulate:tiny?speed=50&truth={truth}"
[workload.w]
dataset = {{ kind = "synthetic", input_tokens = {{ dist = "uniform", low = 400, high = 900 }}, output_tokens = 2, prefix = {{ groups = 5, hit_ratio = {ratio} }} }}
[arrivals]
kind = "closed"
sessions = 1
"""


@pytest.mark.parametrize("ratio", [0.3, 0.6])
def test_the_prefix_hit_ratio_of_the_truth_is_the_one_asked_for(tmp_path, ratio):
    """One request at a time: nobody races for the first place, and the cache holds five prefixes."""
    file = tmp_path / "prefix.toml"
    file.write_text(PREFIX.format(truth=tmp_path / "truth", ratio=ratio))
    ran = runs.run(tmp_path / "runs", file)
    runs.ended(ran)
    truths = [truth for truth in runs.truths(tmp_path / "truth") if truth.output_tokens > 1]  # calibration asks for one token
    assert len(truths) == 150
    truth = sum(t.cached_tokens for t in truths) / sum(t.prompt_tokens for t in truths)
    assert row(ran, "w")["caching"]["hit_ratio"] == pytest.approx(truth)
    spec = Synthetic(
        input_tokens=load(file).workload["w"].dataset.input_tokens, output_tokens=2, prefix=Prefix(groups=5, hit_ratio=ratio)
    )
    assert truth == pytest.approx(spec.load(0).hit_ratio(150), abs=0.02)
    assert truth == pytest.approx(ratio * (1 - 5 / 150), abs=0.02)
    assert row(ran, "w")["prompting"]["repeats"]["shared"] == pytest.approx(truth, abs=0.05)


def test_another_weight_leaves_the_other_workloads_items_and_all_times_alone(data):
    def asked(weight: float) -> tuple[list[int], dict[str, list[object]]]:
        made = load({
            "name": "x", "seed": 5, "requests": 120, "target": {"url": "http://h/v1", "model": "m"},
            "arrivals": {"kind": "poisson", "rate": "5/s"},
            "workload": {
                "aime": {"weight": weight, "dataset": {"kind": "aime", "file": str(data / "aime24.jsonl")}},
                "chat": {"weight": 1, "dataset": {"kind": "chat", "turns": 1}},
                "made": {"weight": 1, "dataset": {"kind": "prompts", "prompts": ["a", "b", "c"], "order": "shuffled"}},
            },
        })  # fmt: skip
        items = made.items()
        plan = made.plan(items)
        by_name: dict[str, list[object]] = {name: [] for name in items}
        for arrival in plan:
            by_name[arrival.workload].append(items[arrival.workload].conversation(arrival.item))
        return plan.times_ns.tolist(), by_name

    (times, few), (same, many) = asked(1), asked(9)
    assert times == same
    assert len(few["aime"]) < len(many["aime"])
    for name in few:
        assert all(a == b for a, b in itertools.zip_longest(few[name], many[name]) if a is not None and b is not None), name
        assert min(len(few[name]), len(many[name])) > 5


# --- A real LLM server ---

REAL = """
name = "real"
seed = 3
[target]
url = "{url}/v1"
model = "smollm2"
provider = "llamacpp"
[workload.azure]
dataset = {{ kind = "trace", file = "{data}/azure_llm_2023_conv.csv", start = "1m", length = "4s", rate = "1.5/s", scale = 0.05 }}
arrivals = {{ kind = "trace", file = "{data}/azure_llm_2023_conv.csv", start = "1m", length = "4s", rate = "1.5/s" }}
[workload.mooncake]
dataset = {{ kind = "trace", file = "{data}/mooncake_conversation.jsonl", length = "40s", speed = 10.0, rate = "1/s", scale = 0.005, calibrate = false }}
arrivals = {{ kind = "trace", file = "{data}/mooncake_conversation.jsonl", length = "40s", speed = 10.0, rate = "1/s" }}
[workload.aime]
dataset = {{ kind = "aime", file = "{data}/aime24.jsonl", sample = "sequential" }}
max_tokens = 4
arrivals = {{ kind = "constant", rate = "1/s", duration = "4s", requests = 2 }}
"""


@pytest.fixture(scope="module")
def real(data, tmp_path_factory) -> Iterator[tuple[Ran, Scenario]]:
    folder = tmp_path_factory.mktemp("real")
    service = services.llama_server(folder / "log", "-t", "1")
    file = folder / "real.toml"
    file.write_text(REAL.format(data=data, url=service.url))
    yield runs.run(folder / "runs", file, seconds=120), load(file)
    service.stop()


def test_real_traces_and_problems_run_against_a_real_server(real):
    ran, _ = real
    runs.ended(ran)
    assert {name: len(of(ran.results, name)) for name in ("azure", "mooncake", "aime")} == {"azure": 6, "mooncake": 4, "aime": 2}
    assert {result.outcome for result in ran.results} <= {"ok", "truncated"}


def test_token_lengths_are_exact_on_a_real_tokenizer(real):
    """Its tokenizer has every word of ours as one token; four of them are two where nothing stands before them, at a prompt's start."""
    ran, scenario = real
    told = row(ran, "azure")["prompting"]["calibration"]
    assert told["tokens_per_word"] == 1.0
    assert told["error"] <= 1 / 30
    assert "calibration" not in row(ran, "mooncake")["prompting"]
    off = 0
    for name in ("azure", "mooncake"):
        spec = scenario.workload[name].dataset
        assert isinstance(spec, TraceLengths)
        trace = read_trace(Path(spec.file))
        chosen = replay(trace, start_ns=spec.start, length_ns=spec.length, speed=spec.speed, rate=spec.rate)
        for result in of(ran.results, name):
            place = int(chosen.rows[result.item])
            asked = max(1, round(int(trace.input_tokens[place]) * spec.scale))
            # Without calibration the template's tokens come on top.
            wanted = max(asked, told["overhead"] + 1) if name == "azure" else asked + told["overhead"]
            off += abs(result.usage.input_tokens - wanted)
            assert result.usage.output_tokens == max(1, round(int(trace.output_tokens[place]) * spec.scale))
            assert not result.length_mismatch
    assert off <= 2


def test_the_window_is_the_trace_s_own(real):
    ran, scenario = real
    spec = scenario.workload["azure"].arrivals
    assert (spec.start, spec.length, spec.rate) == (Duration.parse("1m"), Duration.parse("4s"), Rate.parse("1.5/s"))
    assert ran.document["stages"][0]["plan"]["end_ns"] == 4 * 10**9
