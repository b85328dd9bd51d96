"""The probe's conclusions from recorded answers, and the probe itself against a scripted target."""

import json

import pytest
from click.testing import CliRunner
from test_golden_sse import _STREAMS, MS, events

from r1perf.cli.probe import command
from r1perf.errors import TargetError, UsageError
from r1perf.loop.sim import SimLoop
from r1perf.probe import Answer, Pages, ProbeReport, analyse, probe, render
from r1perf.result import Outcome, Result, Usage
from r1perf.target import Target, Timeouts
from r1perf.transport.scripted import HANG, Script, ScriptedTransport
from r1perf.units import Duration

WITHIN_60_S = Timeouts(first_chunk=Duration.seconds(60), total=Duration.seconds(60))
URL = "http://127.0.0.1:8000/v1"


def target(**fields):
    return Target(**({"url": URL, "model": "deepseek-r1"} | fields))


def answer(reads, *, connect_ns=None, outcome=Outcome.OK, headers=None, **fields):
    result = Result(
        id="probe.0", arrival=0, turn=0, workload="probe", stage=0, item=0, scheduled_ns=0, sent_ns=0, done_ns=reads[-1][0] if reads else 0,
        status=200, outcome=outcome, connect_ns=connect_ns, **fields,
    )  # fmt: skip
    return Answer(result, reads, headers or {})


def chunk(text="x", field="content", finish=None, **extra):
    return (
        b"data: %s\n\n"
        % json.dumps({"choices": [{"index": 0, "delta": {field: text}, "finish_reason": finish}], **extra}).encode()
    )


def usage(tokens, cached=None, reasoning=None):
    counts = {"prompt_tokens": 250, "completion_tokens": tokens}
    counts |= {} if cached is None else {"prompt_tokens_details": {"cached_tokens": cached}}
    counts |= {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return b"data: %s\n\n" % json.dumps({"choices": [], "usage": counts}).encode()


def steady(count=20, first_ms=100, gap_ms=20, tail=()):
    reads = [((first_ms + gap_ms * n) * MS, chunk()) for n in range(count)]
    return [*reads, (reads[-1][0], b"".join([chunk("", finish="stop"), *tail]))]


def report(reads, *more, pages=None, where=None, **fields):
    return analyse(where or target(), pages or Pages(), [answer(reads, **fields), *more])


def test_a_good_stream():
    first = [(300 * MS, chunk("Okay", "reasoning")), *steady(19, first_ms=320, tail=[usage(20, reasoning=1)])]
    second = answer([(100 * MS, chunk(finish="length")), (120 * MS, usage(16, cached=240))])
    assert report(first, second, pages=Pages(("deepseek-r1",), ("vllm",))) == ProbeReport(
        url=URL, model="deepseek-r1", models=("deepseek-r1",), provider="vllm", provider_why="its models are owned_by vllm",
        reasoning="field", reasoning_field="reasoning", usage=Usage(250, 20, 1), cached_tokens=240, chunks=20, reads=20,
        tokens_per_chunk=1.0, ttft_ms=300, itl_ms=20, reused=True, finish_reason="stop",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("sglang", "sglang"), ("trtllm", "trtllm"), ("llamacpp", "llamacpp"), ("openrouter", "openrouter"), ("azure", "azure"),
        ("deepseek", "deepseek"), ("vllm", "vllm"), ("crlf", "openai"),
    ],
)  # fmt: skip
def test_the_dialect_by_the_stream_alone(name, provider):
    reads = [(20 * MS * (n + 1), piece) for n, piece in enumerate(events(_STREAMS[name][0]))]
    assert report(reads).provider == provider


@pytest.mark.parametrize(
    ("where", "pages", "headers", "found"),
    [
        ({"url": "https://api.fireworks.ai/inference/v1"}, {"owners": ("vllm",)}, {}, ("fireworks", "by its host")),
        ({}, {"owners": ("vllm",)}, {"x-litellm-call-id": "1"}, ("litellm", "by the response header x-litellm-call-id")),
        ({}, {}, {"server": "llama.cpp"}, ("llamacpp", "by the response header server")),
        ({}, {"owners": ("acme", "nvidia")}, {}, ("dynamo", "its models are owned_by nvidia")),
        ({}, {"version": "0.33.0"}, {}, ("vllm", "it has a page /version, 0.33.0")),
        (
            {},
            {"owners": ("acme",)},
            {"server": "uvicorn"},
            ("openai", "nothing tells it from any other OpenAI-compatible server"),
        ),
    ],
)
def test_the_dialect_by_other_signs(where, pages, headers, found):
    got = report(steady(), where=target(**where), pages=Pages(**pages), headers=headers)
    assert (got.provider, got.provider_why) == found


def test_names_command_no_terminal():
    got = report(steady(), pages=Pages(("\x1b]0;x\x07m\u2066",)))
    assert next(line for line in render(got) if line.startswith("models")) == "models          \ufffd]0;x\ufffdm\ufffd"


def warned(got, word):
    return any(word in warning for warning in got.warnings)


