"""Keep Locust from moving users about while a run goes on."""

from collections.abc import Callable

from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode


def dispatcher(closed: Callable[[], bool]) -> type[UsersDispatcher]:
    """Return a dispatcher that takes no worker in, and none out, while `closed` says so.

    Locust's own deals all users out anew when a worker joins, comes back or goes: sessions of a run would be killed on one
    worker and begun on another, and a worker that joins has no part in the run at all.
    """

    class RunDispatcher(UsersDispatcher):
        """Deal users out to the workers of the run alone."""

        def add_worker(self, worker_node: WorkerNode) -> None:
            """Take a worker in, between runs."""
            if not closed():
                super().add_worker(worker_node)

        def remove_worker(self, worker_node: WorkerNode) -> None:
            """Take a worker out, between runs."""
            if not closed():
                super().remove_worker(worker_node)

    return RunDispatcher
