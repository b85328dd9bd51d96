"""One worker: a shard of the run, from its assignment to its last acknowledged snapshot. It only measures.

All of it runs on one loop: the shard's tasks (`shard`), and one that reads what the collector says.
"""

import os
import platform
import traceback
from collections.abc import Callable
from pathlib import Path

from r1perf import clock, messages
from r1perf.errors import ArchiveError, R1perfError
from r1perf.handover import Link
from r1perf.journal import Journals
from r1perf.loop import Loop
from r1perf.result import Result
from r1perf.seats import Seats
from r1perf.setup import Setup, set_up
from r1perf.shard import TERMINATED_DRAIN_NS, Shard


class Worker:
    """One worker process's work; `run()` returns when it is done or the collector is gone.

    `on_result` is told every result, once it has been recorded; it must neither wait nor raise.
    """

    def __init__(self, loop: Loop, link: Link, on_result: Callable[[Result], None] = lambda result: None) -> None:
        self._loop, self._link, self._on_result = loop, link, on_result
        self.seats = Seats(loop)  # of the sessions, where they are started and ended from outside
        self._terminated = loop.event()
        self._shard: Shard | None = None

    def terminate(self, signal: str = "SIGTERM", drain_ns: int = TERMINATED_DRAIN_NS) -> None:
        """End in order, from a signal handler: drain for a bounded time, report, be done."""
        self._terminated.set()
        if self._shard is not None:
            self._shard.stop(f"the worker was asked to end by {signal}", drain_ns=drain_ns)

    def failed(self, error: BaseException) -> None:
        """End in order since a task failed: nobody waits for what it was to do. The log has where, if the fault is ours."""
        if not isinstance(error, R1perfError):
            traceback.print_exception(error)
        if self._shard is not None:
            says = str(error) if isinstance(error, R1perfError) else f"{type(error).__name__}: {error}"
            self._shard.stop(f"the worker failed: {says}", failed=True, drain_ns=TERMINATED_DRAIN_NS)

    def run(self) -> None:
        """Take the assignment, get ready, measure, report."""
        assign = self._link.receive()
        if not isinstance(assign, messages.Assign):
            return
        try:
            setup = set_up(self._loop, assign, lambda sentence: self._link.send(messages.Loading(sentence)))
        except R1perfError as error:
            self._link.send(messages.Refused(str(error)))
            return
        try:
            self._take_part(assign, setup)
        finally:
            setup.client.close()

    def _take_part(self, assign: messages.Assign, setup: Setup) -> None:
        """Say that all is ready, and measure once told to."""
        try:
            journals = Journals(Path(assign.folder), assign.worker)  # what could refuse a run does so before it begins
        except ArchiveError as error:
            self._link.send(messages.Refused(str(error)))
            return
        wall_offset_ns = clock.wall_offset_ns()  # as late as can be: the loading may have taken long, and the clock been set
        self._link.send(
            messages.Ready(
                digest=setup.digest,
                wall_offset_ns=wall_offset_ns,
                pid=os.getpid(),
                host=platform.node(),
                stages=setup.plan.stages,
                notes=setup.notes,
                prompting=dict(setup.prompting),
                planned=setup.planned,
            )
        )
        go = self._link.receive()
        if not isinstance(go, messages.Go):
            journals.close()
            return
        seats = self.seats if assign.users else None
        shard = self._shard = Shard(
            self._loop,
            self._link,
            assign,
            setup.calibrated(go.calibrations),
            journals,
            go.t0_wall_ns - wall_offset_ns,
            wall_offset_ns,
            self._on_result,
            seats,
        )
        if self._terminated.is_set():
            self.terminate()
        listener = self._loop.spawn(self._listen, shard)
        shard.run()
        listener.cancel()

    def _listen(self, shard: Shard) -> None:
        while True:
            message = self._link.receive()
            if isinstance(message, messages.Ack):
                shard.acknowledged(message.k)
            elif isinstance(message, messages.Halt):
                shard.halt(message.drain_ns, waiting=message.waiting)
            elif isinstance(message, messages.Live):
                shard.live(message)
            elif message is None:
                shard.orphaned()
                return
