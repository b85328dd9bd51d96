"""Say what stands beside the charts: the run, its counts and figures, its validity and its verdicts, as one JSON object."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Protocol

import msgspec

from r1perf.arrivals import Closed
from r1perf.errors import R1perfError
from r1perf.launch.run import Ran
from r1perf.scenario import Scenario
from r1perf.schedule.model import DRAIN
from r1perf.sla import read_verdicts, render
from r1perf.summary import Document, Rates, Recent, SeriesRow, Summary, Validity, rates, recent, validity
from r1perf.summary.document import outcome_counts, series_row
from r1perf.swarm.page.history import History
from r1perf.units import Rate

TABLE = ("ttft", "ttfo", "thinking", "itl", "tpot", "e2e", "schedule_delay")
"""The metrics of the table, in its order."""

Phase = Literal["idle", "preparing", "running", "draining", "ended", "refused"]


class Watched(Protocol):
    """What the page looks at: the process that collects."""

    @property
    def running(self) -> bool:
        """Tell whether a run goes on."""

    @property
    def summary(self) -> Summary | None:
        """Return the merged snapshots of the run that goes on, or went on last; None before its t0."""

    @property
    def folder(self) -> Path | None:
        """Return the run's archive."""

    scenario: Scenario | None
    ran: Ran | None

    def stop(self, reason: str) -> None:
        """End the run in order."""

    def set_rate(self, rate: Rate) -> None:
        """Let arrivals come at another rate from now on; raises UsageError where there is none to change."""

    def interrupt(self) -> None:
        """Give what is in flight a bounded time; the second time, none."""


class StageFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One stage as it has come so far; `note` says what is to be said of its being stationary."""

    name: str
    says: str
    judged: bool
    start_s: float | None = None
    end_s: float | None = None
    note: str | None = None


class RunFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was known of a run before it began. `window_s` is how long arrivals go on, None where requests or people end them."""

    id: str
    scenario: str
    target: str
    model: str
    engine: str
    started_ms: int
    interval_s: float
    window_s: float | None = None
    workers: int
    workloads: tuple[str, ...]


class ClauseFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One clause of the SLA; without a verdict while it is not judged yet. `lines` are the whole reckoning."""

    clause: str
    verdict: str | None = None
    says: str | None = None
    lines: str | None = None


class State(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The present, or the end. Latencies are in ms; what is not known is absent."""

    phase: Phase
    status: str | None = None  # finished, interrupted or failed: only at the end
    sentence: str | None = None  # why a run did not begin, or how it ended
    archive: str | None = None
    loop: Literal["open", "closed"] | None = None
    run: RunFacts | None = None
    elapsed_s: float | None = None
    stage: str | None = None
    stages: list[StageFacts] = []  # in the order in which they went on: the drain last, also after stages that were added
    now: Recent | None = None
    counts: dict[str, int] = {}  # scheduled, every outcome, in flight: as `counts` of run.json
    workload_counts: dict[str, dict[str, int]] = {}
    reasons: dict[str, dict[str, int]] = {}
    validity: Validity | None = None
    throughput: Rates | None = None
    tokens_per_chunk: dict[str, float] = {}
    table: list[SeriesRow] = []
    sla: list[ClauseFacts] = []
    notes: list[tuple[int, str]] = []  # wall clock in ms, text


