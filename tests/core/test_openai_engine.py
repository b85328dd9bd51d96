"""The SDK engine gives the fast engine's Result on every golden stream, or the difference that is the SDK's own and named here."""

import json
import subprocess
import sys

import pytest

openai = pytest.importorskip("openai")
import httpx2  # noqa: E402
from test_golden_sse import _STREAMS, MS, NAMES, TIMES, events, target  # noqa: E402

from r1perf.client import Ticket  # noqa: E402
from r1perf.client.openai import open_openai  # noqa: E402
from r1perf.errors import UsageError  # noqa: E402
from r1perf.loop.sim import SimLoop  # noqa: E402
from r1perf.providers.registry import address, choose  # noqa: E402
from r1perf.result import Stream, Usage  # noqa: E402
from r1perf.target import Call, Message, Target, Timeouts, Tokens  # noqa: E402
from r1perf.units import Duration  # noqa: E402

CALL = Call(model="deepseek-r1", messages=(Message("user", "6*7?"),), prompt="6*7?", max_tokens=Tokens(64), keep_answer=1000)


class Timed(httpx2.SyncByteStream):
    """Body pieces on virtual time; an exception among them is raised."""

    def __init__(self, loop, steps):
        self.loop, self.steps, self.closed = loop, steps, False

    def __iter__(self):
        for delay_ns, piece in self.steps:
            self.loop.sleep_until(self.loop.now_ns() + delay_ns)
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self):
        self.closed = True


class Scripted(httpx2.BaseTransport):
    def __init__(self, loop, steps, status=200, headers=None):
        self.loop, self.steps, self.status = loop, steps, status
        self.headers = {"content-type": "text/event-stream"} | (headers or {})
        self.requests, self.stream = [], None

    def handle_request(self, request):
        request.read()
        self.requests.append(request)
        if self.steps and isinstance(self.steps[0][1], Exception):
            raise self.steps[0][1]
        self.stream = Timed(self.loop, self.steps)
        return httpx2.Response(self.status, headers=self.headers, stream=self.stream)


def send(where, steps, *, call=CALL, cancel_at_ms=None, key=None, **script):
    loop = SimLoop()
    transport = Scripted(loop, steps, **script)
    client = open_openai(loop, where, choose(where), key, transport=transport)
    start_ns = loop.now_ns()
    stream = Stream("w", 0, start_ns)
    ticket = Ticket(id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, scheduled_ns=start_ns)
    replies = []

    def main():
        prepared = client.prepare(call)
        task = loop.spawn(lambda: replies.append(client.send(ticket, prepared, stream)))
        if cancel_at_ms is not None:
            loop.sleep_until(start_ns + cancel_at_ms * MS)
            task.cancel()
        assert task.join()

    loop.run(main)
    client.close()
    return replies[0], stream, start_ns, transport


# What an application over the SDK gets to see instead: it parses the data of every event, also where there is none, drops
# comments, and drops an event without its blank line.
SDK_SEES = {
    "comments_as_data": ("stream_broken", "malformed"),
    "dynamo_annotations": ("stream_broken", "malformed"),
    "dynamo_comment_error": ("stream_broken", "malformed"),
    "error_event": ("stream_broken", "malformed"),
    "no_data": ("stream_broken", "malformed"),
    "no_last_blank_line": ("stream_broken", "no_finish_reason"),
}


@pytest.mark.parametrize("name", NAMES)
def test_every_golden_stream(name):
    data, expected = _STREAMS[name]
    reply, stream, start_ns, _ = send(target(expected), [(20 * MS, piece) for piece in events(data)])

    def at(event):
        return start_ns + 20 * MS * (event + 1)

    say, result = expected["result"], reply.result
    if name in SDK_SEES:
        assert (result.outcome, result.reason) == SDK_SEES[name]
        return
    assert (result.outcome, result.reason, result.message) == (say["outcome"], say.get("reason"), say.get("message"))
    if name != "openrouter_error":  # the SDK raises before it hands over the finish reason beside the error
        assert result.finish_reason == expected["facts"].get("finish_reason")
    assert result.usage == Usage(**say.get("usage", {}))
    assert (result.token_source, result.answer_chunks) == (say.get("token_source"), say.get("answer_chunks", 0))
    assert (result.model, result.upstream) == (expected["facts"].get("model"), expected["facts"].get("upstream"))
    assert {time: getattr(result, f"{time}_ns") for time in TIMES} == {
        time: at(say[time]) if time in say else None for time in TIMES
    }
    assert stream.pending == [at(row[0]) for row in expected["chunks"]]


