"""The other engine: the openai SDK, unmodified, for what an application of one's own would see, and as a cross-check.

Both engines meet at decoded events: what the SDK parsed goes through the dialect's own `Decoder.read`, and `Reading` makes the
same Stream and Result of it. What differs is the SDK's own, and stays visible:

- a chunk is stamped when the SDK hands it over, after its parsing; chunks of one read have stamps of their own;
- `connect_ns` and `local_port` are unknown, and a parsed stream never uses its connection again;
- data that is not JSON ends the stream with an exception: `stream_broken`, reason `malformed`;
- comments are dropped, so an error that is only a comment (Dynamo) is no error but a missing finish_reason or `malformed`.

The SDK never retries here (a retry is a second paid request and hides a failure), follows no redirect, and has no cap on its
connections. It blocks on sockets, so it needs a worker whose sockets are patched. The SDK knows no total timeout: each request
runs in a task of its own that is cancelled when a deadline passes.
"""

import json
import socket
import ssl
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import msgspec

from r1perf import open_files
from r1perf.client import Reply, Ticket
from r1perf.client.ending import Ending, unreadable
from r1perf.client.reading import Order, Reading
from r1perf.errors import UsageError
from r1perf.loop import Cancelled, Loop
from r1perf.providers import Decoder, Dialect, Facts
from r1perf.providers.registry import address
from r1perf.providers.says import shorten, unread
from r1perf.result import Outcome, Stream
from r1perf.target import Call, Target
from r1perf.transport.origin import is_loopback, parse_origin

if TYPE_CHECKING:
    import httpx2
    import openai

_EXCHANGE: ContextVar["_Exchange"] = ContextVar("_EXCHANGE")
"""The exchange of the task that runs: each task has a context of its own."""

_IDLE_SECONDS = 4.0  # a server's keep-alive timeout is 5 s at the least that is common


class Rendered(msgspec.Struct, frozen=True):
    """A call as arguments of the SDK's `create`, and what it ordered."""

    arguments: dict[str, Any]
    order: Order
    call: Call


class OpenAIClient:
    """A `Client` over `openai.OpenAI`."""

    def __init__(self, loop: Loop, target: Target, dialect: Dialect, sdk: "openai.OpenAI", headers: dict[str, Any]) -> None:
        self._loop = loop
        self._target = target
        self._dialect = dialect
        self._sdk = sdk
        self._headers = headers  # of every request, as the SDK takes them
        self._question = _question(target)
        self._create = _create(sdk, target)

    def prepare(self, call: Call) -> Rendered:
        """Render a call: what the SDK insists on by name, all the rest as its `extra_body`."""
        body = self._dialect.body(self._target, call)
        named = {name: body.pop(name) for name in ("model", self._question, "stream") if name in body}
        length = None if call.output_tokens is None else int(call.output_tokens)
        arguments = {**named, "extra_body": body, "extra_headers": self._headers | call.headers}
        return Rendered(arguments, Order(self._target.stream, call.keep_answer, length), call)

    def send(self, ticket: Ticket, prepared: Rendered, stream: Stream) -> Reply:
        """Send once, wait for the end, and return what came of it; see `Client`."""
        stream.sent_ns = self._loop.now_ns()
        exchange = _Exchange(self._loop, self._dialect, self._dialect.decoder(self._target), Reading(stream, prepared.order))
        task = self._loop.spawn(exchange.run, self._create, prepared.arguments)
        try:
            late_ns = self._deadline_ns(stream)[0]
            # Never asleep for longer than between_chunks: a first chunk may come meanwhile and bring an earlier deadline.
            while not task.join(min(late_ns, self._loop.now_ns() + self._target.timeouts.between_chunks)):
                late_ns, reason = self._deadline_ns(stream)
                if late_ns <= self._loop.now_ns():
                    task.cancel()
                    task.join()
                    exchange.end(Outcome.TIMEOUT, reason, f"the response took longer than timeouts.{reason}")
                    break
        except Cancelled:
            task.cancel()
            task.join()
            exchange.end(Outcome.CANCELLED, None, None)
        return exchange.reply(ticket, self._target, prepared.call)

    def _deadline_ns(self, stream: Stream) -> tuple[int, str]:
        """Return by when the next output chunk, or the whole answer, must have come, and the reason word if it does not."""
        timeouts = self._target.timeouts
        late = stream.sent_ns + timeouts.total, "total"
        if not self._target.stream:
            return late
        if stream.last_ns:
            return min(late, (stream.last_ns + timeouts.between_chunks, "between_chunks"))
        return min(late, (stream.sent_ns + timeouts.first_chunk, "first_chunk"))

    def close(self) -> None:
        """Close every connection."""
        self._sdk.close()


