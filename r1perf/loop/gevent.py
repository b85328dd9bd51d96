"""The real loop: gevent's hub. With `launch`, the only core file that imports gevent.

It needs no monkey patching; the worker child is patched all the same, for the openai SDK.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import gevent
from gevent import socket
from gevent.event import Event as GeventEvent
from gevent.hub import get_hub

from r1perf import clock
from r1perf.loop import READ, Cancelled

T = TypeVar("T")


_Cancelled = type("_Cancelled", (Cancelled, gevent.GreenletExit), {})
"""Gevent prints whatever else ends a task that has not begun. (Made so since gevent does not say what type its exit has.)"""


class _Task:
    """A greenlet."""

    __slots__ = ("_greenlet",)

    def __init__(self, greenlet: "gevent.Greenlet[..., object]") -> None:
        self._greenlet = greenlet

    def cancel(self) -> None:
        self._greenlet.kill(_Cancelled, block=False)

    def join(self, until_ns: int | None = None) -> bool:
        while not self._greenlet.ready():
            left = None if until_ns is None else until_ns - clock.monotonic_ns()
            if left is not None and left <= 0:
                return False
            self._greenlet.join(None if left is None else left / 1e9)
        return True

    @property
    def done(self) -> bool:
        return bool(self._greenlet.ready())


class _Event:
    """A gevent event whose wait takes a deadline; libev may wake early, so the wait is repeated until it has passed."""

    __slots__ = ("_event", "clear", "is_set", "set")

    def __init__(self) -> None:
        self._event = GeventEvent()
        self.set: Callable[[], None] = self._event.set
        self.clear: Callable[[], None] = self._event.clear
        self.is_set: Callable[[], bool] = self._event.is_set

    def wait(self, until_ns: int | None = None) -> bool:
        if until_ns is None:
            return bool(self._event.wait())
        while not self._event.is_set():
            left = until_ns - clock.monotonic_ns()
            if left <= 0:
                return False
            if self._event.wait(left / 1e9):
                return True  # set, though it may be lowered again by now
        return True


class _Watch:
    """A libev io watcher."""

    __slots__ = ("_callback", "_io")

    def __init__(self, fd: int, callback: Callable[[], object]) -> None:
        self._io: Any = get_hub().loop.io(fd, READ)  # the stubs lack `active` and `events`
        self._callback = callback

    def start(self, events: int = READ) -> None:
        if self._io.active:
            if self._io.events == events:
                return
            self._io.stop()
        self._io.events = events
        self._io.start(self._callback)

    def stop(self) -> None:
        self._io.stop()

    def close(self) -> None:
        self._io.stop()
        self._io.close()


class GeventLoop:
    """The hub of the calling thread, behind the `Loop` protocol. `on_error` takes what a task did not catch."""

    def __init__(self, on_error: Callable[[BaseException], None] | None = None) -> None:
        self.on_error = on_error
        self.now_ns: Callable[[], int] = clock.monotonic_ns

    def sleep_until(self, when_ns: int) -> None:
        left = when_ns - clock.monotonic_ns()
        gevent.sleep(max(left, 0) / 1e9)
        while (left := when_ns - clock.monotonic_ns()) > 0:
            gevent.sleep(left / 1e9)

    def spawn(self, run: Callable[..., object], *args: Any) -> _Task:
        return _Task(gevent.spawn(self._guard, run, args))

    def _guard(self, run: Callable[..., object], args: tuple[Any, ...]) -> None:
        try:
            run(*args)
        except Cancelled:
            pass
        except Exception as error:
            if self.on_error is None:
                raise
            self.on_error(error)

    def event(self) -> _Event:
        return _Event()

    def watch(self, fd: int, callback: Callable[[], object]) -> _Watch:
        return _Watch(fd, callback)

    def resolve(self, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]

    def offload(self, run: Callable[..., T], *args: Any) -> T:
        value, error = get_hub().threadpool.apply(_outcome, (run, args))
        if error is not None:
            raise error
        return cast(T, value)


def _outcome(run: Callable[..., T], args: tuple[Any, ...]) -> tuple[T | None, BaseException | None]:
    """Return a call's value or its error: an error that is raised in gevent's pool is printed there with its traceback."""
    try:
        return run(*args), None
    except Exception as error:
        return None, error