@pytest.mark.parametrize(
    ("reads", "buffered", "bursts"),
    [
        pytest.param(steady(20), False, False, id="a chunk a read"),
        pytest.param([(2_000 * MS, chunk() * 40)], True, False, id="all in one read"),
        pytest.param([(2_000 * MS, chunk() * 20), (2_001 * MS, chunk() * 20)], True, False, id="in two reads at once"),
        pytest.param([(2_000 * MS, chunk() * 7)], False, False, id="too few to tell"),
        pytest.param([(n * 400 * MS, chunk() * 10) for n in range(1, 5)], False, True, id="bursts"),
        pytest.param([((2_000 + n) * MS, chunk()) for n in range(20)], False, False, id="fast, but a chunk a read"),
    ],
)
def test_a_proxy_that_buffers(reads, buffered, bursts):
    got = report(reads)
    assert (got.buffered, warned(got, "buffers the stream"), warned(got, "in bursts of 10")) == (buffered, buffered, bursts)


@pytest.mark.parametrize(
    ("reads", "reasoning", "word"),
    [
        pytest.param([(MS, chunk("<think>a</think>b", finish="stop"))], "tags", "no reasoning parser", id="tags"),
        pytest.param(
            [(MS, chunk("a")), (2 * MS, chunk("</think>b", finish="stop"))], "prefilled", "no reasoning parser", id="prefilled"
        ),
        pytest.param(
            [(MS, chunk("Okay, so", finish="length"))], "none", "before the answer was cut", id="cut before the closing tag"
        ),
        pytest.param(
            [(MS, chunk("b", finish="stop") + usage(9, reasoning=8))], "none", "8 reasoning tokens were counted", id="hidden"
        ),
        pytest.param([(MS, chunk("b", finish="stop"))], "none", "name promises it", id="none"),
        pytest.param([(MS, chunk("a", "reasoning_content", finish="length"))], "field", None, id="field"),
    ],
)
def test_a_missing_reasoning_parser(reads, reasoning, word):
    got = report(reads)
    assert got.reasoning == reasoning
    assert warned(got, "reasoning parser") == (word is not None and "counted" not in word)
    if word is not None:
        assert warned(got, word)


def test_a_model_that_promises_no_reasoning_gets_no_warning():
    got = report([(MS, chunk("b", finish="stop") + usage(1))], where=target(model="llama-3.1-8b"))
    assert got.warnings == ()