def state(watched: Watched, history: History, phase: str, stage: str | None) -> State:
    """Return the state; `phase` is the collector's word, `stage` the one whose figures are asked for, None the judged ones."""
    said: dict[str, Any] = {"notes": [(note.wall_ns // 1_000_000, note.text) for note in history.notes]}
    scenario, verdict = watched.scenario, watched.ran.verdict if watched.ran is not None else None
    if scenario is not None:
        said["loop"] = "closed" if isinstance(scenario.arrivals, Closed) else "open"
    if history.document is not None and not watched.running:
        folder = watched.ran.folder if watched.ran is not None else None
        said |= {"sentence": verdict.sentence if verdict is not None else None, "archive": str(folder) if folder else None}
        return _ended(history.document, history, stage, said)
    summary = watched.summary
    if watched.running:
        if summary is None or history.run is None:
            return State(phase="preparing", **said)
        return _live(summary, history, "draining" if phase == "draining" else "running", stage, scenario, said)
    if verdict is not None and verdict.document is None:
        return State(phase="refused", sentence=verdict.sentence, **said)
    return State(phase="idle", **said)


def _live(
    summary: Summary, history: History, phase: Phase, stage: str | None, scenario: Scenario | None, said: dict[str, Any]
) -> State:
    now = recent(summary)
    names = {known.name: known.index for known in summary.stages} | {"drain": summary.drain}
    wanted = None if stage is None else names.get(stage, -2)  # -2: of no stage
    workloads = (None, *summary.workloads)
    rows = [
        series_row(metric, workload, stage, counts)
        for metric in TABLE
        for workload in workloads
        if (counts := summary.counts(metric, workload, wanted)).count
    ]
    return State(
        phase="draining" if now.stage == "drain" else phase,
        run=_facts(history, endless=len(summary.stages) > len(summary.run.stages)),
        elapsed_s=summary.elapsed_ns / 1e9,
        stage=now.stage,
        stages=[
            StageFacts(
                name=known.name,
                says=known.says,
                judged=known.judged,
                start_s=window[0] / 1e9 if window else None,
                end_s=window[1] / 1e9 if window else None,
            )
            for known in sorted(summary.stages, key=lambda known: known.name == DRAIN)
            for window in (summary.window(known),)
        ],
        now=now,
        counts=outcome_counts(summary),
        workload_counts={name: outcome_counts(summary, name) for name in summary.workloads},
        reasons={outcome: reasons for outcome in summary.outcomes() if (reasons := summary.reasons(outcome))},
        validity=validity(summary, ended=False),
        throughput=rates(summary, stage=wanted),
        tokens_per_chunk=history.tokens_per_chunk(),
        table=rows,
        sla=[ClauseFacts(clause=clause) for clause in scenario.sla.clauses] if scenario is not None else [],
        **said,
    )


def _ended(document: Document, history: History, stage: str | None, said: dict[str, Any]) -> State:
    shown = set(TABLE)
    return State(
        phase="ended",
        status=document.status,
        run=_facts(history),
        elapsed_s=document.elapsed_s,
        stages=[
            StageFacts(
                name=row.plan.name,
                says=row.plan.says,
                judged=row.plan.judged,
                start_s=row.start_s,
                end_s=row.end_s,
                note=row.note,
            )
            for row in sorted(document.stages, key=lambda row: row.plan.name == DRAIN)
        ],
        counts=document.counts,
        workload_counts={row.name: row.counts for row in document.workloads},
        reasons=document.reasons,
        validity=document.validity,
        throughput=document.throughput
        if stage is None
        else next((row.throughput for row in document.stages if row.plan.name == stage), None),
        tokens_per_chunk=history.tokens_per_chunk(),
        table=[row for row in document.series if row.metric in shown and row.stage == stage],
        sla=_clauses(document.sla),
        **said,
    )


def _facts(history: History, *, endless: bool = False) -> RunFacts:
    """Say what the run is; a stage that was added goes on until somebody stops it."""
    run = history.run
    assert run is not None
    last = run.stages[-1]
    return RunFacts(
        id=run.run_id,
        scenario=run.name,
        target=run.target,
        model=run.model,
        engine=run.engine,
        started_ms=run.started_ns // 1_000_000,
        interval_s=run.interval_ns / 1e9,
        window_s=None if endless or last.follows is not None else last.start_ns / 1e9,
        workers=len(run.workers),
        workloads=run.workloads,
    )


def _clauses(entries: list[dict[str, Any]]) -> list[ClauseFacts]:
    try:
        found = read_verdicts(entries)
    except (msgspec.ValidationError, R1perfError):
        return []
    return [
        ClauseFacts(clause=verdict.clause, verdict=verdict.verdict, says=verdict.says, lines=render(verdict)) for verdict in found
    ]


class Kept:
    """Keep the encoded state for at least a second, and so long that making it takes a twentieth of the time at most.

    However many browsers ask, the process that collects spends no more on them.
    """

    LEAST_NS = 1_000_000_000
    SHARE = 20

    def __init__(self, make: Callable[[str | None], State], now_ns: Callable[[], int]) -> None:
        self._make, self._now_ns = make, now_ns
        self._kept: dict[str | None, tuple[object, int, bytes]] = {}

    def encoded(self, stage: str | None, epoch: object) -> bytes:
        """Return the state as JSON; a new `epoch` (another run, another phase) is seen at once."""
        began_ns = self._now_ns()
        known = self._kept.get(stage)
        if known is not None and known[0] == epoch and began_ns < known[1]:
            return known[2]
        made = msgspec.json.encode(self._make(stage))
        cost_ns = self._now_ns() - began_ns
        self._kept = {key: value for key, value in self._kept.items() if value[0] == epoch}
        self._kept[stage] = epoch, began_ns + max(self.LEAST_NS, self.SHARE * cost_ns), made
        return made
