"""What the tests of the transport have in common: one request, one answer, a receiver that keeps everything."""

import pytest

from r1perf.errors import TransportError
from r1perf.transport import HttpRequest

MS = 1_000_000
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong"
POST = HttpRequest("POST", "/v1/x", (("Accept", "*/*"),), b"ping")


class Taker:
    """A receiver that keeps all, with one deadline from its making."""

    def __init__(self, loop, *, timeout_ms=10_000, stop=None):
        self.until_ns = loop.now_ns() + timeout_ms * MS
        self.stop = stop
        self.body = b""
        self.status = self.local_port = self.connect_ns = None
        self.stamps = []

    def on_connection(self, connect_ns, local_port):
        self.connect_ns, self.local_port = connect_ns, local_port

    def on_head(self, now_ns, status, headers):
        self.status = status

    def on_body(self, now_ns, data):
        self.body += data
        self.stamps.append(now_ns)
        return self.stop is not None and self.stop in self.body

    def deadline_ns(self):
        return self.until_ns, "total"


def fails(loop, transport, request=POST, **options):
    """Return outcome, reason and what had arrived of an exchange that must fail."""
    taker = Taker(loop, **options)
    with pytest.raises(TransportError) as caught:
        transport.exchange(request, taker)
    return caught.value.outcome, caught.value.reason, taker.body


def pong(peer):
    while peer.request():
        peer.send(PONG)
