"""The worker's side in a Locust process: it says hello, takes its part of a run, and measures."""

import contextlib
import functools
import logging
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gevent
from locust import argument_parser, runners
from locust.env import Environment
from locust.exception import RPCError
from locust.runners import WorkerRunner

from r1perf import __version__, clock, messages
from r1perf.loop.gevent import GeventLoop
from r1perf.result import Result
from r1perf.scenario import load
from r1perf.swarm import wire
from r1perf.swarm.part import Part
from r1perf.swarm.place import alive, place
from r1perf.swarm.tables import teller
from r1perf.swarm.user import joiner

ORPHANED_NS = 30_000_000_000
"""A worker that has heard nothing of its master for so long (a heartbeat comes every second) ends its part of the run."""

FINISH_NS = 20_000_000_000
"""How long a process that ends waits for its part: the worker cuts what is in flight well before."""

SETTLE_NS = 3_000_000_000
"""How long it then waits until the master has acknowledged everything."""

ALONE_NS = 1_000_000_000
"""After an interrupt a worker waits so long for the master's own word: Ctrl-C reaches both, and the master then ends the run."""

STATISTICS_S = 3.0
"""How often a worker sends Locust's own statistics."""

WAITS = "a run goes on, in which this worker has no part: it waits for the next one"

KEPT = 16
"""How many ended runs a process remembers, to tell their stray messages from a new run's."""


logger = logging.getLogger("r1perf")