def open_openai(
    loop: Loop, target: Target, dialect: Dialect, key: str | None = None, *, transport: "httpx2.BaseTransport | None" = None
) -> OpenAIClient:
    """Make the SDK engine; raises UsageError where the SDK is not installed. `transport` takes the network's place in tests."""
    try:
        import httpx2
        import openai
    except ImportError as error:
        says = f'`target.engine = "openai"` needs the openai package, version 3 or later: pip install "r1perf[openai]" ({error})'
        raise UsageError(says) from error
    open_files.allow()
    scheme, host, path, query, _ = urlsplit(address(dialect, target))
    headers = dialect.headers(target, key)
    # The SDK would send its api_key, which another header may carry or nobody has.
    unkeyed = {} if any(name.lower() == "authorization" for name in headers) else {"Authorization": openai.Omit()}
    if target.stream and not any(name.lower() == "accept-encoding" for name in headers):
        headers["Accept-Encoding"] = "identity"  # a compressor may hold chunks back; the fast engine asks for the same
    seconds = target.timeouts.total / 1e9
    timeout = httpx2.Timeout(seconds, connect=min(target.timeouts.connect / 1e9, seconds), pool=None)
    origin = parse_origin(target.url)
    # As in the fast engine, no proxy of the environment for this machine itself: a more precise pattern wins.
    direct = {f"all://{origin.address.rpartition(':')[0]}": None} if is_loopback(origin.host) else None
    http_client = httpx2.Client(
        verify=target.verify_tls,
        transport=transport,
        mounts=direct,
        timeout=timeout,
        follow_redirects=False,
        event_hooks={"response": [_note_head]},
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=_IDLE_SECONDS),
    )
    sdk = openai.OpenAI(
        api_key=key or "none",
        base_url=urlunsplit((scheme, host, path.removesuffix(f"/{target.endpoint}"), "", "")),
        default_query=dict(parse_qsl(query)),
        default_headers=headers,
        max_retries=0,
        timeout=timeout,
        http_client=http_client,
    )
    _warm_up(sdk, target, unkeyed)
    return OpenAIClient(loop, target, dialect, sdk, unkeyed)


def _question(target: Target) -> str:
    return "messages" if target.endpoint == "chat/completions" else "prompt"


def _create(sdk: "openai.OpenAI", target: Target) -> Callable[..., Any]:
    """Return the SDK's call that asks the target's endpoint; where it does not stream, the one that shows the head too."""
    resource: Any = sdk.chat.completions if target.endpoint == "chat/completions" else sdk.completions
    call: Callable[..., Any] = resource.create if target.stream else resource.with_raw_response.create
    return call


def _warm_up(sdk: "openai.OpenAI", target: Target, headers: dict[str, Any]) -> None:
    """Read a canned answer, without a network: what the SDK loads and builds on first use takes 0.1 s, and would delay requests."""
    import httpx2

    body = b'{"id":"","choices":[{"index":0,"delta":{"content":"."},"message":{"content":"."},"text":"."}]}'
    kind = "application/json"
    if target.stream:
        body, kind = b"data: %b\n\ndata: [DONE]\n\n" % body, "text/event-stream"
    canned = httpx2.Response(200, headers={"Content-Type": kind}, content=body)
    with sdk.copy(http_client=httpx2.Client(transport=httpx2.MockTransport(lambda request: canned))) as warm:
        stream = {"stream": True} if target.stream else {}
        question = [{"role": "user", "content": "."}] if _question(target) == "messages" else "."
        answer = _create(warm, target)(model=".", extra_headers=headers, **{_question(target): question}, **stream)
        for event in answer if target.stream else (answer.parse(),):
            event.to_dict(warnings=False)


def _note_head(response: "httpx2.Response") -> None:
    """Take a response's head when it comes: where the answer is not streamed the SDK shows it only with the whole body."""
    _EXCHANGE.get()._head(response)


