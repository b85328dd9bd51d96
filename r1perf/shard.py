"""The measured part of a worker: one shard's traffic, its flips and reports, between t0 and the end.

Beside the dispatcher and the conversations (`traffic`), a task flips the recorder once an interval, and another writes what has
ended and reports the snapshots that are on disk. Files are written on a thread, so that no disk delays a timestamp or a flip.
"""

from collections.abc import Callable

from r1perf import messages, snapshot
from r1perf.client import Ticket
from r1perf.errors import ArchiveError
from r1perf.handover import Handover, Link
from r1perf.health import Health
from r1perf.journal import Journals
from r1perf.loop import Loop
from r1perf.recorder import Recorder
from r1perf.result import FAILED, Outcome, Result
from r1perf.seats import Seats
from r1perf.setup import Setup
from r1perf.traffic import Traffic

TERMINATED_DRAIN_NS = 10_000_000_000
"""How long a worker that is asked to end by a signal waits for what is in flight."""

DRAIN_LOOK_NS = 200_000_000
"""How often a drain looks whether it has been shortened."""

WRONG_TARGET = frozenset({401, 403, 404})
"""Statuses that say, where nothing has succeeded yet, that the target is wrong rather than overloaded."""


class Shard:
    """Carries a shard out and reports it; `run()` returns when all is reported, or nobody is left to report to."""

    def __init__(
        self,
        loop: Loop,
        link: Link,
        assign: messages.Assign,
        setup: Setup,
        journals: Journals,
        t0_ns: int,
        wall_offset_ns: int,
        on_result: Callable[[Result], None],
        seats: Seats | None,
    ) -> None:
        self._loop, self._link, self._setup, self._t0_ns, self._told = loop, link, setup, t0_ns, on_result
        self._interval_ns, self._journals = assign.interval_ns, journals
        self._recorder = Recorder(assign.worker, setup.plan.stages, t0_ns, assign.interval_ns, setup.record_chunks, setup.tallies)
        self._traffic = Traffic(
            loop,
            setup.plan,
            t0_ns,
            setup.sources,
            setup.client,
            self._recorder,
            seed=setup.seed,
            max_in_flight=setup.max_in_flight,
            budget=setup.budget,
            on_scheduled=self._on_scheduled,
            on_result=self._on_result,
            on_limit=self.stop,
            seats=seats,
        )
        self._health = Health(loop, wall_offset_ns)
        self._cut_ns: int | None = None  # when what is still in flight is cancelled; None: it is waited for
        self._failures = 0
        self._succeeded = self._suspected = False
        self._stopped = False
        self._orphaned = False
        self._started = loop.event()  # nothing is left to be started
        self._ended = loop.event()  # every request has an outcome
        self._handover = Handover(loop, link)
        self._snapshot_count = 0
        self._flipped: list[tuple[int, bytes]] = []  # snapshots that are not on disk yet
        self._all_flipped = False
        self._unwritten = loop.event()

    def run(self) -> None:
        """Measure until all is reported, or nobody is left to report to."""
        flips = self._loop.spawn(self._flip_all)
        writing = self._loop.spawn(self._write_all)
        self._loop.spawn(self._start_all)
        self._started.wait()
        self._bound(self._setup.drain_ns)
        self._drain()
        self._ended.set()
        flips.join()
        self._all_flipped = True
        self._unwritten.set()
        writing.join()
        self._handover.settle()
        self._health.close()
        self._close_files()
        if not self._orphaned:
            self._link.send(messages.Done(self._snapshot_count))

    # --- Ends ---

    def stop(self, reason: str, *, failed: bool = False, drain_ns: int | None = None) -> None:
        """Begin to end before the schedule does, and tell why; only the first reason counts."""
        if not self._stopped:
            self._stopped = True
            self._link.send(messages.Stopping(reason, failed=failed))
        self.halt(drain_ns)

    def halt(self, drain_ns: int | None = None, *, waiting: bool = False) -> None:
        """Start nothing more; `drain_ns`, where given, bounds the wait for what is in flight from now on."""
        self._bound(drain_ns)
        self._traffic.halt(waiting=waiting)
        self._started.set()

    def acknowledged(self, k: int) -> None:
        """Take note that the collector has merged all up to interval `k`."""
        self._handover.acknowledged(k)

    def live(self, change: messages.Live) -> None:
        """Leave the schedule for arrivals at another rate; one that comes when nothing is started any more changes nothing."""
        if not self._started.is_set():
            self._traffic.live(change.number, change.rate, change.start_ns)

    def orphaned(self) -> None:
        """End at once: the collector is gone. What was measured is on disk."""
        self._orphaned = True
        self._handover.give_up()
        self.halt(0)

    def _bound(self, drain_ns: int | None) -> None:
        if drain_ns is not None:
            until_ns = self._loop.now_ns() + drain_ns
            self._cut_ns = until_ns if self._cut_ns is None else min(self._cut_ns, until_ns)

    def _start_all(self) -> None:
        self._traffic.run()
        self._started.set()

    def _drain(self) -> None:
        """Wait for what is in flight, and cut it when the time for that is over (which may be shortened meanwhile)."""
        while True:
            now_ns = self._loop.now_ns()
            cut_ns = self._cut_ns
            if self._traffic.drained(min(now_ns + DRAIN_LOOK_NS, cut_ns or now_ns + DRAIN_LOOK_NS)):
                return
            if cut_ns is not None and self._loop.now_ns() >= cut_ns:
                self._traffic.cancel()
                self._traffic.drained()
                return

    # --- Requests ---

    def _on_scheduled(self, ticket: Ticket) -> None:
        self._journals.scheduled.write(ticket)
        self._unwritten.set()

    def _on_result(self, result: Result) -> None:
        self._journals.requests.write(result)
        self._unwritten.set()
        self._told(result)
        if result.outcome in FAILED:
            self._failures += 1
            if result.status in WRONG_TARGET and not self._succeeded:
                self._suspect(result)
            if self._setup.stop_errors is not None and self._failures >= self._setup.stop_errors:
                self.stop(f"{self._failures} requests have failed, as many as `stop.errors` allows")
        elif result.outcome in (Outcome.OK, Outcome.TRUNCATED):
            self._succeeded = True

    def _suspect(self, result: Result) -> None:
        """Tell, once, that the target seems to be the wrong one; the collector knows whether anything has succeeded elsewhere."""
        if not self._suspected:
            self._suspected = True
            said = f" ({result.message})" if result.message else ""
            reason = f"the target first answered HTTP {result.status}, before anything had succeeded{said}"
            self._link.send(messages.Stopping(reason, wrong_target=True))

    # --- Intervals ---

    def _flip_all(self) -> None:
        k, last = 0, False
        while not last:
            end_ns = self._t0_ns + (k + 1) * self._interval_ns
            # An interval ends on its boundary, however late it is flipped; the very last one when the last request has.
            last = self._ended.wait(end_ns) and self._loop.now_ns() < end_ns
            self._flip(self._loop.now_ns() + 1 if last else end_ns, last=last)
            k += 1

    def _flip(self, end_ns: int, *, last: bool) -> None:
        reading = self._health.read()
        taken = self._recorder.flip(
            end_ns,
            waiting=self._traffic.gate.waiting,
            cpu_ns=reading.cpu_ns,
            wall_ns=reading.wall_ns,
            loop_lag_max_ns=reading.loop_lag_max_ns,
            stalled_ns=reading.stalled_ns,
            rss_bytes=reading.rss_bytes,
            clock_step_ns=reading.clock_step_ns,
            last=last,
        )
        encoded = snapshot.encode(taken)
        self._snapshot_count += 1
        self._flipped.append((taken.k, encoded))
        self._unwritten.set()

    # --- Files ---

    def _write_all(self) -> None:
        """Write what waits as soon as a thread is free for it, and report the snapshots among it.

        What has ended survives a killed process; a snapshot is on disk before the collector has it, unless the disk is full.
        """
        while not self._all_flipped or self._flipped:
            self._unwritten.wait()
            self._unwritten.clear()
            flipped, self._flipped = self._flipped, []
            for _, encoded in flipped:  # not while a thread writes: every request that one counts is on disk before it
                self._journals.snapshots.write(encoded)
            self._flush()
            self._handover.add(flipped)

    def _flush(self) -> None:
        """Write on a thread; a full disk ends the run in order."""
        try:
            self._loop.offload(self._journals.flush)
        except ArchiveError as error:
            self.stop(str(error), failed=True, drain_ns=TERMINATED_DRAIN_NS)

    def _close_files(self) -> None:
        try:
            self._journals.close()
        except ArchiveError as error:
            self.stop(str(error), failed=True)
