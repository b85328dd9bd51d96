"""Each recorded-by-hand stream in tests/golden/sse gives its expected chunks, facts and Result, however its bytes are cut.

`NAME.sse` holds the bytes; `NAME.json` says what must come of them. `chunks` are [event, kind, text, mark]: the number of the
event in the file (blank lines part events), the kind, the answer's text, and "thought" or "rethink". `facts` are those that
differ from nothing said. `result` names times by the event that brings them: event n arrives 20 (n + 1) ms after sending.
"""

import json
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r1perf.client import Ticket
from r1perf.client.fast import FastClient
from r1perf.loop.sim import SimLoop
from r1perf.providers import Chunk, Facts, Kind
from r1perf.providers.registry import choose
from r1perf.result import Result, Stream, Usage
from r1perf.target import Call, Message, Target, Tokens
from r1perf.transport.scripted import Script, ScriptedTransport

MS = 1_000_000
FOLDER = Path(__file__).parents[1] / "golden" / "sse"
NAMES = sorted(path.stem for path in FOLDER.glob("*.sse"))
_STREAMS = {name: ((FOLDER / f"{name}.sse").read_bytes(), json.loads((FOLDER / f"{name}.json").read_text())) for name in NAMES}
TIMES = ("first", "first_reasoning", "first_answer", "last")


def target(expected):
    return Target(**({"url": "http://127.0.0.1:8000/v1", "model": "deepseek-r1"} | expected["target"]))


def events(data):
    """Cut a stream behind each blank line, with nothing of the code under test."""
    parts = re.split(rb"(?<=\r\n\r\n)|(?<=\n\n)|(?<=\r\r)", data)
    return [part for part in parts if part]


def wanted_chunks(expected):
    return [
        Chunk(Kind[kind.upper()], text, thought="thought" in marks, rethink="rethink" in marks)
        for _, kind, text, *marks in expected["chunks"]
    ]


def wanted_facts(expected):
    return msgspec.convert(expected["facts"], Facts)


def decoded(expected, pieces):
    decoder = choose(target(expected)).decoder(target(expected))
    chunks = [chunk for piece in pieces for chunk in decoder.feed(piece)]
    return chunks + decoder.end(), decoder.facts


def test_there_are_streams_of_every_server_family():
    spoken = {expected["target"].get("provider", "openai") for _, expected in _STREAMS.values()}
    assert len(NAMES) >= 50
    assert spoken == {
        "openai", "vllm", "sglang", "trtllm", "dynamo", "deepseek", "openrouter", "azure", "together", "fireworks", "litellm", "llamacpp",
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_stream_in_one_read(name):
    data, expected = _STREAMS[name]
    assert decoded(expected, [data]) == (wanted_chunks(expected), wanted_facts(expected))


@pytest.mark.parametrize("name", NAMES)
def test_byte_by_byte(name):
    data, expected = _STREAMS[name]
    pieces = [data[at : at + 1] for at in range(len(data))]
    assert decoded(expected, pieces) == (wanted_chunks(expected), wanted_facts(expected))


@pytest.mark.parametrize("name", NAMES)
def test_each_chunk_comes_with_its_own_event(name):
    data, expected = _STREAMS[name]
    decoder = choose(target(expected)).decoder(target(expected))
    came = [(number, chunk) for number, piece in enumerate(events(data)) for chunk in decoder.feed(piece)]
    assert came == list(zip([row[0] for row in expected["chunks"]], wanted_chunks(expected), strict=True))
    assert decoder.end() == []


@settings(max_examples=400)
@given(st.data())
def test_any_split_of_the_bytes_decodes_the_same(data):
    name = data.draw(st.sampled_from(NAMES))
    stream, expected = _STREAMS[name]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(stream) - 1), max_size=30)))
    pieces = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert decoded(expected, pieces) == (wanted_chunks(expected), wanted_facts(expected))


@pytest.mark.parametrize("name", NAMES)
def test_events_that_somebody_else_parsed_read_the_same(name):
    """The openai engine hands over parsed events; what only bytes can say (comments, [DONE], names) is not among them."""
    data, expected = _STREAMS[name]
    decoder = choose(target(expected)).decoder(target(expected))
    chunks = []
    for event in events(data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
        lines = [line.partition(b":")[2] for line in event.split(b"\n") if line.startswith(b"data:")]
        try:
            raw = json.loads(b"\n".join(lines))
        except ValueError:
            continue
        if isinstance(raw, dict):
            chunks += decoder.read(raw)
    assert chunks == wanted_chunks(expected)
    for fact in (
        "finish_reason",
        "usage",
        "request_id",
        "model",
        "upstream",
        "reasoning_field",
        "prefilled",
        "reasoning_tag_open",
    ):
        assert getattr(decoder.facts, fact) == getattr(wanted_facts(expected), fact)


@pytest.mark.parametrize("name", NAMES)
def test_the_fast_engine_gives_the_whole_result(name):
    data, expected = _STREAMS[name]
    pieces = events(data)
    loop = SimLoop()
    client = FastClient(
        loop, target(expected), choose(target(expected)), ScriptedTransport(loop, [Script([(20 * MS, p) for p in pieces])])
    )
    call = Call(model="deepseek-r1", messages=(Message("user", "6*7?"),), prompt="6*7?", max_tokens=Tokens(64), keep_answer=1000)
    start_ns = loop.now_ns()
    stream = Stream("w", 0, start_ns)
    ticket = Ticket(id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, scheduled_ns=start_ns)
    reply = loop.run(client.send, ticket, client.prepare(call), stream)

    def at(event):
        return start_ns + 20 * MS * (event + 1)

    say, facts = expected["result"], expected["facts"]
    assert reply.result == Result(
        id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, scheduled_ns=start_ns, sent_ns=start_ns, head_ns=at(0), status=200,
        outcome=say["outcome"], reason=say.get("reason"), message=say.get("message"), finish_reason=facts.get("finish_reason"),
        done_ns=at(len(pieces) - 1), answer_chunks=say.get("answer_chunks", 0), token_source=say.get("token_source"),
        usage=msgspec.convert(say.get("usage", {}), Usage), request_id=facts.get("request_id"), model=facts.get("model"),
        upstream=facts.get("upstream"), local_port=30_001, reasoning_hidden=False,
        stray_events=facts.get("stray", 0),
        **{f"{time}_ns": at(say[time]) for time in TIMES if time in say},
    )  # fmt: skip
    assert stream.pending == [at(row[0]) for row in expected["chunks"]]
