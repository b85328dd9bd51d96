"""The fast engine: our own transport, the dialect's decoder fed straight from the callback that read.

Deadlines: `first_chunk` runs from `sent_ns` until the first output chunk, then `between_chunks` from the last output chunk on;
keep-alive comments, empty deltas and bare bytes count for neither, since a proxy sends them for an engine that has stalled.
`total` runs from `sent_ns`; where the answer is not streamed it is the only one.
"""

from urllib.parse import urlsplit, urlunsplit

import msgspec

from r1perf.client import Reply, Ticket
from r1perf.client.ending import Ending, failed, unreadable
from r1perf.client.reading import Order, Reading
from r1perf.errors import TransportError
from r1perf.loop import Cancelled, Loop
from r1perf.providers import Chunk, Decoder, Dialect, Facts
from r1perf.providers.registry import address
from r1perf.result import Outcome, Stream
from r1perf.target import Call, Target, Timeouts
from r1perf.transport import HttpRequest, Transport
from r1perf.transport.http import HttpTransport
from r1perf.transport.request import check

_End = tuple[Outcome | None, str | None, str | None]  # outcome, reason, message, as `Ending` has them

REFUSAL_BYTES = 65536
"""How much of a refusing response's body is kept for its message."""


class Rendered(msgspec.Struct, frozen=True):
    """A call as it goes over the wire, and what it ordered."""

    request: HttpRequest
    order: Order
    call: Call


class FastClient:
    """A `Client` over any `Transport`."""

    def __init__(self, loop: Loop, target: Target, dialect: Dialect, transport: Transport, key: str | None = None) -> None:
        self._loop = loop
        self._target = target
        self._dialect = dialect
        self._transport = transport
        self._path = urlunsplit(("", "", *urlsplit(address(dialect, target))[2:4], ""))
        self._headers = dialect.headers(target, key)
        self._encode = msgspec.json.Encoder().encode

    def prepare(self, call: Call) -> Rendered:
        """Render a call; raises UsageError where a header or the path cannot be written."""
        headers = {**_lowered(self._headers), **_lowered(call.headers)}
        if self._target.stream:
            headers.setdefault("accept-encoding", ("Accept-Encoding", "identity"))  # a compressor may hold chunks back
        body = self._encode(self._dialect.body(self._target, call))
        request = HttpRequest("POST", self._path, tuple(headers.values()), body)
        check(request)
        length = None if call.output_tokens is None else int(call.output_tokens)
        return Rendered(request, Order(self._target.stream, call.keep_answer, length), call)

    def send(self, ticket: Ticket, prepared: Rendered, stream: Stream) -> Reply:
        """Send once, wait for the end, and return what came of it; see `Client`."""
        now_ns = self._loop.now_ns
        stream.sent_ns = now_ns()
        receiver = _Receiver(self._loop, self._target, self._dialect, Reading(stream, prepared.order))
        end: _End = (None, None, None)
        done_ns = 0
        try:
            done_ns = self._transport.exchange(prepared.request, receiver).done_ns
        except TransportError as error:
            end = failed(error)
        except Cancelled:
            end = Outcome.CANCELLED, None, None
        except Exception as error:  # noqa: BLE001 - a decoder met what no server should send
            end = unreadable(error)
        return receiver.reply(ticket, prepared.call, end, done_ns or now_ns())

    def close(self) -> None:
        """Close every connection."""
        self._transport.close()


def open_fast(loop: Loop, target: Target, dialect: Dialect, key: str | None = None) -> FastClient:
    """Make the fast engine over HTTP; raises TargetError where the target's URL or the environment's proxy cannot be used."""
    return FastClient(loop, target, dialect, HttpTransport.of(loop, target), key)


