"""A master without Locust's command line: what `r1perf run --expect-workers` needs of it."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gevent
from locust.env import Environment
from locust.event import Events
from locust.exception import RPCError
from locust.runners import MasterRunner

from r1perf.collector import Verdict, View
from r1perf.errors import UsageError
from r1perf.launch.run import Ran
from r1perf.scenario import Scenario
from r1perf.swarm.address import address
from r1perf.swarm.master import Master
from r1perf.swarm.user import R1User

LOOK_S = 0.2


class Gathering:
    """The master, and the workers that have come. Sessions of a closed loop are the scenario's own, as without a swarm."""

    def __init__(self, environment: Environment, runner: MasterRunner, expect: int, note: Callable[[str], None]) -> None:
        self._runner, self._expect, self._note = runner, expect, note
        self._master = Master(environment)
        self._interrupts = 0

    def run(self, scenario: Scenario, *, base: Path, runs: Path, view: View) -> Ran:
        """Wait until as many workers are there as were expected, and carry a run out with all that are."""
        if not self._gather():
            return Ran(Verdict(130, "interrupted before the run began", None), None)
        return self._master.carry(scenario, base=base, runs=runs, view=view)

    def interrupt(self) -> None:
        """Take SIGINT or SIGTERM: the first drains, the second cuts."""
        self._interrupts += 1
        self._master.interrupt()

    def _gather(self) -> bool:
        """Wait for workers, and say so; return whether they have come before an interrupt."""
        told = -1
        while (here := len(self._master.workers)) < self._expect:
            if self._interrupts:
                return False
            if here != told:
                told = here
                self._note(
                    f"waiting for workers at {self._runner.master_bind_host}:{self._runner.master_bind_port}: {here} of {self._expect}"
                )
            gevent.sleep(LOOK_S)
        return not self._interrupts


@contextmanager
def gathered(expect: int, bind: str, note: Callable[[str], None]) -> Iterator[Gathering]:
    """Listen for workers; at the end all are told to go. Raises UsageError where the address cannot be had."""
    host, port = address(bind)
    environment = Environment(events=Events(), user_classes=[R1User])
    try:
        runner = environment.create_master_runner(host, port)
    except (RPCError, SystemExit) as error:
        raise UsageError(
            f"{host}:{port} cannot be listened on{': ' + str(error) if isinstance(error, RPCError) else ''}"
        ) from error
    gathering = Gathering(environment, runner, expect, note)
    handlers = [gevent.signal_handler(number, gathering.interrupt) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield gathering
    finally:
        runner.quit()
        for handler in handlers:
            handler.cancel()
