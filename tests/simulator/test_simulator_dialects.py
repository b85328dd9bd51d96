"""What each dialect writes, byte for byte: `golden/` was written by hand-checking against the facts cited in `dialects.py`.

R1PERF_UPDATE_GOLDEN=1 writes the files anew, to be read before they are committed.
"""

import json
import os
from pathlib import Path

import pytest
from onwire import exchange

from r1perf.simulator.dialects import DIALECTS

GOLDEN = Path(__file__).parent / "golden"
USAGE = {"include_usage": True}


def check(name: str, got: bytes) -> None:
    """Compare with a golden file."""
    path = GOLDEN / name
    if os.environ.get("R1PERF_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(got)
    assert got.decode() == path.read_bytes().decode()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_chat_stream(dialect: str) -> None:
    stage, paper, _ = exchange(dialect, stream_options=USAGE)
    assert (stage.ending, paper.end) == ("complete", "complete")
    check(f"{dialect}.sse", paper.body)


def test_only_vllm_has_a_stop_reason() -> None:
    """`r1perf probe` tells vLLM by it."""
    found = {dialect for dialect in DIALECTS if b'"stop_reason"' in exchange(dialect)[1].body}
    assert found == {"vllm", "vllm-old", "tags", "prefilled", "none"}


@pytest.mark.parametrize("dialect", ["vllm", "trtllm", "deepseek", "prefilled", "none"])
def test_a_completions_stream(dialect: str) -> None:
    _, paper, _ = exchange(dialect, chat=False, stream_options=USAGE)
    check(f"{dialect}.completions.sse", paper.body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_in_one_piece(dialect: str) -> None:
    _, paper, _ = exchange(dialect, stream=False)
    check(f"{dialect}.json", json.dumps(json.loads(paper.body), indent=1).encode() + b"\n")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_the_stream(dialect: str) -> None:
    stage, paper, _ = exchange(dialect, "error_object@2")
    assert stage.ending == "error"
    check(f"{dialect}.error.sse", paper.body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_usage_is_not_sent_unasked_but_by_those_who_always_send_it(dialect: str) -> None:
    _, paper, _ = exchange(dialect)
    assert (b'"usage":{' in paper.body) == (dialect in ("deepseek", "openrouter"))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_no_usage_leaves_it_out_everywhere(dialect: str, stream: bool) -> None:
    _, paper, _ = exchange(dialect, "no_usage", stream=stream, stream_options=USAGE if stream else None)
    assert b'"usage":{' not in paper.body
    assert b"prompt_tokens" not in paper.body


def test_continuous_usage_counts_up() -> None:
    _, paper, _ = exchange("vllm", stream_options={**USAGE, "continuous_usage_stats": True})
    events = [json.loads(line[6:]) for line in paper.body.decode().split("\n\n") if line.startswith("data: {")]
    counts = [
        (event["usage"]["completion_tokens"], event["usage"]["completion_tokens_details"]["reasoning_tokens"]) for event in events
    ]
    assert counts == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (5, 3), (6, 3), (6, 3)]


def test_sglext_comes_before_usage_where_asked_for() -> None:
    _, paper, _ = exchange("sglang", stream_options=USAGE, return_cached_tokens_details=True)
    ext, usage, done = [line for line in paper.body.decode().split("\n\n") if line][-3:]
    assert json.loads(ext[6:])["sglext"] == {"cached_tokens_details": {"device": 0, "host": 0}}
    assert (json.loads(ext[6:])["choices"], json.loads(ext[6:])["usage"]) == ([], None)
    assert json.loads(usage[6:])["usage"]["completion_tokens"] == 6
    assert done == "data: [DONE]"


def test_a_family_that_holds_bytes_gives_real_tokens_without_text() -> None:
    _, paper, made = exchange("trtllm", max_tokens=200, ignore_eos=True)
    _, plain, _ = exchange("vllm-old", max_tokens=200, ignore_eos=True)

    def texts(body: bytes) -> list[str]:
        events = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: {")][1:]
        return [
            event["choices"][0]["delta"].get("reasoning_content") or event["choices"][0]["delta"].get("content")
            for event in events
        ]

    held, whole = texts(paper.body), texts(plain.body)
    assert [index for index, text in enumerate(held) if not text] == [60, 121, 182]
    assert held[61] == whole[60] + whole[61]
    assert "".join(text or "" for text in held) == "".join(whole)
    assert (made.truth.output_tokens, made.truth.chunks) == (200, 197)


@pytest.mark.parametrize(
    ("dialect", "cut", "text"),
    [
        ("tags", 1, "<think>\n"),
        ("tags", 2, None),
        ("prefilled", 2, None),
    ],
    ids=["one-token", "tags-inside-thinking", "prefilled-inside-thinking"],
)
def test_thinking_that_is_cut_short_is_not_closed(dialect: str, cut: int, text: str | None) -> None:
    _, paper, made = exchange(dialect, max_tokens=cut, stream=False)
    message = json.loads(paper.body)["choices"][0]
    assert "</think>" not in message["message"]["content"]
    assert message["message"]["content"].startswith("<think>\n") == (dialect == "tags")
    assert text is None or message["message"]["content"] == text
    assert (message["finish_reason"], made.truth.reasoning_tokens) == ("length", cut)


def test_headers_that_name_the_upstream() -> None:
    _, paper, _ = exchange("litellm", "rerouted:other")
    assert ("x-litellm-attempted-fallbacks", "1") in paper.head
    _, paper, _ = exchange("openrouter", "rerouted:other")
    assert b'"provider":"Elsewhere"' in paper.body
    assert b'"model":"other"' in paper.body
    assert paper.head == [("x-generation-id", "chatcmpl-1")]
