"""The measured part of a worker: one shard's traffic, its flips and reports, between t0 and the end.

Beside the dispatcher and the conversations (`traffic`), a task flips the recorder once an interval and reports, and another writes
what has ended. Files are written on a thread, so that no disk delays a timestamp.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from r1perf import messages, snapshot
from r1perf.dispatch import Gate
from r1perf.errors import ArchiveError
from r1perf.health import Health
from r1perf.journal import RequestsJournal, SnapshotsJournal
from r1perf.loop import Loop
from r1perf.recorder import Recorder
from r1perf.result import FAILED, Outcome, Result
from r1perf.seats import Seats
from r1perf.setup import Setup
from r1perf.traffic import Traffic

RESEND_NS = 5_000_000_000
"""A report that was not acknowledged for so long is sent again; the collector merges each snapshot once."""

TERMINATED_DRAIN_NS = 10_000_000_000
"""How long a worker that is asked to end by a signal waits for what is in flight."""

DRAIN_LOOK_NS = 200_000_000
"""How often a drain looks whether it has been shortened."""

WRONG_TARGET = frozenset({401, 403, 404})
"""Statuses that say, where nothing has succeeded yet, that the target is wrong rather than overloaded."""


class Link(Protocol):
    """The way to the collector."""

    def send(self, message: messages.ToCollector) -> None:
        """Send without waiting."""

    def receive(self) -> "messages.ToWorker | None":
        """Wait for the next message; None when the collector is gone."""


class Shard:
    """Carries a shard out and reports it; `run()` returns when all is reported, or nobody is left to report to."""

    def __init__(
        self,
        loop: Loop,
        link: Link,
        assign: messages.Assign,
        setup: Setup,
        t0_ns: int,
        wall_offset_ns: int,
        on_result: Callable[[Result], None],
        seats: Seats | None,
    ) -> None:
        self._loop, self._link, self._setup, self._t0_ns, self._told = loop, link, setup, t0_ns, on_result
        self._interval_ns = assign.interval_ns
        folder = Path(assign.folder)
        self._requests = RequestsJournal(folder, assign.worker)
        self._snapshots = SnapshotsJournal(folder, assign.worker)
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
            on_result=self._on_result,
            on_limit=self.stop,
            seats=seats,
        )
        self._health = Health(loop, wall_offset_ns)
        self._cut_ns: int | None = None  # when what is still in flight is cancelled; None: it is waited for
        self._failures = 0
        self._succeeded = False
        self._stopped = False
        self._orphaned = False
        self._started = loop.event()  # nothing is left to be started
        self._ended = loop.event()  # every request has an outcome
        self._heard = loop.event()  # an acknowledgement has come, or never will
        self._unacknowledged: list[tuple[int, bytes]] = []
        self._resend_ns = 0  # when the outstanding report is sent again; 0: none is outstanding
        self._snapshot_count = 0
        self._disk = Gate(loop, 1)  # one thread writes at a time
        self._unwritten = loop.event()

    def run(self) -> None:
        """Measure until all is reported, or nobody is left to report to."""
        flips = self._loop.spawn(self._flip_all)
        writing = self._loop.spawn(self._write_results)
        self._loop.spawn(self._start_all)
        self._started.wait()
        self._bound(self._setup.drain_ns)
        self._drain()
        self._ended.set()
        flips.join()
        self._disk.enter()  # no thread writes while the files are closed
        writing.cancel()
        self._health.close()
        self._close_files()
        if not self._orphaned:
            self._link.send(messages.Done(self._snapshot_count))

    # --- Ends ---

    def stop(self, reason: str, *, wrong_target: bool = False, failed: bool = False, drain_ns: int | None = None) -> None:
        """Begin to end before the schedule does, and tell why; only the first reason counts."""
        if not self._stopped:
            self._stopped = True
            self._link.send(messages.Stopping(reason, wrong_target=wrong_target, failed=failed))
        self.halt(drain_ns)

    def halt(self, drain_ns: int | None = None, *, waiting: bool = False) -> None:
        """Start nothing more; `drain_ns`, where given, bounds the wait for what is in flight from now on."""
        self._bound(drain_ns)
        self._traffic.halt(waiting=waiting)
        self._started.set()

    def live(self, change: messages.Live) -> None:
        """Leave the schedule for arrivals at another rate; one that comes when nothing is started any more changes nothing."""
        if not self._started.is_set():
            self._traffic.live(change.number, change.rate, change.start_ns)

    def orphaned(self) -> None:
        """End at once: the collector is gone. What was measured is on disk."""
        self._orphaned = True
        self._heard.set()
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

    # --- Results ---

    def _on_result(self, result: Result) -> None:
        self._requests.write(result)
        self._unwritten.set()
        self._told(result)
        if result.outcome in FAILED:
            self._failures += 1
            if result.status in WRONG_TARGET and not self._succeeded:
                said = f" ({result.message})" if result.message else ""
                self.stop(
                    f"the target first answered HTTP {result.status}, before anything had succeeded{said}", wrong_target=True
                )
            elif self._setup.stop_errors is not None and self._failures >= self._setup.stop_errors:
                self.stop(f"{self._failures} requests have failed, as many as `stop.errors` allows")
        elif result.outcome in (Outcome.OK, Outcome.TRUNCATED):
            self._succeeded = True

    # --- Intervals ---

    def _flip_all(self) -> None:
        k, ended = 0, False
        while not ended:
            end_ns = self._t0_ns + (k + 1) * self._interval_ns
            ended = self._ended.wait(end_ns)
            # An interval ends on its boundary; the very last one when the last request has.
            self._flip(min(end_ns, self._loop.now_ns() + 1) if ended else end_ns, last=ended)
            k += 1
        while self._unacknowledged and not self._orphaned:
            self._heard.clear()
            self._report()
            self._heard.wait(self._loop.now_ns() + RESEND_NS)

    def _flip(self, end_ns: int, *, last: bool) -> None:
        reading = self._health.read()
        taken = self._recorder.flip(
            end_ns,
            waiting=self._traffic.gate.waiting,
            cpu_ns=reading.cpu_ns,
            wall_ns=reading.wall_ns,
            loop_lag_max_ns=reading.loop_lag_max_ns,
            rss_bytes=reading.rss_bytes,
            clock_step_ns=reading.clock_step_ns,
            last=last,
        )
        encoded = snapshot.encode(taken)
        self._snapshot_count += 1
        self._snapshots.write(encoded)
        self._flush()
        self._unacknowledged.append((taken.k, encoded))
        self._report()

    # --- Files ---

    def _write_results(self) -> None:
        """Write ended requests as soon as a thread is free for it: what has ended survives a killed process."""
        while True:
            self._unwritten.wait()
            self._unwritten.clear()
            self._flush()

    def _flush(self) -> None:
        """Write what waits, on a thread; a full disk ends the run in order."""
        self._disk.enter()
        try:
            self._loop.offload(self._flush_files)
        except ArchiveError as error:
            self.stop(str(error), failed=True, drain_ns=TERMINATED_DRAIN_NS)
        finally:
            self._disk.leave()

    def _flush_files(self) -> None:
        self._requests.flush()
        self._snapshots.flush()

    def _close_files(self) -> None:
        for journal in (self._requests, self._snapshots):
            try:
                journal.close()
            except ArchiveError as error:
                self.stop(str(error), failed=True)

    # --- Reports ---

    def _report(self) -> None:
        """Send what is not acknowledged, unless a report is outstanding that may still be."""
        now_ns = self._loop.now_ns()
        if self._unacknowledged and now_ns >= self._resend_ns:
            self._resend_ns = now_ns + RESEND_NS
            self._link.send(messages.Report([encoded for _, encoded in self._unacknowledged]))

    def acknowledged(self, k: int) -> None:
        """Forget what is merged; send what has come since."""
        self._unacknowledged = [(own, encoded) for own, encoded in self._unacknowledged if own > k]
        self._resend_ns = 0
        self._report()
        self._heard.set()
