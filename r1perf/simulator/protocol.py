"""Speak HTTP/1.1 on one connection: parse requests, answer them in order, one at a time; keep-alive and pipelining."""

import asyncio
import os
import socket
import struct
from collections import deque
from collections.abc import Iterable
from http import HTTPStatus
from typing import Protocol, cast
from urllib.parse import urlsplit

import httptools

from r1perf.simulator.timer import monotonic_ns

MAX_BODY = 64 * 1024 * 1024
MAX_PIPELINED = 64

Headers = Iterable[tuple[str, str]]


class Request:
    """One request as it came in; header names are lower case."""

    __slots__ = ("body", "headers", "keep_alive", "method", "oversized", "path", "received_ns", "version")

    def __init__(self, method: str, path: str, version: str, headers: dict[str, str], body: bytes, *, keep_alive: bool) -> None:
        self.method = method
        self.path = path
        self.version = version
        self.headers = headers
        self.body = body
        self.keep_alive = keep_alive
        self.received_ns = 0
        self.oversized = False


class Answering(Protocol):
    """What is answering the request that a connection is busy with."""

    def gone(self) -> None:
        """Take note that the client has left."""


class Site(Protocol):
    """What a connection serves."""

    def connect(self, link: "Connection") -> None:
        """Take a connection in."""

    def disconnect(self, link: "Connection") -> None:
        """Let a connection go."""

    def handle(self, request: Request, link: "Connection") -> Answering | None:
        """Begin to answer a request; None where the answer is complete already."""


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, site: Site, *, tls: bool = False) -> None:
        self._site = site
        self._tls = tls
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[Request] = deque()
        self._request: Request | None = None  # being answered
        self._answering: Answering | None = None
        self._starting = False
        self._url = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_size = 0
        self.closed = False
        self.chunked = True
        self.client_port: int | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection in."""
        self._transport = cast(asyncio.Transport, transport)
        if not self._tls:
            self._fd = transport.get_extra_info("socket").fileno()
        peer = transport.get_extra_info("peername")
        self.client_port = peer[1] if isinstance(peer, tuple) else None
        self._site.connect(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Let the answer know that the client has left."""
        self.closed = True
        self._fd = -1
        self._site.disconnect(self)
        self._queue.clear()
        answering, self._answering = self._answering, None
        if answering is not None:
            answering.gone()

    def data_received(self, data: bytes) -> None:
        """Parse what came and begin to answer."""
        if self.closed:
            return
        received_ns = monotonic_ns()
        before = len(self._queue)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._request is not None and self._transport is not None:  # an answer is under way
                self._transport.abort()
                return
            self.respond(400, [], b'{"detail":"this is not HTTP/1.1"}', keep=False)
            return
        for request in list(self._queue)[before:]:
            request.received_ns = received_ns
        self._next()
        if len(self._queue) >= MAX_PIPELINED and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> None:
        """Close: a client that has no more to say is taken to have left."""

    # What the parser calls.

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._url, self._headers, self._body, self._body_size = b"", {}, [], 0

    def on_url(self, url: bytes) -> None:
        """Take a piece of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Ask for the body where the client waits to be asked."""
        if self._headers.get("expect", "").lower() == "100-continue" and self._request is None:
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body; refuse one that is too large."""
        self._body_size += len(body)
        if self._body_size <= MAX_BODY:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """Queue the request."""
        parser = self._parser
        request = Request(
            parser.get_method().decode(),
            urlsplit(self._url.decode("latin-1")).path,
            parser.get_http_version(),
            self._headers,
            b"".join(self._body),
            keep_alive=parser.should_keep_alive(),
        )
        request.oversized = self._body_size > MAX_BODY
        self._queue.append(request)
        self._body = []

    # What an answer calls.

    def respond(self, status: int, headers: Headers, body: bytes, *, keep: bool = True, kind: str = "application/json") -> None:
        """Answer in one piece."""
        keep = keep and (self._request is None or self._request.keep_alive)
        head = self._head(status, [("content-type", kind), ("content-length", str(len(body))), *headers], keep=keep)
        head_only = self._request is not None and self._request.method == "HEAD"
        self.write(head if head_only else head + body)
        self.end(keep=keep)

    def begin_stream(self, headers: Headers) -> bytes:
        """Return the head of an event stream; to be written by the caller."""
        request = self._request
        assert request is not None, "there is no request to answer"
        self.chunked = request.version != "1.0"
        framing = [("transfer-encoding", "chunked")] if self.chunked else []
        fixed = [("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"), *framing]
        return self._head(200, [*fixed, *headers], keep=request.keep_alive and self.chunked)

    def frame(self, body: bytes) -> bytes:
        """Frame a piece of a streamed body."""
        return b"%x\r\n%b\r\n" % (len(body), body) if self.chunked and body else body

    def end_stream(self) -> None:
        """End a streamed body and the answer."""
        if self.chunked:
            self.write(b"0\r\n\r\n")
        self.end(keep=self._request is not None and self._request.keep_alive and self.chunked)

    def write(self, data: bytes) -> None:
        """Send bytes now: straight into the socket where nothing is buffered, so that their stamp is true."""
        transport = self._transport
        if self.closed or transport is None:
            return
        if self._fd >= 0 and not transport.get_write_buffer_size():
            try:
                sent = os.write(self._fd, data)
            except BlockingIOError:
                sent = 0
            except OSError:
                transport.abort()
                self.closed = True
                return
            if sent == len(data):
                return
            data = data[sent:]
        transport.write(data)

    def end(self, *, keep: bool) -> None:
        """Be ready for the next request, or close."""
        self._request = self._answering = None
        if not keep:
            self.close()
        elif not self._starting:
            if self._queue:  # it waited for this answer, so it begins now
                self._queue[0].received_ns = monotonic_ns()
            self._next()

    def close(self) -> None:
        """Close once all that was written has been sent; the client sees an orderly end (FIN)."""
        self._answering = None
        self.closed = True
        if self._transport is not None:
            self._transport.close()

    def reset(self) -> None:
        """Close at once; the client sees a reset (RST)."""
        self._answering = None
        transport = self._transport
        if transport is None or self.closed:
            return
        # Options belong to the open socket, not to the descriptor: set on a copy, since asyncio's view forbids it.
        with socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as copy:
            copy.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.closed = True
        transport.abort()

    # Inside.

    def _next(self) -> None:
        """Begin to answer requests until one takes its time."""
        self._starting = True
        while self._request is None and self._queue and not self.closed:
            request = self._request = self._queue.popleft()
            if self._transport is not None and not self._transport.is_reading() and len(self._queue) < MAX_PIPELINED:
                self._transport.resume_reading()
            if request.oversized:
                self.respond(413, [], b'{"detail":"the body is larger than 64 MiB"}', keep=False)
                break
            answering = self._site.handle(request, self)
            if self._request is request and not self.closed:
                self._answering = answering
        self._starting = False

    def _head(self, status: int, headers: Headers, *, keep: bool) -> bytes:
        """Write a status line and headers."""
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Site Is Overloaded" if status == 529 else "Unknown"
        lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
        if not keep:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