class _Exchange:
    """One request in the SDK's hands; `run` is its task, and never raises but `Cancelled`."""

    def __init__(self, loop: Loop, dialect: Dialect, decoder: Decoder, reading: Reading) -> None:
        self._loop = loop
        self._dialect = dialect
        self._decoder = decoder
        self._reading = reading
        self._outcome: tuple[Outcome | None, str | None, str | None] = (None, None, None)
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._head_ns: int | None = None
        self._done_ns = 0

    def run(self, create: Callable[..., Any], arguments: dict[str, Any]) -> None:
        """Send, read to the end, and keep what happened."""
        _EXCHANGE.set(self)
        try:
            self._read(create, arguments)
        except Exception as error:  # noqa: BLE001 - whatever an application of one's own would have to catch
            self.end(Outcome.STREAM_BROKEN, "malformed", shorten(f"the SDK raised {type(error).__name__}: {error}"))
        self._done_ns = self._done_ns or self._loop.now_ns()

    def _read(self, create: Callable[..., Any], arguments: dict[str, Any]) -> None:
        import openai

        try:
            for event in self._events(create, arguments):
                chunks = self._decoder.read(event)
                self._reading.take(self._loop.now_ns(), chunks)
        except openai.APIStatusError as error:
            self.end(*self._dialect.refusal(error.status_code, self._headers, error.response.content))
        except openai.APIConnectionError as error:
            self.end(*self._broken(error))
        except openai.APIError as error:  # the SDK raises on an error object inside the stream
            self._decoder.read({"error": error.body or error.message})
        except json.JSONDecodeError as error:
            self.end(Outcome.STREAM_BROKEN, "malformed", f"the SDK cannot read the response: {error.msg}: {unread(error.doc)}")

    def _events(self, create: Callable[..., Any], arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Give each event as the SDK parsed it."""
        answer = create(**arguments)
        if "stream" not in arguments:
            whole = answer.parse()
            yield (
                {"error": f"the answer is not JSON: {unread(whole)}"} if isinstance(whole, str) else whole.to_dict(warnings=False)
            )
            return
        try:
            for event in answer:
                yield event.to_dict(warnings=False)
        finally:
            answer.close()

    def _head(self, response: "httpx2.Response") -> None:
        """Note the response's head."""
        self._head_ns, self._status = self._loop.now_ns(), response.status_code
        self._headers = {name.lower(): value for name, value in response.headers.items()}
        if response.is_success:
            self._dialect.note_head(self._headers, self._decoder.facts)

    def end(self, outcome: Outcome, reason: str | None, message: str | None) -> None:
        """Set how the exchange ended, unless the response had its end already."""
        if not self._done_ns:
            self._outcome = outcome, reason, message
            self._done_ns = self._loop.now_ns()

    def _broken(self, error: "openai.APIConnectionError") -> tuple[Outcome, str, str]:
        """Read a failed connection out of the chain of causes, in the words of our own transport."""
        import httpx2

        causes = list(_causes(error))
        says = shorten(str(causes[-1]) or type(causes[-1]).__name__)
        if isinstance(error.__cause__, httpx2.TimeoutException):
            reason = "connect" if isinstance(error.__cause__, httpx2.ConnectTimeout) else "total"
            return Outcome.TIMEOUT, reason, f"the response took longer than timeouts.{reason}"
        reset = any(isinstance(cause, ConnectionResetError | BrokenPipeError) for cause in causes)
        if self._head_ns is not None:
            return Outcome.STREAM_BROKEN, "reset" if reset else "eof", says
        if any(isinstance(cause, socket.gaierror) for cause in causes):
            reason = "dns"
        elif any(isinstance(cause, ConnectionRefusedError) for cause in causes):
            reason = "refused"
        elif any(isinstance(cause, ssl.SSLError) for cause in causes):
            reason = "tls"
        elif reset:
            reason = "reset"
        else:
            reason = "eof" if isinstance(error.__cause__, httpx2.RemoteProtocolError) else "connect"
        return Outcome.CONNECT_ERROR, reason, says

    def reply(self, ticket: Ticket, target: Target, call: Call) -> Reply:
        """Make the reply of an exchange that is over; where what the server said of itself cannot be read, one that says so."""
        facts = self._decoder.facts
        try:
            return self._reading.reply(ticket, self._ending(self._outcome), facts, self._dialect.rerouted(target, call, facts))
        except Exception as error:  # noqa: BLE001 - one odd answer must not end a run
            self._headers = {}
            return self._reading.reply(ticket, self._ending(unreadable(error)), Facts())

    def _ending(self, end: tuple[Outcome | None, str | None, str | None]) -> Ending:
        outcome, reason, message = end
        return Ending(
            done_ns=self._done_ns or self._loop.now_ns(),
            outcome=outcome,
            reason=reason,
            message=message,
            status=self._status,
            headers=self._headers,
            head_ns=self._head_ns,
        )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Go down the chain of causes."""
    seen: BaseException | None = error
    while seen is not None:
        yield seen
        seen = seen.__cause__ or seen.__context__