class Member:
    """One worker of a swarm, for the life of its process; runs come one after the other. `runs` is where it keeps own files.

    `note` takes what people at this machine are told, `complain` what is wrong with it.
    """

    def __init__(
        self,
        environment: Environment,
        runs: Path,
        note: Callable[[str], None] = logger.info,
        complain: Callable[[str], None] = logger.error,
    ) -> None:
        assert environment.runner is not None
        _remember_options()
        self._environment, self._runner, self._runs = environment, environment.runner, runs
        self._note, self._complain = note, complain
        self._loop = GeventLoop(self._failed)
        self._part: Part | None = None
        self._past: list[str] = []
        self._master: wire.Welcome | None = None
        self._place = place()
        self._heard_ns = self._loop.now_ns()
        # Failed requests are the run's result; Locust would make them the worker process's failure.
        self.code = environment.process_exit_code = 0
        self._runner.register_message(wire.DOWN, self._receive, concurrent=True)
        environment.events.heartbeat_received.add_listener(self._on_heartbeat)
        joiner(environment, self._join)
        gevent.spawn(self._greet)
        gevent.spawn(self._watch)

    @property
    def part(self) -> Part | None:
        """Return the part that is measured now; None between runs."""
        return None if self._part is None or self._part.over else self._part

    def finish(self, signal: str = "SIGTERM") -> None:
        """End the part in order and wait until the master has everything: for a process that is about to end."""
        part = self._part
        if part is None:
            return
        if isinstance(self._runner, WorkerRunner) and not len(self._runner.greenlet):
            part.end()  # Locust has ended its own tasks: nothing of the master's comes through any more
        if not part.over and not part.halted:
            part.worker.terminate(signal)
        part.wait(self._loop.now_ns() + FINISH_NS)
        until_ns = self._loop.now_ns() + SETTLE_NS
        while not part.channel.settled and self._loop.now_ns() < until_ns:
            self._loop.sleep_until(self._loop.now_ns() + 50_000_000)

    def interrupt(self, again: bool) -> None:
        """Take a Ctrl-C: wait for the master's word, which has had it too; end alone where there is none."""
        part = self.part
        if part is None:
            return
        if again:
            part.worker.terminate("SIGINT", drain_ns=0)
            return
        self._loop.sleep_until(self._loop.now_ns() + ALONE_NS)
        if not part.halted:
            part.worker.terminate("SIGINT")
        part.wait(self._loop.now_ns() + FINISH_NS)

    def _failed(self, error: BaseException) -> None:
        """End the run in order whose task has failed; see `Worker.failed`."""
        if self._part is not None:
            self._part.worker.failed(error)

    def _join(self) -> Callable[[], None] | None:
        """Start a session for one of Locust's users; return what ends it, None where the plan has its own sessions."""
        part = self.part
        return part.worker.seats.join() if part is not None and part.users else None

    # --- Messages ---

    def _receive(self, environment: Environment, msg: Any, **_: Any) -> None:
        self._heard_ns = self._loop.now_ns()
        frame = wire.decode_frame(msg.data)
        if frame.run:
            if frame.run not in self._past:
                self._part_of(frame.run).take(frame)
            return
        message = wire.decode_to_member(frame.body)
        if isinstance(message, wire.Ping):
            self._say(wire.Pong(message.sent_ns, clock.wall_ns()))
        elif isinstance(message, wire.Welcome):
            self._master = message
            if message.waits:
                self._note(WAITS)

    def _part_of(self, run: str) -> Part:
        if self._part is None or self._part.run != run:
            if self._part is not None:
                self._part.end()
                self._past = [*self._past, self._part.run][-KEPT:]
            self._set_code(0)
            self._part = Part(
                run, self._loop, self._transmit, self._shared, self._runs, self._assigned, self._ending, self._refused
            )
            gevent.spawn(self._part.measure)
        return self._part

    def _assigned(self, assign: messages.Assign) -> Callable[[Result], None]:
        """Take note of an assignment; return what is told its results. Raises an R1perfError where its scenario is wrong.

        In a swarm so large that workers report seldom, Locust's own statistics come no more often: they would cost more.
        """
        runners.WORKER_REPORT_INTERVAL = max(STATISTICS_S, assign.interval_ns / 1e9)
        return teller(self._environment, load(assign.scenario).target.title)

    def _ending(self) -> None:
        """Send Locust's statistics while the master waits for us: Locust's own last report comes too late if it is slow."""
        if isinstance(self._runner, WorkerRunner):
            with contextlib.suppress(RPCError):
                self._runner._send_stats()

    def _refused(self, sentence: str) -> None:
        """Say here too why this worker cannot take part: whoever started it may not see the master."""
        if isinstance(self._runner, WorkerRunner):
            self._set_code(2)
            self._complain(sentence)

    def _set_code(self, code: int) -> None:
        self.code = code
        if isinstance(self._runner, WorkerRunner):  # a single process's is its master's to say
            self._environment.process_exit_code = code

    def _say(self, message: wire.Hello | wire.Pong) -> None:
        self._transmit(wire.Frame("", 0, 0, wire.encode(message)))

    def _transmit(self, frame: wire.Frame) -> None:
        try:
            self._runner.send_message(wire.UP, wire.encode(frame))
        except RPCError:
            return  # whoever needs the message repeats it

    # --- What goes on all the time ---

    def _greet(self) -> None:
        users = tuple(user.__name__ for user in self._environment.user_classes)
        hello = wire.Hello(platform.node(), os.getpid(), self._place, __version__, users)
        while self._master is None:
            self._say(hello)
            gevent.sleep(1)

    def _watch(self) -> None:
        """Repeat what was lost, and notice when the master is gone."""
        while True:
            gevent.sleep(1)
            if self._part is not None:
                self._part.channel.tick()
            if self.part is not None and (self._gone() or self._silent()):
                self._end_alone(self.part)
                return
            if self._gone() and len(self._runner.greenlet):  # where it has no tasks it ends already
                self._note("the master is gone")
                self._runner.quit()
                return

    def _end_alone(self, part: Part) -> None:
        """End without a master, the files complete; the process ends too, since no master knows it any more."""
        self._set_code(3)
        part.end()
        part.wait(self._loop.now_ns() + FINISH_NS)
        self._runner.quit()

    def _gone(self) -> bool:
        """Tell whether the master's process is known to have ended; elsewhere it cannot be seen."""
        master = self._master
        return master is not None and bool(self._place) and master.place == self._place and not alive(master.pid)

    def _silent(self) -> bool:
        return isinstance(self._runner, WorkerRunner) and self._loop.now_ns() - self._heard_ns > ORPHANED_NS

    def _on_heartbeat(self, **_: Any) -> None:
        self._heard_ns = self._loop.now_ns()

    def _shared(self, folder: Path) -> bool:
        """Tell whether a folder of the master's is one of this machine."""
        master = self._master
        return master is not None and bool(self._place) and master.place == self._place and folder.is_dir()


def _remember_options() -> None:
    """Let Locust build its command line once, not once an option: a worker stood still for 50 to 125 ms at every spawn message."""
    if not hasattr(argument_parser.default_args_dict, "cache_info"):
        argument_parser.default_args_dict = functools.cache(argument_parser.default_args_dict)
    argument_parser.default_args_dict()