class _Receiver:
    """Takes one response: a 2xx by the dialect's decoder, any other as the text of a refusal."""

    __slots__ = (
        "_connect_ns", "_decoder", "_dialect", "_facts", "_feed", "_head_ns", "_headers", "_local_port", "_loop", "_read_ns", "_reading",
        "_refusal", "_status", "_stream", "_take", "_target", "_timeouts",
    )  # fmt: skip

    def __init__(self, loop: Loop, target: Target, dialect: Dialect, reading: Reading) -> None:
        self._loop = loop
        self._target = target
        self._timeouts: Timeouts = target.timeouts
        self._dialect = dialect
        self._reading = reading
        self._stream = reading.stream
        self._take = reading.take
        self._decoder: Decoder | None = None
        self._facts = Facts()
        self._refusal = _Refusal()
        self._feed = self._refusal.feed
        self._connect_ns: int | None = None
        self._local_port: int | None = None
        self._status: int | None = None
        self._headers: dict[str, str] = {}
        self._head_ns: int | None = None
        self._read_ns = 0

    def on_connection(self, connect_ns: int | None, local_port: int) -> None:
        """Note the connection, also for a request that fails later."""
        self._connect_ns, self._local_port = connect_ns, local_port

    def on_head(self, now_ns: int, status: int, headers: dict[str, str]) -> None:
        """Begin to decode."""
        self._head_ns, self._status, self._headers = now_ns, status, headers
        if 200 <= status < 300:
            self._decoder = self._dialect.decoder(self._target)
            self._facts = self._decoder.facts
            self._feed = self._decoder.feed
            self._dialect.note_head(headers, self._facts)

    def on_body(self, now_ns: int, data: bytes) -> bool:
        """Decode, stamp and count the chunks of one read: the hot path."""
        self._read_ns = now_ns
        chunks = self._feed(data)
        if chunks:
            self._take(now_ns, chunks)
        return self._facts.done

    def deadline_ns(self) -> tuple[int, str]:
        """Return when the exchange is late, but never later than `between_chunks` from now: a first chunk may come meanwhile."""
        timeouts, sent_ns, last_ns = self._timeouts, self._stream.sent_ns, self._stream.last_ns
        late = sent_ns + timeouts.total, "total"
        if not self._target.stream:
            return late
        part = (
            (last_ns + timeouts.between_chunks, "between_chunks") if last_ns else (sent_ns + timeouts.first_chunk, "first_chunk")
        )
        return min(part, late, (self._loop.now_ns() + timeouts.between_chunks, part[1]))

    def reply(self, ticket: Ticket, call: Call, end: _End, done_ns: int) -> Reply:
        """Make the reply of an exchange that is over; where what the server said of itself cannot be read, one that says so."""
        try:
            return self._reply(ticket, call, end, done_ns)
        except Exception as error:  # noqa: BLE001 - one odd answer must not end a run
            self._headers = {}
            return self._reading.reply(ticket, self._ending(unreadable(error), done_ns), Facts())

    def _reply(self, ticket: Ticket, call: Call, end: _End, done_ns: int) -> Reply:
        reading, facts = self._reading, self._facts
        rerouted = None
        if self._decoder is not None:
            if facts.whole:
                reading.whole()
            try:
                reading.take(self._read_ns, self._decoder.end())  # stamped with the read that brought it
            except Exception as error:  # noqa: BLE001 - as in `send`
                if end[0] is None:
                    end = unreadable(error)
            rerouted = self._dialect.rerouted(self._target, call, facts)
        elif self._status is not None and end[0] in (None, Outcome.STREAM_BROKEN, Outcome.TIMEOUT):
            end = self._dialect.refusal(
                self._status, self._headers, self._refusal.body
            )  # the status tells more than its body's end
        return reading.reply(ticket, self._ending(end, done_ns), facts, rerouted)

    def _ending(self, end: _End, done_ns: int) -> Ending:
        return Ending(
            done_ns=done_ns,
            outcome=end[0],
            reason=end[1],
            message=end[2],
            status=self._status,
            headers=self._headers,
            head_ns=self._head_ns,
            connect_ns=self._connect_ns,
            local_port=self._local_port,
        )


class _Refusal:
    """Keeps the beginning of a body that is no answer."""

    __slots__ = ("body",)

    def __init__(self) -> None:
        self.body = b""

    def feed(self, data: bytes) -> list[Chunk]:
        self.body += data[: REFUSAL_BYTES - len(self.body)]
        return []


def _lowered(headers: dict[str, str]) -> dict[str, tuple[str, str]]:
    """Key headers by their lower-case name, so that a later one replaces an earlier one however it is written."""
    return {name.lower(): (name, value) for name, value in headers.items()}
