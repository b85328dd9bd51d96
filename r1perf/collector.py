"""The collector of a run: assign shards, announce t0, merge snapshots, feed sinks and terminal, decide when it is over.

It knows no pipes and no sockets: whoever carries the messages calls `receive`, and `tick` a few times a second. The swarm is
this same collector over Locust's messages.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from r1perf import clock, messages, snapshot
from r1perf.errors import ClauseError, R1perfError
from r1perf.feed import Feed
from r1perf.result import FAILED, Outcome
from r1perf.scenario import Scenario, resolved
from r1perf.schedule import live_stage
from r1perf.sinks import Sink
from r1perf.sla import Standing, entries, exit_code, terms
from r1perf.sla.planned import together
from r1perf.summary import Document, Run, Summary, document, recent
from r1perf.summary.archived import recover_worker
from r1perf.summary.cooling import cooled

LEAD_NS = 200_000_000
"""How long before interval 0 its time is announced: every worker must have it by then."""

SILENCE_NS = 60_000_000_000
"""A worker that says nothing for so long, though its process lives, is given up."""

BY_SIGNAL = "by Ctrl-C or a signal"
"""Why a run is `interrupted`."""

RATE_LEAST = 20
"""An error rate is not taken from fewer ended requests."""

INTERRUPT_DRAIN_NS = 10_000_000_000
"""How long the first Ctrl-C waits for what is in flight; the second does not."""


class Order(msgspec.Struct, frozen=True):
    """What a collector is to carry out."""

    scenario: Scenario  # as the workers get it: a simulated target has its real address
    resolved: dict[str, Any]  # as the archive keeps it
    base: Path
    folder: Path
    run_id: str
    environment: dict[str, Any]
    simulated: bool = False  # the target is the embedded simulated endpoint
    lives: Callable[[], bool] | None = None  # tells whether that endpoint still runs
    lead_ns: int = LEAD_NS
    users: bool = False  # closed loop: sessions are started and ended by the workers' users, not by the plan


class Verdict(msgspec.Struct, frozen=True):
    """How a run ended: the exit code, one sentence where it is not 0, and the document where there is an archive."""

    code: int
    sentence: str | None
    document: Document | None


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
        self._heard_ns: dict[str, int] = {}
        self._verdict: Verdict | None = None
        self._reason: str | None = None
        self._wrong_target = False
        self._failed = False
        self._asked = False
        self._ruled = 0  # the exit code that the clauses ask for
        self._interrupts = 0
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
        now_ns = clock.monotonic_ns()
        for shard, worker in enumerate(self._workers):
            self._heard_ns[worker] = now_ns
            self._send(
                worker,
                messages.Assign(
                    run_id=self._order.run_id,
                    worker=worker,
                    shard=shard,
                    shards=len(self._workers),
                    scenario=resolved(self._order.scenario),
                    base=str(self._order.base),
                    folder=str(self._order.folder),
                    interval_ns=int(self._order.scenario.interval),
                    simulated=self._order.simulated,
                    users=self._order.users,
                ),
            )

    # --- What comes ---

    def receive(self, worker: str, message: messages.ToCollector) -> None:
        """Take a worker's message; duplicates and messages out of their phase change nothing."""
        self._heard_ns[worker] = clock.monotonic_ns()
        if self._verdict is not None:
            return
        if isinstance(message, messages.Refused):
            self._refuse(message.sentence)
        elif isinstance(message, messages.Loading):
            self._view.note(message.sentence)
        elif isinstance(message, messages.Ready):
            self._take_ready(worker, message)
        elif isinstance(message, messages.Report):
            self._merge(worker, message)
        elif isinstance(message, messages.Stopping):
            self._take_stopping(worker, message)
        elif worker in self._running:
            self._running.discard(worker)
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
            self._reason = self._reason or f"worker {worker} was lost: {how}"
            for taken in recover_worker(self.summary, self._order.folder, worker):
                self._keep(taken)
            if lost := self.summary.losses(worker):
                self._feed.lose(max(self._merged.values(), default=0), lost)
            self.summary.lose(worker)
            self._failed |= len(self.summary.lost_workers) == len(self._workers)  # nobody measured to the end
            self._check_over()

    def interrupt(self) -> None:
        """Take a Ctrl-C: the first drains, the second cuts what is in flight; the archive is completed either way.

        One that came while sinks were ending changes nothing: the run was over, and it is for the sink that was waited for.
        """
        if self._verdict is not None:
            return
        self._interrupts += 1
        if self.summary is None:
            self._verdict = Verdict(130, "interrupted before the run began", None)
            return
        if self._interrupts == 1:
            seconds = INTERRUPT_DRAIN_NS // 10**9
            self._note(f"interrupted: waiting up to {seconds} s for what is in flight; once more to stop at once")
        self._halt(INTERRUPT_DRAIN_NS if self._interrupts == 1 else 0)

    def stop(self, reason: str, *, asked: bool = False) -> None:
        """End the run early, in order, for a reason; one that was `asked` for by people is no fault of the run."""
        if self._verdict is not None:
            return
        if self._reason is None:
            self._reason, self._asked = reason, asked
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

    def restate(self, sentence: str, before: str, now: str) -> None:
        """Tell of a change that was not planned; stages that said `before` of themselves say `now` from here on."""
        if self.summary is None or self._halted or self._verdict is not None:
            return
        self._note(sentence)
        stages = self.summary.stages
        stages[:] = [msgspec.structs.replace(stage, says=now) if stage.says == before else stage for stage in stages]

    def tick(self) -> None:
        """Do what time asks for: write intervals, look at the limits, show the present."""
        if self._verdict is None and self.summary is not None:
            self._write(everything=False)
            self._check_limits()
            self._check_clauses()
            self._check_cooldown()
            self._view.show(self.summary, self._phase())

    def silent(self, after_ns: int = SILENCE_NS) -> list[str]:
        """Return the running workers that have said nothing for too long: whoever owns their processes ends them."""
        now_ns = clock.monotonic_ns()
        return [worker for worker in sorted(self._running) if now_ns - self._heard_ns[worker] > after_ns]

    def add_fact(self, worker: str, name: str, value: Any) -> None:
        """Add what has been found out of a worker to what `run.json` says of it."""
        if self.summary is not None:
            self.summary.run.environment["workers"][worker][name] = value

    def expects(self, worker: str) -> bool:
        """Tell whether a worker has still something to do: get ready, or measure."""
        return self._verdict is None and (self.summary is None or worker in self._running)

    def heard(self, worker: str) -> None:
        """Note that a worker lives, whatever it said."""
        self._heard_ns[worker] = clock.monotonic_ns()

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
        first = self._ready[min(self._ready)]
        if ready.digest != first.digest:
            self._refuse(
                f"worker {worker} ({ready.host}) plans a different run ({ready.digest}) than worker {min(self._ready)} "
                f"({first.host}, {first.digest}): their versions of r1perf, Python or the data files differ"
            )
        elif len(self._ready) == len(self._workers):
            self._go()

    def _go(self) -> None:
        """Open the archive and the other sinks, and announce t0."""
        scenario, target = self._order.scenario, self._order.scenario.target
        prompting = {name: facts for ready in self._ready.values() for name, facts in ready.prompting.items()}
        calibrations = {name: facts.calibration for name, facts in prompting.items() if facts.calibration is not None}
        now_ns = clock.wall_ns()
        t0_ns = now_ns + self._order.lead_ns
        stages = self._ready[self._workers[0]].stages
        try:
            promised = terms(scenario, [(stage.name, stage.judged) for stage in stages])
        except ClauseError as error:
            self._refuse(str(error))
            return
        run = Run(
            run_id=self._order.run_id,
            name=scenario.name,
            target=target.title,
            url=target.url,
            model=target.model,
            engine=target.engine,
            started_ns=t0_ns,
            interval_ns=int(scenario.interval),
            stages=stages,
            workloads=tuple(scenario.workload),
            workers=tuple(self._workers),
            planned=together(row for ready in self._ready.values() for row in ready.planned),
            prompting=prompting,
            price=target.price,
            system=target.system,
            tightest_limit_ns=promised.tightest_limit_ns,
            scenario=self._order.resolved,
            labels=scenario.labels,
            environment=self._order.environment | {"workers": self._worker_facts()},
        )
        try:
            self._feed.open(run)
        except R1perfError as error:
            self._refuse(str(error))
            return
        self.summary = Summary(run)
        if promised.clauses:
            self._standing = Standing(scenario, promised, self.summary)
        for worker in self._workers:
            self._running.add(worker)
            self.heard(worker)  # it may have been ready, and silent, for long while others loaded
            self._send(worker, messages.Go(t0_ns, calibrations))

    def _worker_facts(self) -> dict[str, Any]:
        facts = {}
        for worker in self._workers:
            ready = self._ready[worker]
            facts[worker] = {"host": ready.host, "pid": ready.pid, "wall_offset_ns": ready.wall_offset_ns}
            more = {"clock_offset_ns": ready.clock_offset_ns, "folder": ready.folder}
            facts[worker] |= {name: value for name, value in more.items() if value is not None}
        return facts

    def _take_stopping(self, worker: str, message: messages.Stopping) -> None:
        """Take note that a worker ends early; the others end with it."""
        self._wrong_target |= message.wrong_target
        self._failed |= message.failed
        self.stop(f"worker {worker}: {message.reason}" if len(self._workers) > 1 else message.reason)

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

    def _keep(self, taken: snapshot.Snapshot) -> None:
        """Count a merged snapshot for the clauses, and leave it to the sinks."""
        if self._standing is not None:
            self._standing.add(taken)
        self._feed.add(taken)

    def _write(self, *, everything: bool) -> None:
        """Give the sinks every interval that all running workers have reported; late data goes alone."""
        if self.summary is None:
            return
        newest = max(self._merged.values(), default=-1)
        self._feed.write(self.summary.intervals, newest, self._whole() if self._running else newest, everything=everything)

    def _whole(self) -> int:
        """Return the last interval that all running workers have reported; -1 where there is none."""
        return min((self._merged.get(worker, -1) for worker in self._running), default=-1)

    def _sink_failed(self, sentence: str) -> None:
        """Go on without a sink that cannot write, and end the run in order."""
        self._failed = True
        self.stop(sentence)

    # --- Limits and ends ---

    def _check_limits(self) -> None:
        stop, summary = self._order.scenario.stop, self.summary
        if self._halted or summary is None:
            return
        failed = sum(n for outcome, n in summary.outcomes().items() if outcome in FAILED)
        if stop.errors is not None and failed >= stop.errors:
            self.stop(f"{failed} requests have failed, and `stop.errors` is {stop.errors}")
        elif stop.error_rate is not None:
            now = recent(summary, stop.error_rate.window / 1e9)
            rate = now.ended_failed / now.ended if now.ended else 0.0
            if rate > stop.error_rate.above and now.ended >= RATE_LEAST:
                self.stop(
                    f"{rate:.1%} of the {now.ended} requests that ended in the last {stop.error_rate.window} failed, "
                    f"and `stop.error_rate.above` is {stop.error_rate.above:.1%}"
                )

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
        self._write(everything=True)
        status = "interrupted" if self._interrupts else "failed" if self._failed else "finished"
        by_signal = self._interrupts > 0 and self._reason is None
        reason = BY_SIGNAL if by_signal else self._reason
        built = msgspec.structs.replace(document(self.summary, status, reason), early=reason is not None)
        if self._standing is not None:
            verdicts = self._standing.verdicts(built.validity.reasons, reason)
            self._ruled = exit_code(verdicts)
            built = msgspec.structs.replace(built, sla=entries(verdicts))
        if (reason is None or self._asked) and (vain := _in_vain(built)) is not None:
            built = msgspec.structs.replace(built, reason=vain)
            reason, self._reason, self._asked = vain, vain, False
        failure = self._feed.close(built)
        if failure is not None:
            reason = f"{reason}; {failure}" if reason else failure
            self._failed = True
        self._verdict = Verdict(self._code(built), f"interrupted {reason}" if by_signal else reason, built)

    def _code(self, built: Document) -> int:
        if self._interrupts:
            return 130
        if self._wrong_target:
            return 2
        if self._ruled == 1:
            return 1
        early = self._reason is not None and not self._asked
        return self._ruled if built.validity.valid and not early and not self._failed else 3


def _in_vain(built: Document) -> str | None:
    """Say that nothing at all ended well: without a promise to break, such a run must not look like a good one."""
    counts = built.counts
    if not counts["scheduled"] or any(counts.get(outcome) for outcome in (Outcome.OK, Outcome.TRUNCATED)):
        return None
    why = max((outcome for outcome in Outcome if counts.get(outcome)), key=lambda outcome: counts[outcome], default=None)
    return f"none of {counts['scheduled']:,} requests ended well" + (f": mostly {why.replace('_', ' ')}" if why else "")