@pytest.mark.parametrize("name", ["dynamo_comment_error", "error_event", "no_last_blank_line"])
def test_what_came_before_the_sdk_gave_up_counts(name):
    data, expected = _STREAMS[name]
    _, stream, start_ns, transport = send(target(expected), [(20 * MS, piece) for piece in events(data)])
    assert stream.pending == [start_ns + 20 * MS * (row[0] + 1) for row in expected["chunks"]]
    assert len(stream.pending) == 1
    assert transport.stream.closed


PLAIN = Target(url="http://127.0.0.1:8000/v1", model="deepseek-r1")
EVENT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"4"},"finish_reason":null}]}\n\n'
STOP = b'data: {"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
WHOLE = (
    b'{"id":"w","model":"m","choices":[{"index":0,"message":{"role":"assistant","reasoning_content":"Okay","content":"42"},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}'
)


def ended(reply, start_ns):
    result = reply.result
    return result.outcome, result.reason, (result.done_ns - start_ns) // MS


@pytest.mark.parametrize(
    ("status", "body", "outcome", "message"),
    [
        (429, b'{"error":{"message":"slow down","code":"rate_limit"}}', "rate_limited", "slow down"),
        (503, b"", "overloaded", None),
        (500, b"<html><body><h1>Oops</h1></body></html>", "server_error", "Oops"),
        (404, b'{"object":"error","message":"no such model","code":404}', "client_error", "no such model"),
        (302, b"", "client_error", "redirected to http://elsewhere/v1, which is not followed"),
    ],
)
def test_a_refusing_status(status, body, outcome, message):
    headers = {"content-type": "application/json", "retry-after": "7", "location": "http://elsewhere/v1"}
    reply, stream, start_ns, transport = send(PLAIN, [(30 * MS, body)], status=status, headers=headers)
    assert ended(reply, start_ns) == (outcome, f"http_{status}", 30)
    assert (reply.result.message, reply.result.status, reply.result.retry_after_ns) == (message, status, 7_000_000_000)
    assert len(transport.requests) == 1  # never sent again
    assert stream.pending == []


@pytest.mark.parametrize(
    ("steps", "outcome", "reason", "at_ms"),
    [
        pytest.param([(0, httpx2.ConnectError("refused"))], "connect_error", "connect", 0, id="connect"),
        pytest.param([(0, httpx2.ConnectTimeout("slow"))], "timeout", "connect", 0, id="connect timeout"),
        pytest.param([(0, httpx2.RemoteProtocolError("gone"))], "connect_error", "eof", 0, id="closed before the head"),
        pytest.param(
            [(10 * MS, EVENT), (10 * MS, httpx2.RemoteProtocolError("cut"))], "stream_broken", "eof", 20, id="closed within"
        ),
        pytest.param(
            [(10 * MS, EVENT), (10 * MS, STOP), (10 * MS, httpx2.ReadError("cut"))], "ok", None, 30, id="closed behind the end"
        ),
        pytest.param([(70_000 * MS, EVENT)], "timeout", "first_chunk", 60_000, id="first chunk"),
        pytest.param(
            [(10 * MS, EVENT), (9_000 * MS, b": ping\n\n"), (9_000 * MS, EVENT)],
            "timeout",
            "between_chunks",
            10_010,
            id="between",
        ),
        pytest.param([(9_900 * MS, EVENT)] * 20, "timeout", "total", 100_000, id="total"),
    ],
)
def test_broken_exchanges(steps, outcome, reason, at_ms):
    timeouts = Timeouts(first_chunk=Duration.seconds(60), between_chunks=Duration.seconds(10), total=Duration.seconds(100))
    where = Target(url=PLAIN.url, model="m", timeouts=timeouts)
    reply, _, start_ns, transport = send(where, steps)
    assert ended(reply, start_ns) == (outcome, reason, at_ms)
    assert transport.stream is None or transport.stream.closed


@pytest.mark.parametrize(("part", "status"), [("refusal", 500), ("rerouted", 200), ("note_head", 200)])
def test_whatever_a_response_makes_fail_is_the_servers_failure(monkeypatch, part, status):
    def fails(*given):
        raise OverflowError("too large")

    monkeypatch.setattr(type(choose(PLAIN)), part, fails)
    reply, _, _, _ = send(PLAIN, [(0, EVENT), (0, STOP), (0, b"data: [DONE]\n\n")], status=status)
    got = reply.result
    assert (got.outcome, got.reason, got.status) == ("stream_broken", "malformed", status)
    assert got.message.endswith("OverflowError: too large")


def test_the_causes_of_a_failed_connection_have_our_transports_words():
    import socket
    import ssl

    for cause, reason in (
        (socket.gaierror(-2, "unknown"), "dns"),
        (ConnectionRefusedError(), "refused"),
        (ssl.SSLError("bad"), "tls"),
    ):
        error = httpx2.ConnectError("failed")
        error.__cause__ = cause
        reply, _, _, _ = send(PLAIN, [(0, error)])
        assert (reply.result.outcome, reply.result.reason) == ("connect_error", reason)


