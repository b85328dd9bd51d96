"""One open connection: the callback that reads, stamps and parses, and the wait of the task that sent."""

import _socket  # the plain C socket, whatever was monkey-patched: it never blocks, so there is nothing to patch
import contextlib
import ssl
from functools import partial

from r1perf.errors import TransportError
from r1perf.loop import READ, WRITE, Event, Loop
from r1perf.transport import Receiver
from r1perf.transport.response import Response
from r1perf.transport.tls import Tls

READ_BYTES = 65536
GRACE_NS = 250_000_000
"""How long the end of the framing is waited for behind the end of the answer, so that the connection can be used again."""


class Connection:
    """A connected socket, with TLS or without; carries one exchange at a time."""

    __slots__ = (
        "_event", "_failure", "_graced", "_loop", "_now_ns", "_recv", "_response", "_sock", "_tls", "_unsent", "_watch", "chunked",
        "closed", "idle_since_ns", "local_port", "used",
    )  # fmt: skip

    def __init__(self, loop: Loop, sock: _socket.socket, tls: Tls | None = None) -> None:
        self._loop = loop
        self._now_ns = loop.now_ns
        self._sock = sock
        self._recv = partial(sock.recv, READ_BYTES)
        self._tls = tls
        self._watch = loop.watch(sock.fileno(), self._ready)
        self._unsent: memoryview | None = None
        self._event: Event | None = None
        self._response: Response | None = None
        self._failure: BaseException | None = None
        self._graced = False  # the answer is over, and the end of the framing waited for
        self.local_port: int = sock.getsockname()[1]
        self.used = False  # it carried an exchange before
        self.chunked = False  # whose response came in chunks
        self.idle_since_ns = 0
        self.closed = False

    def exchange(self, payload: bytes, response: Response, receiver: Receiver) -> bool:
        """Send, wait for the end, return whether the connection may be used again; raises TransportError and what the receiver raises.

        The caller closes the connection after any exception.
        """
        event = self._event = self._loop.event()
        self._response, self._graced = response, False
        try:
            self._send(payload if self._tls is None else self._encrypt(self._tls, payload))
            del payload  # a long prompt is not kept while its answer streams
            self._watch.start(READ if self._unsent is None else READ | WRITE)
            self._wait(event, response, receiver)
        finally:
            self._watch.stop()
            self._response = self._event = None
            response.release()
        self.used, self.chunked = True, response.chunked
        return response.complete and response.keep_alive and self._unsent is None and self._failure is None

    def _encrypt(self, tls: Tls, payload: bytes) -> bytes:
        try:
            return tls.encrypt(payload)
        except ssl.SSLError as error:
            raise self._tls_failure(error) from error

    def _wait(self, event: Event, response: Response, receiver: Receiver) -> None:
        until_ns, reason = receiver.deadline_ns()
        while not event.wait(until_ns):
            until_ns, reason = receiver.deadline_ns()
            if until_ns <= self._now_ns():
                raise TransportError("timeout", reason, f"the response took longer than timeouts.{reason}")
        if self._failure is None and not response.complete:  # answered, but the framing goes on
            self._graced = True
            event.clear()
            event.wait(response.done_ns + GRACE_NS)
        if self._failure is not None and not response.answered:
            raise self._failure

    def _ready(self) -> None:
        """Do all that the descriptor allows: this is the hot path, once a read."""
        response, event = self._response, self._event
        if response is None or event is None:
            self._watch.stop()
            return
        try:
            if self._unsent is not None:
                self._flush()
            try:
                data = self._recv()
            except BlockingIOError:
                return
            now_ns = self._now_ns()
            ended = not data
            if self._tls is not None:
                data = self._tls.decrypt(data)
                ended = ended or self._tls.closed
                answer = self._tls.outgoing()  # a key update, seldom
                if answer:
                    self._send(answer)
                    self._watch.start(READ if self._unsent is None else READ | WRITE)
            if data:
                response.feed(now_ns, data)
            if ended:
                if not response.started:
                    raise self._unanswered("eof", "closed")
                response.end(now_ns)
            if response.complete or (response.answered and not self._graced):
                event.set()
        except ssl.SSLError as error:
            self._fail(self._tls_failure(error), event)
        except OSError as error:
            failure = self._unanswered("reset", "reset")
            if response.started:
                failure = TransportError("stream_broken", "reset", "the connection was reset within the response")
            failure.__cause__ = error
            self._fail(failure, event)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the task waits
            self._fail(error, event)

    def _fail(self, failure: BaseException, event: Event) -> None:
        """End the exchange with a failure; one that comes behind the end of the response is the connection's alone."""
        self._watch.stop()
        if event.is_set() and self._response is not None and self._response.complete:
            self._response.keep_alive = False
        else:
            self._failure = failure
            event.set()

    def _unanswered(self, reason: str, how: str) -> TransportError:
        """Say that no byte of a response came: on a reused connection the server had most likely closed it already."""
        if self.used:
            return TransportError("connect_error", "stale_connection", f"the reused connection was {how} before any response")
        return TransportError("connect_error", reason, f"the new connection was {how} before any response")

    def _tls_failure(self, error: ssl.SSLError) -> TransportError:
        says = f"the TLS connection failed: {(error.reason or str(error)).lower().replace('_', ' ')}"
        begun = self._response is not None and self._response.started
        failure = TransportError("stream_broken", "protocol", says) if begun else TransportError("connect_error", "tls", says)
        failure.__cause__ = error
        return failure

    def _send(self, data: bytes) -> None:
        """Send what fits and keep the rest for `_flush`."""
        if self._unsent is not None:
            self._unsent = memoryview(bytes(self._unsent) + data)
            return
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            return  # reading tells more: an early answer of the server, or the reset
        if sent < len(data):
            self._unsent = memoryview(data)[sent:]

    def _flush(self) -> None:
        assert self._unsent is not None
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :] or None
        except BlockingIOError:
            return
        except OSError:  # as in `_send`
            self._unsent = None
        if self._unsent is None:
            self._watch.start(READ)

    def alive(self) -> bool:
        """Look whether an idle connection is still open and silent, as it must be before it is used again."""
        try:
            data = self._recv()
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data or self._tls is None:
            return False
        try:
            return not self._tls.decrypt(data) and not self._tls.closed  # a late session ticket is no answer
        except ssl.SSLError:
            return False

    def abort(self, failure: TransportError) -> None:
        """End the exchange that it carries with this failure; whoever waits for it closes the connection."""
        if self._event is not None:
            self._fail(failure, self._event)

    def close(self) -> None:
        """Close the socket, with a close_notify where it can be sent at once."""
        if self.closed:
            return
        self.closed = True
        self._watch.close()
        del self._watch  # it holds our callback: without this only the cycle collector would free the two
        if self._tls is not None and self._unsent is None:
            with contextlib.suppress(OSError):
                self._sock.send(self._tls.close())
        self._sock.close()