@pytest.mark.parametrize(
    ("got", "word"),
    [
        (report(steady()), "without usage each chunk is taken for one token"),
        (report(steady(tail=[usage(60)])), "a chunk carries 3.0 tokens"),
        (report(steady(), answer(steady(), connect_ns=5)), "closes the connection"),
        (report([(MS, chunk(model="other"))]), "names the model other, not deepseek-r1"),
        (report([(MS, b"data: PING\n\n" + chunk())]), "1 events carried no JSON and were ignored, the last of them 'PING'"),
        (
            report(steady(), where=target(provider="sglang"), pages=Pages(owners=("vllm",))),
            "provider = 'sglang', and looks like vllm",
        ),
        (report([(MS, b'{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}')]), "one JSON object came"),
        (report([], outcome=Outcome.STREAM_BROKEN, reason="no_finish_reason"), "ended as stream_broken: no_finish_reason"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_warnings(got, word):
    assert warned(got, word)


def test_one_answer_alone_knows_no_reuse():
    assert report(steady()).reused is None
    assert report(steady(), answer(steady())).reused is True


def target_of(models, first):
    """Answer pages and chats as a server does."""
    chats = [first, (200, (chunk(finish="stop"), usage(2, cached=240)))]

    def serve(request):
        if request.method == "GET":
            body = models if request.path.endswith("/models") else None
            return Script([(MS, b"" if body is None else body)], status=404 if body is None else 200, headers={})
        status, pieces = chats.pop(0)
        return Script([(20 * MS, piece) for piece in pieces], status=status)

    return serve


MODELS = b'{"object":"list","data":[{"id":"deepseek-r1","owned_by":"sglang"},{"id":"chat","owned_by":"sglang"}]}'
FIRST = (200, (chunk("Okay", "reasoning_content"), chunk("ready"), chunk("", finish="stop"), usage(2), b"data: [DONE]\n\n"))


def run(serve, where, tell=lambda what: None):
    loop = SimLoop()
    transport = ScriptedTransport(loop, serve)
    return loop.run(probe, where, loop, transport, "secret", tell), transport


def test_the_probe_asks_the_pages_and_twice_the_same_question():
    got, transport = run(target_of(MODELS, FIRST), target(model=""))
    assert got == ProbeReport(
        url=URL, model="deepseek-r1", models=("deepseek-r1", "chat"), provider="sglang", provider_why="its models are owned_by sglang",
        reasoning="field", reasoning_field="reasoning_content", usage=Usage(250, 2), cached_tokens=240, chunks=2, reads=2,
        tokens_per_chunk=1.0, ttft_ms=20, itl_ms=20, reused=True, finish_reason="stop",
    )  # fmt: skip
    chats = [json.loads(request.body) for request in transport.requests if request.method == "POST"]
    assert [chat["max_tokens"] for chat in chats] == [256, 16]
    assert chats[0]["messages"] == chats[1]["messages"]
    assert [request.path for request in transport.requests if request.method == "GET"] == ["/v1/models", "/v1/models", "/version"]
    assert "Authorization" not in dict(transport.requests[2].headers)  # /version


def test_a_chat_that_is_refused_is_the_targets_error():
    refused = (404, (b'{"error":{"message":"model not found"}}',))
    with pytest.raises(TargetError, match="does not answer a chat with the model gone: HTTP 404: model not found"):
        run(target_of(MODELS, refused), target(model="gone"))


def test_no_model_named_and_none_listed():
    with pytest.raises(TargetError, match="lists no models: name one with --model"):
        run(target_of(b'{"data":[]}', FIRST), target(model=""))


def silent_at(path):
    """A target that takes a request at one path and never answers it."""
    serve = target_of(MODELS, FIRST)
    return lambda request: Script([(0, HANG)]) if request.path == path else serve(request)


HTML = Script([(MS, b"<html>")], headers={"content-type": "text/html"})


@pytest.mark.parametrize(
    ("serve", "model", "says", "told"),
    [
        (silent_at("/v1/models"), "", "/v1/models does not answer within 30 s: name one with --model", ["http://127.0.0.1:8000/v1/models"]),
        (lambda request: HTML, "", "/v1/models is not a list of models: name one with --model", []),
        (target_of(None, FIRST), "", "/v1/models answers HTTP 404: name one with --model", []),
        (
            silent_at("/v1/chat/completions"), "m",
            "/v1 does not answer a chat with the model m: nothing came within 60 s$", ["an answer of the model m"],
        ),
    ],
    ids=["silent page", "another page", "no page", "silent chat"],
)  # fmt: skip
def test_what_is_no_endpoint_is_told_for_what_it_is(serve, model, says, told):
    heard = []
    with pytest.raises(TargetError, match=says):
        run(serve, target(model=model, timeouts=WITHIN_60_S), heard.append)
    assert heard == [f"waiting for {what}" for what in told]


DRIPPING = Script([(200 * MS, chunk()) for _ in range(15)] + [(0, HANG)])
COMMENTS = Script([(200 * MS, b": keep-alive\n\n") for _ in range(15)] + [(0, HANG)])


@pytest.mark.parametrize("stream", [DRIPPING, COMMENTS], ids=["chunks", "comments"])
def test_an_answer_that_had_not_ended_is_not_told_as_silence(stream):
    serve, three = target_of(MODELS, FIRST), Duration.seconds(3)
    where = target(timeouts=Timeouts(first_chunk=three, between_chunks=three, total=three))
    with pytest.raises(TargetError, match=r"the answer had not ended within 3 s: raise --timeout$"):
        run(lambda request: stream if request.method == "POST" else serve(request), where)


@pytest.mark.parametrize(("timeout", "says"), [("0s", "must be greater than 0"), ("5", '"5" is not a duration')])
def test_a_timeout_that_cannot_be(timeout, says):
    ran = CliRunner().invoke(command, [URL, "--timeout", timeout], standalone_mode=False)
    assert isinstance(ran.exception, UsageError)
    assert f"--timeout: {says}" in str(ran.exception)


@pytest.mark.parametrize(("timeout", "connect_s"), [("1s", 1), ("60s", 5)])
def test_a_connection_takes_no_longer_than_the_timeout(monkeypatch, timeout, connect_s):
    found = []

    def probed(where, loop, transport, key, tell):
        found.append(transport._connector._timeout_ns)
        raise TargetError("enough")

    monkeypatch.setattr("r1perf.cli.probe.probe", probed)
    CliRunner().invoke(command, [URL, "--timeout", timeout], standalone_mode=False)
    assert found == [connect_s * 10**9]


def test_what_people_see():
    got, _ = run(target_of(MODELS, FIRST), target(model=""))
    assert render(got) == [
        "http://127.0.0.1:8000/v1, model deepseek-r1",
        "",
        "models          deepseek-r1, chat",
        "provider        sglang (its models are owned_by sglang)",
        "reasoning       in the field reasoning_content",
        "usage           250 input, 2 output",
        "cached tokens   240 on the second request with the same prompt",
        "stream          2 chunks in 2 reads, the first after 20 ms, then 20.0 ms between reads",
        "tokens a chunk  1.00",
        "connection      reused",
        "",
        "In a scenario:",
        "",
        "[target]",
        'url = "http://127.0.0.1:8000/v1"',
        'model = "deepseek-r1"',
        'provider = "sglang"',
        'reasoning = "field"',
    ]
    nothing = render(
        ProbeReport(url=URL, model="m", provider="openai", provider_why="why", reasoning="none", warnings=("a", "b"))
    )
    assert nothing[2:10] == [
        "models          not listed",
        "provider        openai (why)",
        "reasoning       none was seen",
        "usage           none: the server counts no tokens",
        "cached tokens   not told",
        "stream          no output chunk came",
        "tokens a chunk  not known",
        "connection      not known",
    ]
    assert nothing[-3:] == ["", "warning: a", "warning: b"]
