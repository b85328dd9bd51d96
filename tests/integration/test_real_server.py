"""A real LLM server, llama.cpp's with a small model: real AIME problems and chat, and the server's own counts."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import runs
import services
from runs import Ran

from r1perf.datasets.aime import DIRECTIVE
from r1perf.result import Result

# One request at a time and nothing from the cache (it changes how sums are rounded), so that greedy answers are the same ones.
SCENARIO = """
name = "real"
seed = 13
requests = 6
[target]
url = "{url}/v1"
model = "smollm2"
extra_body = {{ cache_prompt = false }}
[workload.aime]
dataset = {{ kind = "aime", file = "{aime}", sample = "sequential" }}
max_tokens = 16
sampling = {{ temperature = 0 }}
[workload.chat]
dataset = {{ kind = "chat", turns = 2, think_time = "50ms", message_tokens = 30, system = {{ count = 0 }} }}
max_tokens = 16
sampling = {{ temperature = 0 }}
[workload.short]
dataset = {{ kind = "prompts", prompts = ["Say yes."] }}
sampling = {{ temperature = 0 }}
extra_body = {{ cache_prompt = true }}
[arrivals]
kind = "closed"
sessions = 1
think_time = "50ms"
"""

WAYS = {
    "fast": (),
    "openai": ("--set", "target.engine=openai"),
    "fast, whole": ("--set", "target.stream=false"),
}
COUNTERS = ("prompt_tokens", "prompt_tokens_cached", "tokens_predicted")


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[services.Service]:
    service = services.llama_server(tmp_path_factory.mktemp("llama") / "log", "--metrics", "-t", "1")
    yield service
    service.stop()


def counted(server: services.Service) -> list[int]:
    """Ask the server how many tokens it has taken, found in its cache, and made."""
    with urllib.request.urlopen(server.url + "/metrics", timeout=10) as response:
        lines = dict(line.split() for line in response.read().decode().splitlines() if not line.startswith("#"))
    return [round(float(lines[f"llamacpp:{name}_total"])) for name in COUNTERS]


@pytest.fixture(scope="module")
def told(server, shared, tmp_path_factory) -> dict[str, tuple[Ran, list[int]]]:
    """Run on every way to ask; give each run with what the server counted meanwhile."""
    folder = tmp_path_factory.mktemp("real")
    file = folder / "real.toml"
    file.write_text(SCENARIO.format(url=server.url, aime=shared / "data" / "aime24.jsonl"))
    came = {}
    for at, (way, words) in enumerate(WAYS.items()):
        before = counted(server)
        ran = runs.run(folder / str(at), file, "--quiet", *words, seconds=120)
        came[way] = ran, [after - number for after, number in zip(counted(server), before, strict=True)]
    return came


@pytest.fixture(params=WAYS)
def way(request) -> str:
    return request.param


def test_every_request_ends_well(told, way):
    ran, _ = told[way]
    runs.ended(ran)
    assert {(result.workload, result.outcome, result.finish_reason) for result in ran.results} == {
        ("aime", "truncated", "length"), ("chat", "truncated", "length"), ("short", "ok", "stop"),
    }  # fmt: skip
    assert {result.turn for result in ran.results if result.workload == "chat"} == {0, 1}
    assert len(ran.results) == 6


def test_tokens_add_up_to_the_servers_own_counts(told, way):
    ran, (computed, cached, predicted) = told[way]
    usages = [result.usage for result in ran.results]
    assert {result.token_source for result in ran.results} == {"server"}
    assert sum(usage.input_tokens for usage in usages) == computed + cached
    assert sum(usage.cached_tokens for usage in usages) == cached
    assert sum(usage.output_tokens for usage in usages) == predicted
    counters = ran.document["counters"]
    assert (counters["input_tokens"], counters["output_tokens"]) == (computed + cached, predicted)


def test_each_chunk_is_a_token_but_for_the_one_that_ends_the_answer(told):
    """It streams a chunk a token; the token that ends an answer has no text."""
    for way in ("fast", "openai"):
        for result in told[way][0].results:
            assert result.chunks == result.usage.output_tokens - (result.finish_reason == "stop"), result
            assert result.sent_ns < result.head_ns <= result.first_ns <= result.last_ns <= result.done_ns


def asked(results: list[Result]) -> dict[tuple[str, int, int], tuple[str, int, int]]:
    return {
        (result.workload, result.item, result.turn): (result.outcome, result.usage.input_tokens, result.usage.output_tokens)
        for result in results
    }


def test_all_ways_to_ask_get_the_same_tokens(told):
    """A second turn's prompt holds the first one's answer, so equal prompts mean equal answers."""
    fast = asked(told["fast"][0].results)
    assert asked(told["openai"][0].results) == fast
    assert asked(told["fast, whole"][0].results) == fast


def test_the_problems_are_the_real_ones_and_the_server_counts_them_alike_when_asked_directly(told, server, shared):
    problems = [json.loads(line)["problem"] for line in (shared / "data" / "aime24.jsonl").read_text().splitlines()]
    mine = {result.item: result.usage for result in told["fast"][0].results if result.workload == "aime"}
    assert mine
    for item, usage in mine.items():
        direct = post(server, messages=[{"role": "user", "content": problems[item] + DIRECTIVE}], max_tokens=16, temperature=0)
        assert direct["usage"]["prompt_tokens"] == usage.input_tokens
        assert direct["usage"]["completion_tokens"] == direct["timings"]["predicted_n"] == usage.output_tokens


def post(server: services.Service, **body: Any) -> dict[str, Any]:
    request = urllib.request.Request(
        server.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as response:
        return json.loads(response.read())


def test_probe_knows_it(server, tmp_path):
    done = subprocess.run(
        [*runs.R1PERF, "probe", f"{server.url}/v1"], capture_output=True, text=True, timeout=90, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("r1perf: waiting for ") for line in done.stderr.splitlines())  # a busy machine takes over 5 s
    said = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in done.stdout.splitlines()}
    assert said["provider"].startswith("llamacpp ")
    assert said["reasoning"] == "none was seen"
    assert said["models"].endswith(".gguf")
    assert 'provider = "llamacpp"' in done.stdout
    assert not list(Path(tmp_path).iterdir())