def test_a_cancelled_request_closes_its_stream_and_replies():
    reply, stream, start_ns, transport = send(PLAIN, [(10 * MS, EVENT), (1_000 * MS, EVENT)], cancel_at_ms=500)
    assert ended(reply, start_ns) == ("cancelled", None, 500)
    assert stream.pending == [start_ns + 10 * MS]
    assert transport.stream.closed


def test_an_answer_that_is_not_streamed():
    where = Target(url=PLAIN.url, model="m", stream=False)
    reply, stream, start_ns, transport = send(where, [(40 * MS, WHOLE)], headers={"content-type": "application/json"})
    assert ended(reply, start_ns) == ("ok", None, 40)
    assert (reply.answer, reply.result.usage, reply.result.streamed) == ("42", Usage(input_tokens=9, output_tokens=3), False)
    assert (stream.first_ns, stream.last_ns) == (0, start_ns + 40 * MS)
    assert "stream" not in json.loads(transport.requests[0].content)


@pytest.mark.parametrize(
    ("pieces", "reason"),
    [
        ([WHOLE[:60], httpx2.RemoteProtocolError("cut")], "eof"),
        ([httpx2.ReadError("cut")], "eof"),  # the head was all that came
        ([WHOLE[:60]], "malformed"),
    ],
)
def test_an_answer_that_is_not_streamed_and_breaks_had_begun(pieces, reason):
    where = Target(url=PLAIN.url, model="m", stream=False)
    steps = [(10 * MS, b""), *((10 * MS, piece) for piece in pieces)]
    reply, _, start_ns, _ = send(where, steps, headers={"content-type": "application/json"})
    assert ended(reply, start_ns) == ("stream_broken", reason, 10 * len(steps))
    assert (reply.result.status, reply.result.head_ns) == (200, start_ns)
    assert "reasoning" not in reply.result.message  # no part of the answer


def test_what_is_sent_is_the_dialects_body_path_and_headers():
    where = Target(
        url="https://res.services.ai.azure.com/models", model="deepseek-r1", provider="azure", headers={"X-Team": "serving"},
        extra_body={"chat_template_kwargs": {"thinking": True}},
    )  # fmt: skip
    _, _, _, transport = send(where, [(0, STOP)], key="secret-key")
    request = transport.requests[0]
    dialect = choose(where)
    assert json.loads(request.content) == dialect.body(where, CALL)
    assert str(request.url) == address(dialect, where)
    assert {name.lower(): value for name, value in dialect.headers(where, "secret-key").items()}.items() <= dict(
        request.headers
    ).items()
    assert "authorization" not in request.headers


def test_no_key_is_no_authorization(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "somebody-else's")
    _, _, _, transport = send(PLAIN, [(0, STOP)])
    assert "authorization" not in transport.requests[0].headers
    _, _, _, transport = send(PLAIN, [(0, STOP)], key="mine")
    assert transport.requests[0].headers["authorization"] == "Bearer mine"


@pytest.mark.parametrize(
    ("host", "pool"),
    [("127.0.0.1:8000", "ConnectionPool"), ("[::1]:8000", "ConnectionPool"), ("localhost", "ConnectionPool"), ("h", "HTTPProxy")],
)
def test_this_machine_is_never_asked_through_a_proxy(monkeypatch, host, pool):
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    where = Target(url=f"http://{host}/v1", model="m", provider="openai")
    client = open_openai(SimLoop(), where, choose(where))
    used = client._sdk._client._transport_for_url(httpx2.URL(where.url))
    assert type(used._pool).__name__ == pool
    client.close()


def test_without_the_sdk_it_is_one_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(UsageError, match=r'needs the openai package.*pip install "r1perf\[openai\]"'):
        open_openai(SimLoop(), PLAIN, choose(PLAIN))


FRESH = """
from r1perf.client.openai import open_openai
from r1perf.loop.sim import SimLoop
from r1perf.providers.registry import choose
from r1perf.target import Target
from openai.types.chat import ChatCompletionChunk
where = Target(url="http://127.0.0.1:8000/v1", model="m")
before = ChatCompletionChunk.__pydantic_complete__
open_openai(SimLoop(), where, choose(where)).close()
print(before, ChatCompletionChunk.__pydantic_complete__)
"""


def test_the_first_request_does_not_pay_for_what_the_sdk_builds_on_first_use():
    done = subprocess.run([sys.executable, "-c", FRESH], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False True\n", "")
