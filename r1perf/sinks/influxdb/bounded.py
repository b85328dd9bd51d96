"""Bound a whole exchange of urllib3's: its own timeouts begin anew with every byte, so a server that trickles holds it for ever."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

_BOTH_WAYS = 2
"""`socket.SHUT_RDWR`."""


class Connections:
    """The connections that a pool manager makes from now on, so that another thread can cut them off."""

    def __init__(self, manager: Any) -> None:
        self._made: WeakSet[Any] = WeakSet()
        manager.pool_classes_by_scheme = {scheme: self._noted(pool) for scheme, pool in manager.pool_classes_by_scheme.items()}

    @contextmanager
    def bounded(self, seconds: float) -> Iterator[None]:
        """Raise TimeoutError where what is done within takes longer."""
        cut = threading.Event()
        timer = threading.Timer(seconds, self._cut, (cut,))
        timer.daemon = True
        timer.start()
        try:
            yield
        except Exception as error:
            if cut.is_set():
                raise TimeoutError from error
            raise
        finally:
            timer.cancel()
        if cut.is_set():  # half a head reads as a whole one
            raise TimeoutError

    def _cut(self, cut: threading.Event) -> None:
        cut.set()
        for connection in list(self._made):
            with suppress(OSError, AttributeError):  # it has no socket, or none any more
                connection.sock.shutdown(_BOTH_WAYS)

    def _noted(self, pool: Any) -> Any:
        """Return a class of pools whose connections are noted."""
        made = self._made

        class Noted(pool.ConnectionCls):  # type: ignore[misc]
            def __init__(self, *words: Any, **named: Any) -> None:
                super().__init__(*words, **named)
                made.add(self)

        return type(pool.__name__, (pool,), {"ConnectionCls": Noted})
