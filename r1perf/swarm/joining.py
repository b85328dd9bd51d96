"""A worker without a locustfile: `r1perf worker`. It takes part in run after run until its master goes."""

import signal
from collections.abc import Callable
from pathlib import Path

import gevent
from locust.env import Environment
from locust.event import Events

from r1perf.errors import UsageError
from r1perf.loop.gevent import GeventLoop
from r1perf.swarm.address import address
from r1perf.swarm.member import Member
from r1perf.swarm.user import R1User


def work(master: str, runs: Path, note: Callable[[str], None]) -> int:
    """Take part in the swarm of `master` (HOST:PORT); return the exit code. Raises UsageError where there is no master."""
    host, port = address(master)
    try:  # Locust asks for a name 60 times, and then shows the error as it is
        GeventLoop().resolve(host, port)
    except OSError as error:
        raise UsageError(f'the master\'s host "{host}" cannot be found: {error.strerror}') from error
    note(f"looking for the master at {host}:{port}")
    environment = Environment(events=Events(), user_classes=[R1User])
    try:
        runner = environment.create_worker_runner(host, port)
    except (ConnectionError, OSError) as error:
        raise UsageError(f"no master answers at {host}:{port}") from error
    note(f"joined the master at {host}:{port}")  # Locust's number would not be that of the run
    member = Member(environment, runs, note, lambda sentence: note(f"r1perf: {sentence}"))
    asked: list[str] = []

    def end(name: str) -> None:
        asked.append(name)
        if len(asked) > 1:
            member.interrupt(again=True)
        elif name == "SIGINT":
            member.interrupt(again=False)
        member.finish(name)
        runner.greenlet.kill(block=False)

    for number in (signal.SIGINT, signal.SIGTERM):
        gevent.signal_handler(number, end, number.name)
    runner.greenlet.join()
    member.finish()
    environment.events.quitting.fire(environment=environment, reverse=True)
    return member.code
