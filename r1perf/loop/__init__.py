"""What the core runs on: one cooperative loop, real (`loop.gevent`) or virtual (`loop.sim`).

Tasks are greenlets: plain functions that may call `sleep_until`, `Event.wait`, `Task.join`, `resolve` and `offload`, and
nothing else that blocks. Callbacks given to `watch` run inside the loop and never block.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

READ, WRITE = 1, 2
"""What a `Watch` waits for; may be added up."""


class Cancelled(BaseException):
    """Be thrown into a task by `Task.cancel` at the place where it waits."""


class Task(Protocol):
    """A spawned task."""

    def cancel(self) -> None:
        """Throw `Cancelled` into the task where it waits; do nothing if it has ended. Does not wait for its end.

        A task that has not begun never begins: nothing of it runs, no `finally` either.
        """

    def join(self, until_ns: int | None = None) -> bool:
        """Wait for the task's end, or until `until_ns`; return whether it has ended."""

    @property
    def done(self) -> bool:
        """Tell whether the task has ended."""


class Event(Protocol):
    """A flag that tasks wait for."""

    def set(self) -> None:
        """Wake all who wait, in the order in which they began to wait; may be called from a callback."""

    def clear(self) -> None:
        """Lower the flag again."""

    def is_set(self) -> bool:
        """Tell whether the flag is up."""

    def wait(self, until_ns: int | None = None) -> bool:
        """Wait for the flag, or until `until_ns`; return whether it is up, or was and woke this task.

        Where it is up, or `until_ns` has passed, no other task has a turn.
        """


class Watch(Protocol):
    """A file descriptor that is watched."""

    def start(self, events: int = READ) -> None:
        """Call back whenever the descriptor is ready for `events`; replaces what was watched before."""

    def stop(self) -> None:
        """Stop calling back; may be started again."""

    def close(self) -> None:
        """Stop for good, before the descriptor is closed."""


class Loop(Protocol):
    """Time, tasks and readiness."""

    def now_ns(self) -> int:
        """Return the monotonic time in ns (virtual in `SimLoop`)."""

    def sleep_until(self, when_ns: int) -> None:
        """Let other tasks run until `when_ns`; return at once, after a turn of the loop, if that has passed."""

    def spawn(self, run: Callable[..., object], *args: Any) -> Task:
        """Start a task; it begins to run when the caller next waits. Its uncaught exception goes to `on_error`."""

    def event(self) -> Event:
        """Make a lowered flag."""

    def watch(self, fd: int, callback: Callable[[], object]) -> Watch:
        """Make a stopped watch of a file descriptor."""

    def resolve(self, host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
        """Look a host up, as (address family, socket address) pairs in the resolver's order; raises OSError."""

    def offload(self, run: Callable[..., T], *args: Any) -> T:
        """Run a blocking function (file writes, dataset loading) on a thread, wait for it, return or raise its result."""
