"""What the golden streams do not say of decoders: odd combinations, whole answers, bounds, laws of the tag machine."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.errors import TransportError
from r1perf.providers import Chunk, Facts, Kind, decode
from r1perf.providers.decode import StreamDecoder, WholeDecoder
from r1perf.providers.fireworks import Fireworks
from r1perf.providers.wire import timings_usage, told_usage, usage_of
from r1perf.result import Usage


def event(delta=None, **choice):
    return {"choices": [{"index": 0, "delta": delta or {}, **choice}]}


def sse(*raws):
    return b"".join(b"data: %s\n\n" % json.dumps(raw).encode() for raw in raws)


def read(*raws, reasoning="auto"):
    decoder = StreamDecoder(reasoning)
    return decoder.feed(sse(*raws)) + decoder.end(), decoder.facts


def kinds(chunks):
    return [(chunk.kind.name.lower(), chunk.text) for chunk in chunks]


def test_a_reasoning_field_ends_the_search_for_tags():
    chunks, facts = read(event({"content": "<think>"}), event({"reasoning": "a"}), event({"content": "b</think>"}))
    assert kinds(chunks) == [("reasoning", ""), ("reasoning", ""), ("answer", "b</think>")]
    assert (facts.reasoning_field, facts.reasoning_tag_open, facts.prefilled) == ("reasoning", False, False)


def test_a_request_id_of_the_head_stands():
    decoder = StreamDecoder("auto")
    decoder.facts.request_id = "of-the-head"
    decoder.feed(sse({"id": "of-the-chunk", "model": "m", **event({"content": "a"})}))
    assert (decoder.facts.request_id, decoder.facts.model) == ("of-the-head", "m")


def test_several_choices_in_one_event_are_one_chunk():
    two = {"choices": [{"index": 1, "delta": {}}, {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"}]}
    both = {"choices": [{"index": 0, "delta": {"content": "a"}}, {"index": 1, "delta": {"content": "b"}}]}
    chunks, facts = read(two, both)
    assert (kinds(chunks), facts.finish_reason) == ([("answer", "a"), ("answer", "a")], "stop")


def test_an_error_inside_a_choice():
    _, facts = read(event({"content": ""}, finish_reason="error", error={"code": 502, "message": "upstream gone"}))
    assert (facts.error, facts.error_code, facts.finish_reason) == ("upstream gone", "502", "error")


def test_text_after_an_error_is_still_read():
    chunks, facts = read({"error": {"message": "slow"}}, event({"content": "a"}, finish_reason="stop"))
    assert (kinds(chunks), facts.error, facts.finish_reason) == ([("answer", "a")], "slow", "stop")


@pytest.mark.parametrize("error", [None, "", {}, [], 0, False])
def test_an_empty_error_is_none(error):
    assert read({"error": error, **event({"content": "a"})})[1].error is None


def test_content_beside_a_tool_call_is_answer_and_an_id_alone_is_nothing():
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": ""}}
    chunks, _ = read(event({"content": "a", "tool_calls": [call]}), event({"tool_calls": [{"index": 0, "id": "call_2"}]}))
    assert chunks == [Chunk(Kind.ANSWER, "a")]
    assert read(event({"reasoning": "r", "tool_calls": [call]}))[0] == [Chunk(Kind.TOOL, "f", thought=True)]
    assert read(event({"reasoning": "r", "tool_calls": [{"id": "x"}]}))[0] == [Chunk(Kind.REASONING, "")]


@pytest.mark.parametrize("bomb", [b'{"usage":' + b"[" * 200_000, b'{"error":' + b'{"a":' * 200_000, b"[" * 200_000])
def test_json_that_is_nested_too_deep_is_noise(bomb):
    decoder = StreamDecoder("auto")
    assert decoder.feed(b"data: " + bomb + b"\n\n" + sse(event({"content": "a"}))) == [Chunk(Kind.ANSWER, "a")]
    assert decoder.facts.stray == 1


def test_broken_utf8_is_replaced():
    decoder = StreamDecoder("auto")
    assert decoder.feed(b'data: {"choices":[{"delta":{"content":"a\xff"}}]}\n\n') == [Chunk(Kind.ANSWER, "a\ufffd")]


WHOLE = {
    "id": "w", "model": "m", "usage": {"prompt_tokens": 9, "completion_tokens": 3},
    "choices": [{"index": 0, "message": {"role": "assistant", "reasoning": "r", "content": "42", "tool_calls": None}, "finish_reason": "stop"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "chunks"),
    [
        pytest.param(WHOLE, [Chunk(Kind.ANSWER, "42", thought=True)], id="both"),
        pytest.param(
            {"choices": [{"message": {"content": "<think>r</think>42"}}]},
            [Chunk(Kind.ANSWER, "42", thought=True)],
            id="inline tags",
        ),
        pytest.param(
            {"choices": [{"message": {"content": "r</think>42"}}]}, [Chunk(Kind.ANSWER, "42", True, True)], id="prefilled"
        ),
        pytest.param({"choices": [{"text": "42"}]}, [Chunk(Kind.ANSWER, "42")], id="completions"),
        pytest.param({"choices": [{"message": {"content": None}}]}, [], id="empty"),
    ],
)
def test_an_answer_that_is_not_streamed(raw, chunks):
    decoder = WholeDecoder("auto")
    body = json.dumps(raw).encode()
    assert [decoder.feed(body[:7]), decoder.feed(body[7:])] == [[], []]
    assert decoder.end() == chunks


def test_the_facts_of_a_whole_answer():
    decoder = WholeDecoder("auto")
    decoder.feed(json.dumps(WHOLE).encode())
    decoder.end()
    facts = decoder.facts
    assert (facts.finish_reason, facts.usage, facts.request_id, facts.model) == ("stop", Usage(9, 3), "w", "m")
    assert facts.reasoning_field == "reasoning"


@pytest.mark.parametrize(
    ("body", "error", "code"),
    [
        (b"<html><body>Log in</body></html>", "the answer is not JSON: Log in", "not_json"),
        (b"[1]", "the answer is JSON, but not an object", "not_json"),
        (b'{"error":{"message":"no","code":7}}', "no", "7"),
        (b'{"detail":"no"}', "no", None),
        (b"", None, None),
    ],
)
def test_a_body_that_is_no_answer(body, error, code):
    for decoder in (WholeDecoder("auto"), StreamDecoder("auto")):
        decoder.feed(body)
        assert decoder.end() == []
        assert (decoder.facts.error, decoder.facts.error_code) == (error, code)


@pytest.mark.parametrize("size", [1, 60, -1])
def test_a_whole_answer_that_is_cut_is_no_error_of_the_servers_and_is_never_shown(size):
    body = json.dumps(WHOLE).encode()[:size]
    for decoder in (WholeDecoder("auto"), StreamDecoder("auto")):
        decoder.feed(b"\xef\xbb\xbf\n" + body)
        assert decoder.end() == []
        facts = decoder.facts
        assert (facts.error, facts.finish_reason) == (None, None)
        assert (facts.stray, facts.stray_text) == (1, f"broken JSON, {len(body)} bytes")


def test_an_event_that_cannot_be_read_is_shown_unless_it_may_be_half_an_answer():
    for data, shown in ((b'{"choices":[{"delta":{"content":"very secret', "broken JSON, 44 bytes"), (b"busy", "busy")):
        decoder = StreamDecoder("auto")
        assert decoder.feed(b"data: %b\n\n" % data + sse(event({"content": "a"}))) == [Chunk(Kind.ANSWER, "a")]
        assert decoder.facts.stray_text == shown


def test_one_json_object_where_a_stream_was_ordered_is_read_at_its_end():
    decoder = StreamDecoder("auto")
    body = b"\r\n " + json.dumps(WHOLE, indent=1).encode()
    assert [decoder.feed(body[at : at + 10]) for at in range(0, len(body), 10)] == [[]] * -(-len(body) // 10)
    assert decoder.end() == [Chunk(Kind.ANSWER, "42", thought=True)]
    assert (decoder.facts.whole, decoder.facts.finish_reason) == (True, "stop")
    assert read(event({"content": "a"}))[1].whole is False


def test_an_endless_body_is_an_error_and_not_memory(monkeypatch):
    monkeypatch.setattr(decode, "MAX_BODY_BYTES", 100)
    decoder = WholeDecoder("auto")
    decoder.feed(b"x" * 100)
    with pytest.raises(TransportError, match="the answer is longer than") as caught:
        decoder.feed(b"x")
    assert (caught.value.outcome, caught.value.reason) == ("stream_broken", "body_too_large")


@pytest.mark.parametrize(
    ("raws", "usage"),
    [
        pytest.param([{"prompt_tokens": 9, "completion_tokens": 3}], Usage(9, 3), id="plain"),
        pytest.param(
            [{"input_tokens": 9, "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 2}}],
            Usage(9, 3, 2),
            id="newer names",
        ),
        pytest.param(
            [{"completion_tokens": 3}, {"completion_tokens": 0, "prompt_tokens": 9}], Usage(9, 3), id="an empty one last"
        ),
        pytest.param(
            [{"completion_tokens": 3, "prompt_tokens": 8}, {"completion_tokens": 0, "prompt_tokens": 0}],
            Usage(8, 3),
            id="zeros last",
        ),
        pytest.param(
            [{"completion_tokens": 3, "reasoning_tokens": 2}, {"completion_tokens": 5}],
            Usage(None, 5, 2),
            id="details in one only",
        ),
        pytest.param([{"completion_tokens": True, "prompt_tokens": "9"}], Usage(), id="no counts"),
        pytest.param([{"completion_tokens": -1}], Usage(), id="negative"),
        pytest.param(
            [{"prompt_tokens_details": {"cached_tokens": 0}, "prompt_cache_hit_tokens": 5}],
            Usage(cached_tokens=0),
            id="0 is a word",
        ),
        pytest.param([{"prompt_tokens_details": None, "cached_tokens": 4}], Usage(cached_tokens=4), id="at the top"),
        pytest.param([{"cache_read_input_tokens": 4}], Usage(cached_tokens=4), id="anthropic's name"),
        pytest.param([None, "x", 5], None, id="no objects"),
    ],
)
def test_usage_under_all_its_names(raws, usage):
    seen = None
    for raw in raws:
        seen = usage_of(raw, seen)
    assert seen == usage


@pytest.mark.parametrize(
    ("raw", "before", "usage"),
    [
        ({"prompt_n": 7, "cache_n": 5, "predicted_n": 3}, None, Usage(12, 3, None, 5)),
        ({"prompt_n": 7, "predicted_n": 3}, None, Usage(7, 3)),
        ({"prompt_n": 7, "cache_n": 5, "predicted_n": 3}, Usage(20, 4, 1), Usage(20, 4, 1, 5)),
        ("x", Usage(1, 2), Usage(1, 2)),
    ],
)
def test_timings_fill_what_usage_lacks(raw, before, usage):
    assert timings_usage(raw, before) == usage


TOLD = [
    pytest.param({"prompt-tokens": "900", "cached-prompt-tokens": "512"}, None, Usage(900, None, None, 512), id="texts"),
    pytest.param({"cached-prompt-tokens": 512}, Usage(900, 3), Usage(900, 3, None, 512), id="numbers fill usage"),
    pytest.param(
        {"prompt-tokens": "1", "cached-prompt-tokens": "0"}, Usage(900, 3, None, 64), Usage(900, 3, None, 64), id="usage wins"
    ),
    pytest.param({"prompt-tokens": "many", "server-time-to-first-token": "0.1"}, Usage(9, 3), Usage(9, 3), id="no counts"),
    pytest.param("x", None, None, id="no object"),
]


@pytest.mark.parametrize(("raw", "before", "usage"), TOLD)
def test_fireworks_tells_cached_tokens_beside_its_usage(raw, before, usage):
    assert told_usage(raw, before) == usage
    decoder = StreamDecoder("auto")
    decoder.facts.usage = before
    decoder.feed(
        b"data: " + json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}], "perf_metrics": raw}).encode() + b"\n\n"
    )
    assert decoder.facts.usage == usage
    if isinstance(raw, dict):
        facts = Facts(usage=before)
        Fireworks().note_head({f"fireworks-{name}": str(value) for name, value in raw.items()} | {"x-request-id": "r"}, facts)
        assert (facts.usage, facts.request_id) == (usage, "r")


TEXT = st.lists(st.sampled_from(["<think>", "</think>", "<", "</", "think>", "a", " ", "\n", "<b>"]), max_size=12).map("".join)


def split(text, cuts):
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:end] for start, end in pairwise(edges)]


def answers(chunks):
    """Put the answer together as a client does: what was taken back is void."""
    text = ""
    for chunk in chunks:
        text = ("" if chunk.rethink else text) + (chunk.text if chunk.kind is Kind.ANSWER else "")
    return text


def expected(text, reasoning):
    """Say from the whole text what the answer is."""
    begun = text.lstrip()
    if reasoning in ("field", "none"):
        return text
    if reasoning == "prefilled":
        return text.partition("</think>")[2]
    if begun.startswith("<think>"):
        return begun.removeprefix("<think>").partition("</think>")[2]
    return text.partition("</think>")[2] if reasoning == "auto" and "</think>" in text else text


@given(TEXT, st.lists(st.integers(0, 200), max_size=10), st.sampled_from(["auto", "tags", "prefilled", "field", "none"]))
def test_however_the_text_is_cut_the_answer_is_the_same(text, cuts, reasoning):
    pieces = split(text, cuts)
    chunks, _ = read(*[event({"content": piece}) for piece in pieces], reasoning=reasoning)
    assert len(chunks) == len(pieces)  # every event with text is one chunk
    assert answers(chunks) == expected(text, reasoning)
