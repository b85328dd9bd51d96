"""HTTP/1.1 over a loop: the transport of the fast engine."""

from typing import Self

from r1perf import open_files
from r1perf.errors import TransportError
from r1perf.loop import Loop
from r1perf.target import Target
from r1perf.transport import Exchange, HttpRequest, Receiver
from r1perf.transport.connect import Connector
from r1perf.transport.connection import Connection
from r1perf.transport.origin import parse_origin, proxy_for
from r1perf.transport.pool import Pool
from r1perf.transport.request import render
from r1perf.transport.response import Response
from r1perf.transport.tls import context


class HttpTransport:
    """A `Transport`: keep-alive connections to the origin of `url`, directly or through the environment's proxy.

    Outcomes: `connect_error` where no byte of a response came, `stream_broken` where one had begun, `timeout` by the connect
    timeout or the receiver's deadline. Raises TargetError where the URL or the proxy cannot be used. Making one lets the
    process open as many files as the system allows it.
    """

    def __init__(self, loop: Loop, url: str, *, connect_timeout_ns: int, verify_tls: bool = True) -> None:
        open_files.allow()
        self.origin = parse_origin(url)
        proxy = proxy_for(self.origin)
        secure = self.origin.scheme == "https"
        self._loop = loop
        self._connector = Connector(loop, self.origin, proxy, context(verify_tls) if secure else None, connect_timeout_ns)
        self._pool = Pool()
        self._active: set[Connection] = set()
        self._absolute = proxy is not None and not secure
        key = proxy.authorization if proxy is not None and not secure else None
        self._extra = () if key is None else (("Proxy-Authorization", key),)
        self._closed = False

    @classmethod
    def of(cls, loop: Loop, target: Target) -> Self:
        """Make the transport to a target; no connection may take longer than a whole request."""
        timeouts = target.timeouts
        return cls(loop, target.url, connect_timeout_ns=min(timeouts.connect, timeouts.total), verify_tls=target.verify_tls)

    def exchange(self, request: HttpRequest, receiver: Receiver) -> Exchange:
        """Send one request and wait for the end of its response; see `Transport`."""
        begun_ns = self._loop.now_ns()
        connection = self._pool.take(begun_ns)
        connect_ns = None
        if connection is None:
            connection = self._connector.open()
            connect_ns = self._loop.now_ns() - begun_ns
        response, rested = Response(receiver, request.method), connection.chunked
        self._active.add(connection)
        reusable = False
        try:
            receiver.on_connection(connect_ns, connection.local_port)
            reusable = connection.exchange(render(request, self.origin, self._absolute, self._extra), response, receiver)
        finally:
            self._active.discard(connection)
            if response.complete and rested:
                self._pool.prove()
            if reusable and not self._closed:
                self._pool.put(connection, self._loop.now_ns())
            else:
                connection.close()
        return Exchange(connect_ns, connection.local_port, response.done_ns)

    def close(self) -> None:
        """Close every connection; an exchange that still runs ends as `stream_broken`."""
        self._closed = True
        self._pool.close()
        for connection in tuple(self._active):
            connection.abort(TransportError("stream_broken", "closed", "the client closed the connection"))
