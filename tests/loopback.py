"""A server on 127.0.0.1 whose every byte a test decides: a thread a connection, each running the test's own function."""

import contextlib
import socket
import struct
import threading


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock, number):
        self.sock = sock
        self.number = number  # of the connection, from 1
        self.buffer = b""

    def request(self):
        """Return one request, head and body, or None where the client closed."""
        while b"\r\n\r\n" not in self.buffer:
            if not self._more():
                return None
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
        while len(rest) < length:
            if not self._more():
                return None
            rest = self.buffer.partition(b"\r\n\r\n")[2]
        self.buffer = rest[length:]
        return head + b"\r\n\r\n" + rest[:length]

    def _more(self):
        try:
            data = self.sock.recv(65536)
        except OSError:
            return False
        self.buffer += data
        return bool(data)

    def send(self, data):
        """Send all of it; a client that has gone is no error."""
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def closed(self):
        """Wait until the client has closed."""
        while self._more():
            pass

    def reset(self):
        """Close with a RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


class Loopback:
    """Serve `handle(peer)` for each connection while the `with` block lasts; `requests` and `connections` count."""

    def __init__(self, handle, *, family=socket.AF_INET, tls=None):
        self.handle = handle
        self.tls = tls
        self.connections = 0
        self.requests = []
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self._listener.listen(1024)
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._socks = []

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(10)
        for sock in self._socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._socks.append(sock)
            self._threads.append(threading.Thread(target=self._serve, args=(sock, self.connections), daemon=True))
            self._threads[-1].start()

    def _serve(self, sock, number):
        with contextlib.ExitStack() as stack:
            stack.enter_context(sock)
            if self.tls is not None:
                try:
                    sock = stack.enter_context(self.tls.wrap_socket(sock, server_side=True))
                except OSError:
                    return
                self._socks.append(sock)
            peer = Peer(sock, number)
            request = peer.request

            def noted():
                data = request()
                if data is not None:
                    self.requests.append(data)
                return data

            peer.request = noted
            self.handle(peer)
