"""Idle connections, the last one used first."""

from collections import deque

from r1perf.transport.connection import Connection

IDLE_NS = 4_000_000_000
"""How long a connection may be idle: below the 5 s after which common servers close theirs (uvicorn, Node)."""


REST_NS = 50_000_000
"""How long a connection rests behind chunks, until one has carried another request: llama-server closes each then, without a word."""


class Pool:
    """Idle connections of one origin, without a cap: how many there can be is the business of who sends."""

    def __init__(self) -> None:
        self._idle: deque[Connection] = deque()
        self._proven = False  # the server keeps connections open behind chunks

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, now_ns: int) -> Connection | None:
        """Return a connection that is open and silent, None where there is none; close those that are too old or were closed."""
        self._prune(now_ns)
        resting, found = list[Connection](), None
        while self._idle and found is None:
            connection = self._idle.pop()
            if not self._proven and connection.chunked and now_ns - connection.idle_since_ns < REST_NS:
                resting.append(connection)
            elif connection.alive():
                found = connection
            else:
                connection.close()
        self._idle.extend(reversed(resting))
        return found

    def prove(self) -> None:
        """Note that a connection whose response had come in chunks has carried another request."""
        self._proven = True

    def put(self, connection: Connection, now_ns: int) -> None:
        """Keep a connection for the next request."""
        self._prune(now_ns)
        connection.idle_since_ns = now_ns
        self._idle.append(connection)

    def close(self) -> None:
        """Close all."""
        while self._idle:
            self._idle.pop().close()

    def _prune(self, now_ns: int) -> None:
        while self._idle and now_ns - self._idle[0].idle_since_ns > IDLE_NS:
            self._idle.popleft().close()
