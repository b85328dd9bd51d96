"""Build `run.json`: all that reports show, as plain numbers with their units in their names. docs/archive.md describes it."""

from typing import Any

import msgspec

from r1perf import clock
from r1perf.datasets.facts import Prompting
from r1perf.errors import ArchiveError
from r1perf.histogram import Counts
from r1perf.metrics import COUNTERS, METRICS
from r1perf.result import Outcome
from r1perf.schedule import Stage, drain_index
from r1perf.summary.accuracy import Accuracy, accuracy, grades
from r1perf.summary.caching import Caching, caching
from r1perf.summary.censoring import Bounds, bounds
from r1perf.summary.merged import ALL, Summary
from r1perf.summary.rates import Cost, Little, Rates, cost, little, rates
from r1perf.summary.run import PlannedRequests, Run
from r1perf.summary.stationarity import stationarity
from r1perf.summary.validity import Validity, validity
from r1perf.target import Price, System

SCHEMA = 1
RANKS = ("50", "75", "90", "95", "99", "99.9")


class SeriesRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One distribution: `workload` None is all of them, `stage` None the judged ones. ms, or tokens, as `unit` says."""

    metric: str
    workload: str | None = None
    stage: str | None = None
    unit: str
    count: int
    mean: float
    min: float
    max: float
    p50: float
    p75: float
    p90: float
    p95: float
    p99: float
    p999: float
    clamped: int = 0


class StageRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A stage as planned, and what came of it; what was not reached has no window."""

    plan: Stage
    start_s: float | None = None
    end_s: float | None = None
    counts: dict[str, int] = {}
    throughput: Rates | None = None
    stationary: bool | None = None
    note: str | None = None  # about stationarity, where it is not plain


class WorkloadRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A workload's outcomes over the whole run; the rest is of the judged window. `prompting` was known before the run."""

    name: str
    counts: dict[str, int]
    grades: dict[str, int] = {}  # right, wrong, unanswered, truncated; only where answers are graded
    accuracy: Accuracy | None = None
    throughput: Rates | None = None
    caching: Caching | None = None
    prompting: Prompting | None = None


