"""The fast engine on virtual time: what it sends, when it gives up, and what each ending comes to."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Loopback

from r1perf.client import Ticket
from r1perf.client.fast import FastClient, open_fast
from r1perf.errors import UsageError
from r1perf.loop.gevent import GeventLoop
from r1perf.loop.sim import SimLoop
from r1perf.providers.registry import choose
from r1perf.result import Outcome, Stream, Usage
from r1perf.target import Call, Message, Target, Timeouts
from r1perf.transport.pool import REST_NS
from r1perf.transport.scripted import DONE, END, EOF, HANG, HEAD, RESET, Script, ScriptedTransport, sse, usage
from r1perf.units import Duration, Tokens

MS, S = 1_000_000, 1_000_000_000
T0 = 1_000_000_000_000  # where a SimLoop begins
TIMEOUTS = Timeouts(Duration(1 * S), Duration(10 * S), Duration(2 * S), Duration(60 * S))
TARGET = Target(url="http://h:8000/v1", model="r1", timeouts=TIMEOUTS)
CALL = Call(messages=(Message("user", "hi"),), model="r1", max_tokens=Tokens(100))
TICKET = Ticket(id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, scheduled_ns=T0 - 5)
THINK = sse("hm", "reasoning_content")


def send(script, target=TARGET, call=CALL, meanwhile=None, **changes):
    """Send one request on virtual time; return the reply, its stream, the transport and the time at the end, in ms."""
    loop = SimLoop()
    target = msgspec.structs.replace(target, **changes)
    transport = ScriptedTransport(loop, [script])
    client = FastClient(loop, target, choose(target), transport, "key")
    stream = Stream("w", 0, T0 - 5)

    def main():
        prepared = client.prepare(call)
        box = []
        task = loop.spawn(lambda: box.append(client.send(TICKET, prepared, stream)))
        if meanwhile is not None:
            meanwhile(loop, task)
        task.join()
        return box[0]

    reply = loop.run(main)
    return reply, stream, transport, (loop.now_ns() - T0) / MS


def ms(stamp):
    return None if stamp is None else (stamp - T0) / MS


def test_a_whole_stream():
    steps = [
        (100 * MS, THINK),
        (20 * MS, THINK + sse("a")),
        (30 * MS, sse("b", finish="stop")),
        (0, usage(7, 4, 2)),
        (5 * MS, DONE),
    ]
    reply, stream, _, end = send(Script(steps, connect_ns=3 * MS))
    got = reply.result
    assert (got.outcome, got.status, got.finish_reason, got.usage) == (Outcome.OK, 200, "stop", Usage(7, 4, 2))
    assert [ms(stamp) for stamp in stream.pending] == [103, 123, 123, 153]
    assert (ms(got.sent_ns), got.connect_ns, ms(got.head_ns)) == (0, 3 * MS, 103)
    stamps = (got.first_ns, got.first_reasoning_ns, got.first_answer_ns, got.last_ns, got.done_ns)
    assert tuple(map(ms, stamps)) == (103, 103, 123, 153, 158)
    assert (got.scheduled_ns, got.answer_chunks, got.local_port, reply.answer) == (T0 - 5, 2, 30_001, None)
    assert end == 158


def test_what_is_sent():
    _, _, transport, _ = send(
        Script(), headers={"X-Team": "serving"}, call=msgspec.structs.replace(CALL, headers={"x-team": "mine"})
    )
    request = transport.requests[0]
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert dict(request.headers) == {
        "Content-Type": "application/json",
        "Accept": "text/event-stream",
        "Authorization": "Bearer key",
        "x-team": "mine",
        "Accept-Encoding": "identity",
    }
    body = msgspec.json.decode(request.body)
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert (body["model"], body["stream"], body["max_tokens"]) == ("r1", True, 100)


def test_a_query_of_the_targets_url_is_sent():
    _, _, transport, _ = send(Script(), url="http://h/models?api-version=1", provider="openai")
    assert transport.requests[0].path == "/models/chat/completions?api-version=1"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-A", "one\r\nX-B: two"),
        ("X A", "1"),
        ("", "1"),
        ("Content-Length", "5"),
        ("transfer-encoding", "chunked"),
        ("X-A", "é"),
    ],
)
def test_a_header_that_cannot_be_written_is_said_before_anything_is_sent(name, value):
    loop = SimLoop()
    client = FastClient(loop, TARGET, choose(TARGET), ScriptedTransport(loop, []))
    with pytest.raises(UsageError):
        client.prepare(msgspec.structs.replace(CALL, headers={name: value}))


A = (100 * MS, sse("a"))
STOP = (0, sse("", finish="stop"))
JSON = {"content-type": "application/json"}
ERROR = b'{"error": {"message": "too many", "code": "slow_down"}}'

# name: (script, outcome, reason, status, the end in ms)
ENDINGS = {
    "ok": (Script([A, STOP, (0, DONE)]), Outcome.OK, None, 200, 100),
    "ok without done": (Script([A, STOP]), Outcome.OK, None, 200, 100),
    "ok, done and no end": (Script([A, STOP, (0, DONE), (0, HANG)]), Outcome.OK, None, 200, 100),
    "ok and empty": (Script([(100 * MS, STOP[1]), (0, DONE)]), Outcome.OK, None, 200, 100),
    "finished, then reset": (Script([A, STOP, (1 * MS, RESET)]), Outcome.OK, None, 200, 101),
    "finished, then silent": (Script([A, STOP, (0, HANG)]), Outcome.OK, None, 200, 2100),
    "truncated": (Script([A, (0, sse("", finish="length"))]), Outcome.TRUNCATED, None, 200, 100),
    "filtered": (Script([A, (0, sse("", finish="content_filter"))]), Outcome.FILTERED, "content_filter", 200, 100),
    "error within": (Script([A, (0, b"data: " + ERROR + b"\n\n"), (0, DONE)]), Outcome.STREAM_ERROR, "slow_down", 200, 100),
    "error as json": (Script([(5 * MS, ERROR)], headers=JSON), Outcome.STREAM_ERROR, "slow_down", 200, 5),
    "aborted": (Script([A, (0, sse("", finish="abort")), (0, DONE)]), Outcome.STREAM_ERROR, "abort", 200, 100),
    "no finish": (Script([A, (0, DONE)]), Outcome.STREAM_BROKEN, "no_finish_reason", 200, 100),
    "empty": (Script([(5 * MS, HEAD)]), Outcome.STREAM_BROKEN, "no_finish_reason", 200, 5),
    "cut": (Script([A, (7 * MS, EOF)]), Outcome.STREAM_BROKEN, "eof", 200, 107),
    "reset": (Script([A, (7 * MS, RESET)]), Outcome.STREAM_BROKEN, "reset", 200, 107),
    "reset unanswered": (Script([(7 * MS, RESET)]), Outcome.CONNECT_ERROR, "reset", None, 7),
    "refused": (Script(refused=True, connect_ns=MS), Outcome.CONNECT_ERROR, "refused", None, 1),
    "429": (Script([(5 * MS, ERROR)], 429, JSON), Outcome.RATE_LIMITED, "http_429", 429, 5),
    "503": (Script([(5 * MS, b"busy")], 503, {}), Outcome.OVERLOADED, "http_503", 503, 5),
    "529": (Script([(5 * MS, b"")], 529, {}), Outcome.OVERLOADED, "http_529", 529, 5),
    "401": (Script([(5 * MS, ERROR)], 401, JSON), Outcome.CLIENT_ERROR, "http_401", 401, 5),
    "500": (Script([(5 * MS, HEAD)], 500, {}), Outcome.SERVER_ERROR, "http_500", 500, 5),
    "500 cut": (Script([(5 * MS, b"half"), (0, RESET)], 500, {}), Outcome.SERVER_ERROR, "http_500", 500, 5),
    "429 without end": (Script([(5 * MS, b"half"), (0, HANG)], 429, {}), Outcome.RATE_LIMITED, "http_429", 429, 10_000),
    "no head": (Script([(0, HANG)]), Outcome.TIMEOUT, "first_chunk", None, 10_000),
    "only a head": (Script([(0, HEAD), (0, HANG)]), Outcome.TIMEOUT, "first_chunk", 200, 10_000),
    "stalled": (Script([A, (0, HANG)]), Outcome.TIMEOUT, "between_chunks", 200, 2100),
    "just in time": (Script([A, (1999 * MS, sse("b")), (1999 * MS, sse("c", finish="stop"))]), Outcome.OK, None, 200, 4098),
    "first chunk just in time": (Script([(9999 * MS, sse("a", finish="stop"))]), Outcome.OK, None, 200, 9999),
    "without end": (Script([(1000 * MS, sse("a"))] * 99), Outcome.TIMEOUT, "total", 200, 60_000),
    "keep-alives first": (Script([(1000 * MS, b": ping\n\n")] * 99), Outcome.TIMEOUT, "first_chunk", 200, 10_000),
    "role first": (Script([(0, sse("")), (0, HANG)]), Outcome.TIMEOUT, "first_chunk", 200, 10_000),
    "keep-alives between": (Script([A, *[(1000 * MS, b": ping\n\n")] * 99]), Outcome.TIMEOUT, "between_chunks", 200, 2100),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_outcomes(name):
    script, outcome, reason, status, end_ms = ENDINGS[name]
    reply, _, transport, end = send(script)
    got = reply.result
    assert (got.outcome, got.reason, got.status, ms(got.done_ns), end) == (outcome, reason, status, end_ms, end_ms)
    assert transport.open == 0
    assert len(transport.requests) == 1


def test_what_came_before_a_failure_is_kept():
    reply, stream, _, _ = send(Script([(100 * MS, THINK), (20 * MS, sse("a")), (5 * MS, RESET)]))
    got = reply.result
    assert ([ms(stamp) for stamp in stream.pending], ms(got.first_answer_ns), ms(got.last_ns)) == ([100, 120], 120, 120)
    assert (got.usage, got.token_source, ms(got.head_ns), got.local_port) == (Usage(None, 2), "chunks", 100, 30_001)


def test_what_the_end_of_the_body_brings_has_the_stamp_of_its_read():
    _, stream, _, _ = send(Script([(100 * MS, sse("a", finish="stop").rstrip()), (50 * MS, END)]))
    assert [ms(stamp) for stamp in stream.pending] == [100]


def test_a_refusal_says_what_the_server_says():
    reply, _, _, _ = send(Script([(0, ERROR)], 429, {**JSON, "retry-after": "3", "x-request-id": "abc"}))
    got = reply.result
    assert (got.message, got.retry_after_ns, got.request_id) == ("too many", 3 * S, "abc")
    assert (got.usage, got.token_source, got.first_ns) == (Usage(), None, None)


def cancel_at(when_ms):
    def cancel(loop, task):
        loop.sleep_until(T0 + when_ms * MS)
        task.cancel()

    return cancel


@pytest.mark.parametrize(("when_ms", "outcome"), [(50, Outcome.CANCELLED), (150, Outcome.CANCELLED), (250, Outcome.OK)])
def test_a_cancelled_request_returns_its_reply(when_ms, outcome):
    script = Script([A, (100 * MS, sse("b", finish="stop")), (0, HANG)])
    reply, stream, transport, end = send(script, meanwhile=cancel_at(when_ms))
    assert (reply.result.outcome, reply.result.reason, end, transport.open) == (outcome, None, when_ms, 0)
    assert len(stream.pending) == when_ms // 100


def test_an_order_of_exact_length():
    call = msgspec.structs.replace(CALL, output_tokens=Tokens(2))
    script = Script([A, (0, sse("b", finish="length")), (0, usage(1, 2)), (0, DONE)])
    got = send(script, call=call, provider="vllm")[0].result
    assert (got.outcome, got.length_ordered, got.length_mismatch) == (Outcome.OK, 2, False)


def test_a_pinned_upstream_that_differs_is_rerouted():
    pin = {"provider": {"order": ["deepinfra"], "allow_fallbacks": False}}
    event = b'data: {"provider":"%s","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}\n\n'
    for upstream, outcome in ((b"DeepInfra", Outcome.OK), (b"Novita", Outcome.REROUTED)):
        got = send(Script([(0, event % upstream), (0, DONE)]), provider="openrouter", extra_body=pin)[0].result
        assert (got.outcome, got.upstream) == (outcome, upstream.decode())


WHOLE = msgspec.json.encode({
    "id": "x", "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 5},
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "four", "reasoning_content": "hm"}}],
})  # fmt: skip


def test_not_streamed():
    call = msgspec.structs.replace(CALL, keep_answer=3)
    reply, stream, transport, _ = send(Script([(30 * S, WHOLE[:40]), (3 * S, WHOLE[40:])], headers=JSON), call=call, stream=False)
    got = reply.result
    assert (got.outcome, got.streamed, got.usage, got.token_source) == (Outcome.OK, False, Usage(3, 5), "server")
    assert (got.first_ns, got.first_answer_ns, ms(got.last_ns), stream.pending) == (None, None, 33_000, [])
    assert (reply.answer, got.answer_chunks, got.reasoning_hidden) == ("fou", 1, False)
    assert dict(transport.requests[0].headers)["Accept"] == "application/json"


def test_not_streamed_has_the_total_timeout_only():
    got = send(Script([(0, HANG)]), stream=False)[0].result
    assert (got.outcome, got.reason, ms(got.done_ns), got.last_ns) == (Outcome.TIMEOUT, "total", 60_000, None)


def test_one_object_in_place_of_a_stream_is_not_taken_for_one():
    got, stream = send(Script([(30 * MS, WHOLE)], headers=JSON))[0].result, None
    assert (got.outcome, got.streamed, got.first_ns, ms(got.last_ns), stream) == (Outcome.OK, False, None, 30, None)


def test_the_answer_is_kept_up_to_what_was_asked():
    call = msgspec.structs.replace(CALL, keep_answer=4)
    assert send(Script([(0, THINK), (0, sse("abc")), (0, sse("def", finish="stop"))]), call=call)[0].answer == "abcd"


STREAM = THINK + sse("<b>é", finish=None) + b": ping\n\n" + sse("ü") + sse("", finish="stop") + usage(3, 4, 1) + DONE


@given(st.lists(st.integers(1, len(STREAM) - 1), max_size=20))
def test_any_split_gives_the_same_result(places):
    edges = [0, *sorted(set(places)), len(STREAM)]
    steps = [(0, STREAM[a:b]) for a, b in zip(edges, edges[1:], strict=False)]  # noqa: RUF007
    call = msgspec.structs.replace(CALL, keep_answer=100)
    reply, stream, _, _ = send(Script(steps), call=call)
    whole, whole_stream, _, _ = send(Script([(0, STREAM)]), call=call)
    assert (reply, stream.pending) == (whole, whole_stream.pending)
    assert (reply.answer, len(stream.pending)) == ("<b>éü", 3)


def test_an_endless_or_malformed_answer_is_the_servers_failure():
    class Odd(ScriptedTransport):
        def exchange(self, request, receiver):
            receiver.on_head(0, 200, {})
            raise ValueError("odd")

    loop = SimLoop()
    client = FastClient(loop, TARGET, choose(TARGET), Odd(loop, []))
    got = loop.run(lambda: client.send(TICKET, client.prepare(CALL), Stream("w", 0, T0))).result
    assert (got.outcome, got.reason) == (Outcome.STREAM_BROKEN, "malformed")


@pytest.mark.parametrize("error", [OverflowError("too large"), KeyError("x"), RecursionError("deep"), TypeError("no text")])
@pytest.mark.parametrize("part", ["note_head", "feed", "rerouted", "retry_after_ns"])
def test_whatever_a_response_makes_fail_is_the_servers_failure(monkeypatch, part, error):
    def fails(*given):
        raise error

    if part == "retry_after_ns":
        monkeypatch.setattr("r1perf.client.reading.retry_after_ns", lambda headers: fails() if headers else None)
    else:
        dialect = choose(TARGET)
        monkeypatch.setattr(type(dialect.decoder(TARGET) if part == "feed" else dialect), part, fails)
    reply, _, transport, _ = send(Script([A, STOP, (0, DONE)], headers={"x": "y"}))
    got = reply.result
    assert (got.outcome, got.reason, got.status) == (Outcome.STREAM_BROKEN, "malformed", 200)
    assert got.message == f"the response cannot be read: {type(error).__name__}: {error}"
    assert transport.open == 0


def test_over_real_sockets(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    def handle(peer):
        while peer.request():
            peer.send(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(STREAM), STREAM))

    loop = GeventLoop()
    with Loopback(handle) as server:
        target = Target(url=f"http://127.0.0.1:{server.port}/v1", model="r1")
        client = open_fast(loop, target, choose(target))
        prepared, results = client.prepare(CALL), []
        for _ in range(3):
            stream = Stream("w", 0, loop.now_ns())
            results.append(client.send(TICKET, prepared, stream).result)
            assert len(stream.pending) == 3
            loop.sleep_until(loop.now_ns() + REST_NS)
        client.close()
        assert [got.outcome for got in results] == [Outcome.OK] * 3
        assert [got.connect_ns is None for got in results] == [False, True, True]
        assert all(got.sent_ns < got.head_ns <= got.first_ns <= got.last_ns <= got.done_ns for got in results)
        assert (server.connections, len(server.requests)) == (1, 3)
        assert server.requests[0].startswith(b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:")


def test_a_connect_timeout_is_never_longer_than_the_whole():
    target = msgspec.structs.replace(TARGET, timeouts=Timeouts(connect=Duration(9 * S), total=Duration(2 * S)))
    client = open_fast(GeventLoop(), target, choose(target))
    assert client._transport._connector._timeout_ns == 2 * S
    client.close()
