"""Deal sessions out evenly, and keep Locust from moving users about while a run goes on."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from locust import User
from locust.dispatch import UsersDispatcher
from locust.runners import WorkerNode

from r1perf.swarm.sessions import Held
from r1perf.swarm.user import R1User


def dispatcher(closed: Callable[[], bool], dealt: Callable[[Held], None] = lambda held: None) -> type[UsersDispatcher]:
    """Return a dispatcher that takes no worker in, and none out, while `closed` says so, and tells `dealt` what it has dealt out.

    Locust's own deals all users out anew when a worker joins, comes back or goes: sessions of a run would be killed on one
    worker and begun on another, and a worker that joins has no part in the run at all.

    Sessions have a round of their own over the workers, since Locust's one round for all falls in with the order of the classes: of
    two classes of equal weight on four workers, each would be on two workers alone.
    """

    class RunDispatcher(UsersDispatcher):
        """Deal users out to the workers of the run alone."""

        def __init__(self, worker_nodes: list[WorkerNode], user_classes: list[type[User]]) -> None:
            super().__init__(worker_nodes, user_classes)
            self._ours = {user.__name__ for user in self._original_user_classes if issubclass(user, R1User)}
            self._worker_node_generator: Any = self._deal()

        def __next__(self) -> dict[str, dict[str, int]]:
            users = super().__next__()
            count = sum(number for on_worker in users.values() for name, number in on_worker.items() if name in self._ours)
            known = self._current_user_count == self._target_user_count or len(self._ours) == len(self._original_user_classes)
            wanted = count + self._target_user_count - self._current_user_count if known else None
            dealt(Held(count, wanted, self._spawn_rate))
            return users

        def _user_gen(self) -> Iterator[str | None]:
            for user in super()._user_gen():
                self._next_user = user  # whose worker Locust asks for now
                yield user

        def _deal(self) -> Iterator[WorkerNode]:
            rounds = itertools.cycle(self._worker_nodes), itertools.cycle(self._worker_nodes)
            while True:
                yield next(rounds[self._next_user in self._ours])

        def _distribute_users(self, target_user_count: int) -> Any:
            """Deal all out anew, as Locust does after a worker came or went."""
            _, users, _, dealt = super()._distribute_users(target_user_count)
            on_workers = {node.id: {user.__name__: 0 for user in self._original_user_classes} for node in self._worker_nodes}
            workers, active = self._deal(), []
            for _, self._next_user in dealt:
                active.append((next(workers), self._next_user))
                on_workers[active[-1][0].id][self._next_user] += 1
            return on_workers, users, workers, active

        def add_worker(self, worker_node: WorkerNode) -> None:
            """Take a worker in, between runs."""
            if not closed():
                super().add_worker(worker_node)

        def remove_worker(self, worker_node: WorkerNode) -> None:
            """Take a worker out, between runs."""
            if not closed():
                super().remove_worker(worker_node)

    return RunDispatcher