class Covered(msgspec.Struct, frozen=True, omit_defaults=True):
    """Which part of a run a document tells of, as offsets from t0; `run_s` is the whole run's length, None while it goes on."""

    begin_s: float
    end_s: float
    run_s: float | None = None


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run, as `run.json` holds it. `status`: running, finished, interrupted or failed (then `reason` says why)."""

    schema: int
    run_id: str
    status: str
    reason: str | None = None
    early: bool = False  # it ended before its plan did
    name: str
    target: str
    url: str
    model: str
    engine: str
    started: str  # ISO 8601, UTC
    started_ns: int
    elapsed_s: float
    part: Covered | None = None  # where it is not the whole run
    interval_ns: int
    workers: tuple[str, ...] = ()
    planned: tuple[PlannedRequests, ...] = ()
    counts: dict[str, int] = {}  # by outcome, with `scheduled` and `in_flight`
    reasons: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    validity: Validity
    stages: list[StageRow]
    workloads: list[WorkloadRow] = []
    series: list[SeriesRow] = []
    bounds: list[Bounds] = []  # where the run's end cut requests
    throughput: Rates | None = None
    caching: Caching | None = None
    cost: Cost | None = None
    little: Little | None = None
    sla: list[dict[str, Any]]
    tightest_limit_ns: int | None = None
    price: Price = Price()
    system: System = System()
    labels: dict[str, str] = {}
    environment: dict[str, Any] = {}
    scenario: dict[str, Any] = {}

    def run(self) -> Run:
        """Return what was known before the run began."""
        return Run(
            run_id=self.run_id,
            name=self.name,
            target=self.target,
            url=self.url,
            model=self.model,
            engine=self.engine,
            started_ns=self.started_ns,
            interval_ns=self.interval_ns,
            stages=tuple(row.plan for row in self.stages),
            workloads=tuple(row.name for row in self.workloads),
            workers=self.workers,
            planned=self.planned,
            prompting={row.name: row.prompting for row in self.workloads if row.prompting is not None},
            price=self.price,
            system=self.system,
            tightest_limit_ns=self.tightest_limit_ns,
            scenario=self.scenario,
            labels=self.labels,
            environment=self.environment,
        )


def document(
    summary: Summary, status: str = "finished", reason: str | None = None, sla: list[dict[str, Any]] | None = None
) -> Document:
    """Build the document of a run from its summary."""
    run = summary.run
    return Document(
        schema=SCHEMA,
        run_id=run.run_id,
        status=status,
        reason=reason,
        name=run.name,
        target=run.target,
        url=run.url,
        model=run.model,
        engine=run.engine,
        started=clock.utc(run.started_ns).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        started_ns=run.started_ns,
        elapsed_s=summary.covered_ns / 1e9,
        interval_ns=run.interval_ns,
        workers=run.workers or tuple(sorted(summary.latest)),
        planned=run.planned if len(summary.stages) == len(run.stages) else (),  # one was added: it has no end
        counts=outcome_counts(summary),
        reasons={outcome: reasons for outcome in Outcome if (reasons := summary.reasons(outcome))},
        counters={name: n for name in COUNTERS if (n := summary.counter(name, stage=ALL))},
        validity=validity(summary, ended=status != "running"),
        stages=[_stage(summary, stage) for stage in summary.stages],
        workloads=[_workload(summary, name) for name in summary.workloads],
        series=_series(summary),
        bounds=bounds(summary),
        throughput=rates(summary),
        caching=caching(summary),
        cost=cost(summary),
        little=little(summary),
        sla=sla or [],
        tightest_limit_ns=run.tightest_limit_ns,
        price=run.price,
        system=run.system,
        labels=run.labels,
        environment=run.environment,
        scenario=run.scenario,
    )


def encode(built: Document) -> bytes:
    """Write a document as indented JSON, its keys in the order of their declaration."""
    return msgspec.json.format(msgspec.json.encode(built), indent=2) + b"\n"


def decode(data: bytes, what: str = "run.json") -> Document:
    """Read a document; raises ArchiveError where it is damaged or of a newer schema."""
    try:
        read = msgspec.json.decode(data, type=Document)
    except msgspec.MsgspecError as error:
        raise ArchiveError(f"{what} cannot be read: {error}") from error
    if read.schema != SCHEMA:
        raise ArchiveError(f"{what} has schema {read.schema}; this version of r1perf reads schema {SCHEMA}")
    return read


def outcome_counts(summary: Summary, workload: str | None = None, stage: int = ALL) -> dict[str, int]:
    """Return scheduled, in flight and every outcome; in flight by workload and stage follows from the others."""
    outcomes = summary.outcomes(workload, stage)
    scheduled = summary.counter("scheduled", workload, stage)
    whole = workload is None and stage == ALL
    in_flight = summary.in_flight if whole else max(scheduled - sum(outcomes.values()), 0)
    return {"scheduled": scheduled, **{str(outcome): n for outcome, n in outcomes.items()}, "in_flight": in_flight}


def _workload(summary: Summary, name: str) -> WorkloadRow:
    return WorkloadRow(
        name=name,
        counts=outcome_counts(summary, name),
        grades=grades(summary, name),
        accuracy=accuracy(summary, name),
        throughput=rates(summary, name),
        caching=caching(summary, name),
        prompting=summary.run.prompting.get(name),
    )


def _stage(summary: Summary, stage: Stage) -> StageRow:
    window = summary.window(stage)
    steady = stationarity(summary, stage) if stage.judged else None
    return StageRow(
        plan=stage,
        start_s=window[0] / 1e9 if window else None,
        end_s=window[1] / 1e9 if window else None,
        counts=outcome_counts(summary, stage=stage.index),
        throughput=rates(summary, stage=stage.index),
        stationary=steady.stationary if steady else None,
        note=steady.says if steady and not steady.stationary else None,
    )


def _series(summary: Summary) -> list[SeriesRow]:
    """Go through metrics, then workloads (all, each), then stages (judged, each); nothing that was never measured."""
    names = {stage.index: stage.name for stage in summary.stages}
    names.setdefault(drain_index(summary.run.stages), "drain")
    rows = []
    for metric in METRICS.values():
        for workload in (None, *summary.workloads):
            for stage in (None, *names):
                counts = summary.counts(metric.name, workload, stage)
                if counts.count:
                    rows.append(series_row(metric.name, workload, None if stage is None else names[stage], counts))
    return rows


def series_row(metric: str, workload: str | None, stage: str | None, counts: Counts) -> SeriesRow:
    """Return the figures of counts that are not empty."""
    assert counts.least is not None
    assert counts.most is not None
    assert counts.mean is not None
    tokens = METRICS[metric].unit == "tokens"
    unit = 1 if tokens else 1000
    p50, p75, p90, p95, p99, p999 = (value / unit for value in counts.percentiles(RANKS) if value is not None)
    return SeriesRow(
        metric=metric,
        workload=workload,
        stage=stage,
        unit="tokens" if tokens else "ms",
        count=counts.count,
        mean=round(counts.mean / unit, 3),
        min=counts.least / unit,
        max=counts.most / unit,
        p50=p50,
        p75=p75,
        p90=p90,
        p95=p95,
        p99=p99,
        p999=p999,
        clamped=counts.clamped,
    )
