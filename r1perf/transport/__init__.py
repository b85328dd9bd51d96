"""Bytes to and from one target: sockets, TLS, proxies, HTTP/1.1. The only package that opens sockets."""

from typing import Protocol

import msgspec


class HttpRequest(msgspec.Struct, frozen=True):
    """One request, ready to be written: `head` is the whole request head (request line to blank line), `body` follows it."""

    method: str
    path: str  # with query; absolute-form and CONNECT are the transport's business
    headers: tuple[tuple[str, str], ...]  # without Host, Content-Length, Connection: the transport's business
    body: bytes = b""


class Receiver(Protocol):
    """Who is told what arrives. `on_head` and `on_body` are called from inside the loop and never block.

    An exception raised by one of them ends the exchange, closes its connection and is raised from `Transport.exchange`.
    """

    def on_connection(self, connect_ns: int | None, local_port: int) -> None:
        """Take what the exchange goes over: how long it took to open (None: it was open), and its local port."""

    def on_head(self, now_ns: int, status: int, headers: dict[str, str]) -> None:
        """Take the response head; header names are lower case, repeated ones are joined with ", "."""

    def on_body(self, now_ns: int, data: bytes) -> bool:
        """Take the body bytes of one read, decoded from chunked and gzip; `now_ns` was read right after recv.

        Return True when the answer is complete whatever the framing still says (never needed to end; see `exchange`).
        """

    def deadline_ns(self) -> tuple[int, str]:
        """Tell by when the next byte that matters must have come, and the reason word if it does not (`first_chunk`, ...).

        Asked when the exchange begins, and again whenever an earlier deadline has passed: so that no timer is re-armed for
        each read.
        """


class Exchange(msgspec.Struct, frozen=True):
    """What the transport knows of a finished exchange."""

    connect_ns: int | None  # DNS + TCP + TLS; None when a connection was reused
    local_port: int
    done_ns: int


class Transport(Protocol):
    """A pool of connections to one target."""

    def exchange(self, request: HttpRequest, receiver: Receiver) -> Exchange:
        """Send one request, wait for the end of its response, return; a task may be cancelled here (its connection closes).

        Nothing is ever sent twice. Raises TransportError (see `errors`); what had arrived was given to the receiver.
        """

    def close(self) -> None:
        """Close every connection."""
