"""The user that Locust spawns: one session of a closed loop; in an open loop it only stands there."""

from collections.abc import Callable

from locust import LoadTestShape, User, constant, task
from locust.env import Environment

_JOINERS: dict[Environment, Callable[[], Callable[[], None] | None]] = {}


def joiner(environment: Environment, join: Callable[[], Callable[[], None] | None]) -> None:
    """Say how a user of an environment joins the run: what `join` returns ends its session, None where it has none."""
    _JOINERS[environment] = join


class R1User(User):
    """One session of a closed-loop scenario: Locust's users and spawn rate are its sessions and their ramp.

    Locust may kill a user at any time: its session then ends when its conversation has ended, and no stream is cut. In an
    open loop a user sends nothing: arrivals come from the schedule, so that those of a lost worker are never sent twice.
    """

    # It rests in Locust's waiting state, where it is stopped at once and without a stop timeout.
    wait_time = constant(3600)

    def on_start(self) -> None:
        """Join the run."""
        join = _JOINERS.get(self.environment)
        self._leave = join() if join is not None else None

    def on_stop(self) -> None:
        """Leave it."""
        if self._leave is not None:
            self._leave()

    @task
    def session(self) -> None:
        """Do nothing: the session is held by r1perf."""


class OpenLoop(LoadTestShape):
    """Keep one user, and take users and spawn rate out of the web UI's form: in an open loop they would say nothing."""

    abstract = True

    def __init__(self, look: Callable[[], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._look = look

    def tick(self) -> tuple[int, float]:
        """Keep one user; called once a second, so that `look` can see what was asked for meanwhile."""
        self._look()
        return 1, 1.0
