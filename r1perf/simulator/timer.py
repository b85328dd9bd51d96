"""Wake up at an exact time: asyncio's own timers, and uvloop's, only know whole milliseconds."""

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

monotonic_ns = time.perf_counter_ns
"""Read the clock that every stamp of the simulator comes from: the same one as r1perf's own (CLOCK_MONOTONIC on Linux)."""

wall_ns = time.time_ns
"""Read the wall clock; for the offset in the truth log and the `created` of answers, never for measuring."""

_MONOTONIC = 1
_ABSOLUTE = 1
_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000


class _TimerSpec(ctypes.Structure):
    """Hold a `struct itimerspec` of a 64-bit Linux."""

    _fields_ = (("interval_s", ctypes.c_long), ("interval_ns", ctypes.c_long), ("s", ctypes.c_long), ("ns", ctypes.c_long))


class Timer:
    """Call back once at a time of `monotonic_ns`: to some ten microseconds with a timerfd, elsewhere to a millisecond."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._handle: asyncio.Handle | None = None
        self._spec = _TimerSpec()
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.timerfd_create(_MONOTONIC, _NONBLOCK_CLOEXEC)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._ring)

    @property
    def exact(self) -> bool:
        """Say whether a timerfd is at work."""
        return self._fd >= 0

    def at(self, due_ns: int) -> None:
        """Call back at that time, and not at the one that was set before."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if self._fd >= 0:
            self._spec.s, self._spec.ns = divmod(max(1, due_ns), 1_000_000_000)
            self._libc.timerfd_settime(self._fd, _ABSOLUTE, ctypes.byref(self._spec), None)
        else:
            self._handle = self._loop.call_later(max(0, due_ns - monotonic_ns()) / 1e9, self._callback)

    def soon(self) -> None:
        """Call back once the loop has looked at its sockets."""
        if self._handle is None or self._handle.cancelled():
            self._handle = self._loop.call_soon(self._now)

    def close(self) -> None:
        """Give the timer back."""
        if self._handle is not None:
            self._handle.cancel()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _now(self) -> None:
        self._handle = None
        self._callback()

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:  # it was set anew after it had rung
            return
        self._callback()
