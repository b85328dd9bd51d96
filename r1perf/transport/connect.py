"""The opening of a connection: name, TCP to one address after the other, a proxy's CONNECT, TLS; all within one timeout."""

import _socket
import contextlib
import errno
import os
import ssl
from typing import Any, NoReturn

from r1perf.errors import TransportError
from r1perf.loop import READ, WRITE, Loop
from r1perf.transport.connection import READ_BYTES, Connection
from r1perf.transport.origin import Origin, Proxy
from r1perf.transport.tls import Tls, refusal

_HEAD_BYTES = 65536
_REASONS = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.ECONNABORTED: "reset",
    errno.EPIPE: "reset",
    errno.EHOSTUNREACH: "unreachable",
    errno.ENETUNREACH: "unreachable",
    errno.EADDRNOTAVAIL: "local_ports",
}


class Connector:
    """Opens connections to one origin."""

    def __init__(self, loop: Loop, origin: Origin, proxy: Proxy | None, context: ssl.SSLContext | None, timeout_ns: int) -> None:
        self._loop = loop
        self._origin = origin
        self._proxy = proxy
        self._context = context
        self._timeout_ns = timeout_ns

    def open(self) -> Connection:
        """Open one connection; raises TransportError (`connect_error`, or `timeout` with reason `connect`)."""
        until_ns = self._loop.now_ns() + self._timeout_ns
        sock = self._connect(until_ns)
        try:
            tls = None
            if self._context is not None:
                if self._proxy is not None:
                    self._tunnel(sock, self._proxy, until_ns)
                tls = Tls(self._context, self._origin.host)
                self._handshake(sock, tls, until_ns)
            return Connection(self._loop, sock, tls)
        except BaseException:
            sock.close()
            raise

    @property
    def _where(self) -> str:
        return self._origin.address if self._proxy is None else f"the proxy at {self._proxy.address}"

    def _connect(self, until_ns: int) -> _socket.socket:
        """Try the host's addresses in turn; each gets an equal share of the time that is left."""
        addresses = self._resolve(until_ns)
        error: TransportError | None = None
        for i, (family, address) in enumerate(addresses):
            now_ns = self._loop.now_ns()
            if now_ns >= until_ns:
                break
            try:
                return self._connect_to(family, address, now_ns + (until_ns - now_ns) // (len(addresses) - i))
            except TransportError as failure:
                error = failure
        if error is None:
            self._late()
        raise error

    def _resolve(self, until_ns: int) -> list[tuple[int, tuple[Any, ...]]]:
        where = self._origin if self._proxy is None else self._proxy
        try:
            numeric = _socket.getaddrinfo(where.host, where.port, 0, _socket.SOCK_STREAM, 0, _socket.AI_NUMERICHOST)
            return [(family, address) for family, _, _, _, address in numeric]
        except (OSError, UnicodeError):
            pass  # a name: ask, on a task of its own, since a resolver knows no deadline
        found: list[tuple[int, tuple[Any, ...]]] = []
        failed: list[Exception] = []

        def look_up() -> None:
            try:
                found.extend(self._loop.resolve(where.host, where.port))
            except (OSError, UnicodeError) as error:
                failed.append(error)

        task = self._loop.spawn(look_up)
        try:
            if not task.join(until_ns):
                self._late()
        finally:
            task.cancel()
        if not found:
            error = failed[0] if failed else None
            name = f"the name {where.host}" if self._proxy is None else f"the name {where.host} of the proxy"
            raise TransportError("connect_error", "dns", f"{name} cannot be resolved{_because(error)}") from error
        return found

    def _connect_to(self, family: int, address: tuple[Any, ...], until_ns: int) -> _socket.socket:
        try:
            sock = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
        except OSError as error:
            if error.errno in {errno.EMFILE, errno.ENFILE}:
                says = "this process may open no more files; raise the limit (`ulimit -n`) above the number of requests in flight"
                raise TransportError("connect_error", "open_files", says) from error
            raise self._failure(error.errno) from error
        try:
            sock.setsockopt(_socket.IPPROTO_TCP, _socket.TCP_NODELAY, 1)
            code = sock.connect_ex(address)
            if code == errno.EINPROGRESS:
                if not self._wait(sock, WRITE, until_ns):
                    self._late()
                code = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_ERROR)
            if code == errno.ETIMEDOUT:
                self._late()
            if code:
                raise self._failure(code)
        except BaseException:
            sock.close()
            raise
        return sock

    def _tunnel(self, sock: _socket.socket, proxy: Proxy, until_ns: int) -> None:
        """Ask the proxy for a tunnel (RFC 9110, 9.3.6)."""
        lines = [f"CONNECT {self._origin.address} HTTP/1.1", f"Host: {self._origin.address}"]
        if proxy.authorization is not None:
            lines.append(f"Proxy-Authorization: {proxy.authorization}")
        self._send(sock, "\r\n".join([*lines, "\r\n"]).encode("ascii"), until_ns)
        head = b""
        while b"\r\n\r\n" not in head:
            data = self._receive(sock, until_ns)
            head += data
            if not data or len(head) > _HEAD_BYTES:
                raise TransportError("connect_error", "proxy", f"{self._where} did not answer CONNECT")
        version, _, rest = head.partition(b"\r\n")[0].partition(b" ")
        if not version.startswith(b"HTTP/1.") or not rest.startswith(b"2"):
            says = rest.decode("latin-1")[:100].strip() or "nothing that is HTTP"
            raise TransportError("connect_error", "proxy", f"{self._where} answered {says} to CONNECT {self._origin.address}")

    def _handshake(self, sock: _socket.socket, tls: Tls, until_ns: int) -> None:
        try:
            done = tls.handshake()
            while True:
                self._send(sock, tls.outgoing(), until_ns)
                if done:
                    return
                data = self._receive(sock, until_ns)
                if not data:
                    says = f"no TLS connection to {self._origin.address}: it closed the connection during the handshake"
                    raise TransportError("connect_error", "tls", says)
                done = tls.handshake(data)
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):
                sock.send(tls.outgoing())  # the alert, so that the server's log tells why
            raise refusal(error, self._origin.address) from error

    def _send(self, sock: _socket.socket, data: bytes, until_ns: int) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[sock.send(view) :]
            except BlockingIOError:
                if not self._wait(sock, WRITE, until_ns):
                    self._late()
            except OSError as error:
                raise self._failure(error.errno) from error

    def _receive(self, sock: _socket.socket, until_ns: int) -> bytes:
        while True:
            try:
                return sock.recv(READ_BYTES)
            except BlockingIOError:
                if not self._wait(sock, READ, until_ns):
                    self._late()
            except OSError as error:
                raise self._failure(error.errno) from error

    def _wait(self, sock: _socket.socket, events: int, until_ns: int) -> bool:
        ready = self._loop.event()
        watch = self._loop.watch(sock.fileno(), ready.set)
        try:
            watch.start(events)
            return ready.wait(until_ns)
        finally:
            watch.close()

    def _late(self) -> NoReturn:
        says = f"no connection to {self._where} within timeouts.connect ({self._timeout_ns / 1e9:g} s)"
        raise TransportError("timeout", "connect", says)

    def _failure(self, code: int | None) -> TransportError:
        reason = _REASONS.get(code or 0, "connect")
        return TransportError("connect_error", reason, f"no connection to {self._where}: {os.strerror(code or 0).lower()}")


def _because(error: Exception | None) -> str:
    says = getattr(error, "strerror", None)
    return f": {str(says).lower()}" if says else ""
