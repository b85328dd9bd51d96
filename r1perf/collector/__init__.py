"""The collector of a run: assign shards, announce t0, merge snapshots, feed sinks and terminal, decide when it is over.

It knows no pipes and no sockets: whoever carries the messages calls `receive`, and `tick` a few times a second. The swarm is
this same collector over Locust's messages.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from r1perf import clock, messages, snapshot
from r1perf.collector.ending import Ending, Verdict
from r1perf.collector.order import LEAD_NS, Order, differing
from r1perf.collector.silence import Silence
from r1perf.collector.suspicion import Suspicion
from r1perf.errors import ArchiveError, R1perfError
from r1perf.feed import Feed
from r1perf.schedule import live_stage
from r1perf.sinks import Sink
from r1perf.sla import Standing, terms
from r1perf.summary import Summary
from r1perf.summary.archived import recover_worker
from r1perf.summary.cooling import cooled
from r1perf.summary.limits import exceeded

__all__ = ["LEAD_NS", "Collector", "Order", "Verdict", "View"]

INTERRUPT_DRAIN_NS = 10_000_000_000
"""How long the first Ctrl-C waits for what is in flight; the second does not."""


class View(Protocol):
    """Who watches: the terminal, or nobody."""

    def note(self, sentence: str) -> None:
        """Show a warning or an event."""

    def show(self, summary: Summary, phase: str) -> None:
        """Show the present; called a few times a second."""


class Collector:
    """Carries one run out with the workers named. `send(worker, message)` carries a message to one of them."""

    def __init__(
        self,
        order: Order,
        workers: Sequence[str],
        send: Callable[[str, messages.ToWorker], None],
        sinks: Sequence[Sink],
        view: View,
    ) -> None:
        self._order, self._send, self._view = order, send, view
        self._feed = Feed(sinks, self._sink_failed)
        self._workers = list(workers)
        self._ready: dict[str, messages.Ready] = {}
        self._noted: set[str] = set()  # what workers say alike is told once
        self._running: set[str] = set()  # have been told to go, and are neither done nor gone
        self._merged: dict[str, int] = {}  # the last interval of each worker
        self._silence = Silence(int(order.scenario.interval))
        self._suspicion = Suspicion()
        self._verdict: Verdict | None = None
        self._ending = Ending()
        self._halted = False
        self._cooled = False  # the cooldown was ended since nothing judged was in flight any more
        self._lives = 0  # how often the rate was changed
        self._standing: Standing | None = None
        self._looked = -1  # the last interval after which the clauses were looked at
        self.summary: Summary | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Return how the run ended; None while it goes on."""
        return self._verdict

    def begin(self) -> None:
        """Give every worker its shard."""
        for shard, worker in enumerate(self._workers):
            self.heard(worker)
            self._send(worker, self._order.assign(worker, shard, len(self._workers)))

    # --- What comes ---

    def receive(self, worker: str, message: messages.ToCollector) -> None:
        """Take a worker's message; duplicates and messages out of their phase change nothing."""
        self.heard(worker)
        if self._verdict is not None:
            return
        if isinstance(message, messages.Refused):
            self._take_refused(worker, message.sentence)
        elif isinstance(message, messages.Loading):
            self._view.note(message.sentence)
        elif isinstance(message, messages.Ready):
            self._take_ready(worker, message)
        elif isinstance(message, messages.Report):
            self._merge(worker, message)
        elif isinstance(message, messages.Stopping):
            self._take_stopping(worker, message)
        elif worker in self._running and self.summary is not None:
            self._running.discard(worker)
            self.summary.finish(worker)
            self._check_over()

    def gone(self, worker: str, how: str) -> None:
        """Note that a worker's process ended without being done; what it had written to disk is merged."""
        if self._verdict is not None:
            return
        if self.summary is None:
            self._refuse(f"worker {worker} ended before the run began: {how}")
            return
        if worker in self._running:
            self._running.discard(worker)
            self._note(f"worker {worker} was lost: {how}")
            self._ending.because(f"worker {worker} was lost: {how}")
            self._recover(worker)
            if lost := self.summary.losses(worker):
                self._feed.lose(max(self._merged.values(), default=0), lost)
            self.summary.lose(worker)
            self._ending.failed |= len(self.summary.lost_workers) == len(self._workers)  # nobody measured to the end
            self._check_over()

    def interrupt(self) -> None:
        """Take a Ctrl-C: the first drains, the second cuts what is in flight; the archive is completed either way.

        One that came while sinks were ending changes nothing: the run was over, and it is for the sink that was waited for.
        """
        if self._verdict is not None:
            return
        self._ending.interrupts += 1
        if self.summary is None:
            self._verdict = Verdict(130, "interrupted before the run began", None)
            return
        if self._ending.interrupts == 1:
            seconds = INTERRUPT_DRAIN_NS // 10**9
            self._note(f"interrupted: waiting up to {seconds} s for what is in flight; once more to stop at once")
        self._halt(INTERRUPT_DRAIN_NS if self._ending.interrupts == 1 else 0)

    def stop(self, reason: str, *, asked: bool = False) -> None:
        """End the run early, in order, for a reason; one that was `asked` for by people is no fault of the run."""
        if self._verdict is not None:
            return
        if self._ending.because(reason, asked=asked):
            self._note(f"stopping: {reason}")
        if not self._halted:
            self._halt(None)

    def set_rate(self, rate: float) -> bool:
        """Leave the schedule for arrivals at another rate, in a stage of its own; False where the run does not go on.

        The stage has no end: the run goes on until somebody stops it.
        """
        if self.summary is None or self._halted or self._cooled or self._verdict is not None:
            return False
        run = self.summary.run
        self._lives += 1
        start_ns = max(clock.wall_ns() + self._order.lead_ns - run.started_ns, 0)
        stage = live_stage(run.stages, self._lives, rate, start_ns)
        self.summary.add_stage(stage)
        self._note(f"the rate is {rate:g}/s from {start_ns / 1e9:.1f} s on: stage {stage.name}")
        self._tell(messages.Live(self._lives, rate, start_ns))
        return True

    def restate(self, sentence: str | None, says: Mapping[int, str]) -> None:
        """Tell of a change that was not planned, if there is one; `says` is what stages say of themselves from here on, by index."""
        if self.summary is None or self._halted or self._verdict is not None:
            return
        if sentence is not None:
            self._note(sentence)
        stages = self.summary.stages
        stages[:] = [msgspec.structs.replace(stage, says=says.get(stage.index, stage.says)) for stage in stages]

    def tick(self) -> None:
        """Do what time asks for: write intervals, look at the limits, show the present."""
        if self._verdict is None and self.summary is not None:
            self._write(everything=False)
            self._check_limits()
            self._check_target()
            self._check_clauses()
            self._check_cooldown()
            self._view.show(self.summary, self._phase())

    @property
    def silence_ns(self) -> int:
        """Return how long a running worker may say nothing."""
        return self._silence.limit_ns

    def silent(self) -> list[str]:
        """Return the running workers that have said nothing for too long: whoever owns their processes looks each second, and ends them."""
        return self._silence.among(self._running)

    def add_fact(self, worker: str, name: str, value: Any) -> None:
        """Add what has been found out of a worker to what `run.json` says of it."""
        if self.summary is not None:
            self.summary.run.environment["workers"][worker][name] = value

    def expects(self, worker: str) -> bool:
        """Tell whether a worker has still something to do: get ready, or measure."""
        return self._verdict is None and (self.summary is None or worker in self._running)

    def heard(self, worker: str) -> None:
        """Note that a worker lives, whatever it said."""
        self._silence.heard(worker)

    def _note(self, sentence: str) -> None:
        """Tell people and sinks."""
        self._view.note(sentence)
        self._feed.note(sentence)

    # --- Phases ---

    def _phase(self) -> str:
        return "draining" if self._halted else "running"

    def _refuse(self, sentence: str) -> None:
        self._verdict = Verdict(2, sentence, None)

    def _take_ready(self, worker: str, ready: messages.Ready) -> None:
        if worker in self._ready:
            return
        self._ready[worker] = ready
        for note in [note for note in ready.notes if note not in self._noted]:
            self._noted.add(note)
            self._note(note)
        if (differs := differing(self._ready)) is not None:
            self._refuse(differs)
        elif len(self._ready) == len(self._workers):
            self._go()

    def _go(self) -> None:
        """Open the archive and the other sinks, and announce t0."""
        scenario, t0_ns = self._order.scenario, clock.wall_ns() + self._order.lead_ns
        ready = {worker: self._ready[worker] for worker in self._workers}
        try:
            promised = terms(scenario, [(stage.name, stage.judged) for stage in ready[self._workers[0]].stages])
            run = self._order.run(ready, t0_ns, promised.tightest_limit_ns)
            self._feed.open(run)
        except R1perfError as error:
            self._refuse(str(error))
            return
        self.summary = Summary(run)
        if promised.clauses:
            self._standing = Standing(scenario, promised, self.summary)
        calibrations = {name: facts.calibration for name, facts in run.prompting.items() if facts.calibration is not None}
        for worker in self._workers:
            self._running.add(worker)
            self.heard(worker)  # it may have been ready, and silent, for long while others loaded
            self._send(worker, messages.Go(t0_ns, calibrations))

    def _take_refused(self, worker: str, sentence: str) -> None:
        """End the run, which has begun or not, since a worker cannot do its part."""
        if self.summary is None:
            self._refuse(sentence)
        elif worker in self._running:
            self._ending.failed = True
            self.gone(worker, sentence)
            self.stop(sentence)

    def _take_stopping(self, worker: str, message: messages.Stopping) -> None:
        """Take note that a worker ends early; the others end with it. A wrong target is only what this worker suspects."""
        says = f"worker {worker}: {message.reason}" if len(self._workers) > 1 else message.reason
        if not message.wrong_target:
            self._ending.failed |= message.failed
            self.stop(says)
        elif self.summary is not None:
            run = self.summary.run
            self._suspicion.raised(worker, says, (clock.wall_ns() - run.started_ns) // run.interval_ns)
            self._check_target()

    def _halt(self, drain_ns: int | None) -> None:
        self._halted = True
        self._tell(messages.Halt(drain_ns))

    def _tell(self, message: messages.ToWorker) -> None:
        """Send a message to every running worker."""
        for worker in sorted(self._running):
            self._send(worker, message)

    # --- Snapshots ---

    def _merge(self, worker: str, report: messages.Report) -> None:
        if self.summary is None:
            return
        for encoded in report.snapshots:
            taken = snapshot.decode(encoded)
            if self.summary.merge(taken):
                self._keep(taken)
            self._merged[worker] = max(taken.k, self._merged.get(worker, -1))
        self._send(worker, messages.Ack(self._merged.get(worker, -1)))

    def _recover(self, worker: str) -> None:
        """Merge what a lost worker has written and not reported, as far as it can be read."""
        assert self.summary is not None
        try:
            for taken in recover_worker(self.summary, self._order.folder, worker):
                self._keep(taken)
        except ArchiveError as error:
            self._note(str(error))

    def _keep(self, taken: snapshot.Snapshot) -> None:
        """Count a merged snapshot for the clauses, and leave it to the sinks."""
        assert self.summary is not None
        if self._standing is not None:
            self._standing.add(taken)
        self._feed.add(taken, self.summary.intervals.get(taken.k))

    def _write(self, *, everything: bool) -> None:
        """Give the sinks every interval that all running workers have reported; late data goes alone."""
        newest = max(self._merged.values(), default=-1)
        self._feed.write(newest, self._whole() if self._running else newest, everything=everything)

    def _whole(self) -> int:
        """Return the last interval that all running workers have reported; -1 where there is none."""
        return min((self._merged.get(worker, -1) for worker in self._running), default=-1)

    def _sink_failed(self, sentence: str) -> None:
        """Go on without a sink that cannot write, and end the run in order."""
        self._ending.failed = True
        self.stop(sentence)

    # --- Limits and ends ---

    def _check_limits(self) -> None:
        if self._halted or self.summary is None:
            return
        passed = exceeded(self._order.scenario.stop, self.summary)
        if passed is not None:
            self.stop(passed)

    def _check_target(self) -> None:
        """End a run whose target is wrong: nothing had succeeded on any worker when one was told so."""
        if self._ending.wrong_target or self.summary is None:
            return
        if self._suspicion.confirmed(self.summary, self._running, self._merged) and self._suspicion.says is not None:
            self._ending.wrong_target = True
            self.stop(self._suspicion.says)

    def _check_clauses(self) -> None:
        """End a run in which a clause cannot pass any more, where it is to fail fast; looked at after each whole interval."""
        whole = self._whole()
        if self._halted or self._standing is None or not self._order.scenario.sla.fail_fast or whole <= self._looked:
            return
        self._looked = whole
        broken = self._standing.broken()
        if broken is not None:
            self.stop(f"`{broken.clause}` cannot pass any more: {broken.says}")

    def _check_cooldown(self) -> None:
        """End the cooldown where nothing is left for which it goes on: every worker by itself only knows its own requests."""
        if self._halted or self._cooled or self._lives or self.summary is None or not cooled(self.summary, self._whole()):
            return
        self._cooled = True
        self._tell(messages.Halt(None, waiting=True))

    def _check_over(self) -> None:
        if self._running or self.summary is None or self._verdict is not None:
            return
        self._check_target()
        self._write(everything=True)
        self._verdict = self._ending.verdict(self.summary, self._standing, self._feed)
