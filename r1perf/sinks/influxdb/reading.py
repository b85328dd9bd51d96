"""Rebuild runs from InfluxDB alone: the same summary, and so the same tables, as their archives give."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from r1perf.errors import DatabaseError, UsageError
from r1perf.histogram import Counts
from r1perf.metrics import METRICS
from r1perf.sinks.influxdb.points import COUNTERS, INTERVAL, unit
from r1perf.sinks.influxdb.query import COUNTS, LAST_MS, Bucket
from r1perf.sinks.influxdb.runs import Found, decoded
from r1perf.sinks.influxdb.server import Row
from r1perf.sinks.influxdb.tally import of_points, unequal
from r1perf.snapshot import Counter, Health, Series, Snapshot
from r1perf.summary import Document, Summary, Validity, document
from r1perf.summary.document import Covered
from r1perf.summary.rates import per_chunk

NOT_ENDED = "the run has no end in InfluxDB: it goes on, or it was killed"


class Part(msgspec.Struct, frozen=True):
    """A part of a run to read: offsets from t0 in ns, None for its beginning and end."""

    begin_ns: int | None = None
    end_ns: int | None = None

    @property
    def whole(self) -> bool:
        """Whether it is the whole run."""
        return self.begin_ns is None and self.end_ns is None

    def of_points(self, point_ns: int) -> "Part":
        """Return what the points cover that begin in it, each being so long."""
        begin, end = (None if ns is None else max(-(-ns // point_ns), 0) * point_ns for ns in (self.begin_ns, self.end_ns))
        return Part(begin, end)


def read(bucket: Bucket, found: Found, part: Part) -> Document:
    """Rebuild a run's document, or that of a part of it: every point that begins in the part is merged, exactly.

    Whether the run was valid, and its verdicts, were known at its end and are taken from there; a part has no verdicts. A run
    of which points are missing is invalid, in all of its parts, and has none either. Raises UsageError where no point begins in
    the part.
    """
    run, point_ns = found.run, int(found.fields["point_ns"])
    covered = part.of_points(point_ns)
    begin_ms = (run.started_ns + (covered.begin_ns or 0)) // 1_000_000
    end_ms = LAST_MS if covered.end_ns is None else min((run.started_ns + covered.end_ns) // 1_000_000, LAST_MS)
    counters = bucket.points(COUNTERS, run.run_id)
    wanted = [row for row in counters if begin_ms <= row.time_ms < end_ms]
    if not wanted and not part.whole:
        raise UsageError(f"no point of run {run.run_id} begins in that part: its points hold {point_ns / 1e9:g} s each")
    series = bucket.points(INTERVAL, run.run_id, begin_ms, end_ms) if wanted else []
    summary = Summary(run, covered.begin_ns or 0)
    if not (part.whole and found.ended):
        summary.per_chunk = per_chunk(
            (name, row.tags["workload"], int(n)) for row in counters if "stage" in row.tags for name, n in row.fields.items()
        )
    for late in found.stages[len(run.stages) :]:
        summary.add_stage(late)
    for snapshot in _snapshots(found, wanted, series):
        summary.merge(snapshot)
    for row in counters:
        for stage, offset_ns in _pairs(row.fields.get("stages_ended", "")).items():
            if covered.end_ns is None or offset_ns <= summary.elapsed_ns:  # a part does not know what ends behind it
                summary.ended[stage] = max(offset_ns, summary.ended.get(stage, 0))
    hole = None
    if found.ended:
        valued = series if part.whole else bucket.points(INTERVAL, run.run_id, fields=COUNTS)
        hole = _hole(found, [*counters, *valued])
    return _document(summary, found, part, _in_flight(wanted), hole)


def _hole(found: Found, rows: Sequence[Row]) -> str | None:
    """Say what is not there of a run that has ended: lost, refused, deleted, or too old for the bucket."""
    wrong = unequal(of_points(rows, {stage.name for stage in found.stages if stage.judged}), found.fields)
    if wrong is None:
        return None
    if wrong.there > wrong.of:
        return f"InfluxDB has {wrong}: there are points that the run did not write"
    return f"InfluxDB has {wrong}: points are missing; `r1perf influx replay --all RUN`, with the run's folder, sends them again"


def _document(summary: Summary, found: Found, part: Part, in_flight: int, hole: str | None) -> Document:
    fields = found.fields
    if found.ended:
        status, reason = str(fields["status"]), fields.get("reason")
        reasons = [*([] if hole is None else [hole]), *decoded(fields, "reasons", list[str])]
        validity = Validity(bool(fields["valid"]) and hole is None, reasons)
    else:
        status, reason, validity = "running", NOT_ENDED, Validity(False, [NOT_ENDED])
    if found.ended and part.whole:
        in_flight = int(fields["in_flight"])
    sla = decoded(fields, "sla", list[dict[str, Any]]) if found.ended and part.whole and hole is None else []
    built = document(summary, status, reason, sla)
    early, covered = bool(fields.get("early", False)), None
    if not part.whole:
        run_s = float(fields["elapsed_s"]) if found.ended else None
        covered = Covered(summary.since_ns / 1e9, summary.elapsed_ns / 1e9, run_s)
    counts = built.counts | {"in_flight": in_flight}
    return msgspec.structs.replace(built, early=early, part=covered, validity=validity, counts=counts)


def _snapshots(found: Found, counters: Sequence[Row], series: Sequence[Row]) -> list[Snapshot]:
    """Turn points back into snapshots, each part a worker: one for each flip, and what a point holds in the first of them."""
    by_point: dict[tuple[int, str], _Point] = {}
    for row in (*counters, *series):
        key = (row.time_ms, row.tags.get("part", "0"))
        point = by_point.setdefault(key, _Point(found, row.time_ms))
        if "flips" in row.fields:
            point.generator(row.fields)
        elif "in_flight_flips" in row.fields:
            point.levels[row.tags["workload"]] = _pairs(row.fields["in_flight_flips"])
        elif "stage" in row.tags:
            point.place(row)
    return [snapshot for (_, part), point in sorted(by_point.items()) for snapshot in point.snapshots(f"part {part}")]


class _Point:
    """What one point of time and part holds."""

    def __init__(self, found: Found, time_ms: int) -> None:
        self._found, self._run = found, found.run
        run = found.run
        offset_ns = max(time_ms * 1_000_000 - run.started_ns // 1_000_000 * 1_000_000, 0)
        self._first = -(-offset_ns // run.interval_ns)
        self._flips: dict[int, int] = {}
        self._waiting: dict[int, int] = {}
        self._elapsed_ns = 0
        self.levels: dict[str, dict[int, int]] = {}
        self.series: list[Series] = []
        self.counters: list[Counter] = []

    def generator(self, fields: Mapping[str, Any]) -> None:
        self._flips = _pairs(fields["flips"])
        self._waiting = _pairs(fields.get("waiting_flips", ""))
        self._elapsed_ns = int(fields.get("elapsed_ns", 0))

    def place(self, row: Row) -> None:
        """Take the series, or the counters, of one workload and stage."""
        workload, stage = row.tags["workload"], self._found.stage(row.tags["stage"])
        found = [_series(metric, workload, stage, row.fields) for metric in METRICS if f"{metric}_hdr" in row.fields]
        self.series += found
        if not found:
            self.counters += [Counter(key, workload, stage, int(n)) for key, n in row.fields.items()]

    def snapshots(self, worker: str) -> list[Snapshot]:
        made = []
        flips = sorted(self._flips) or [self._first]
        for k in flips:
            carries = k == flips[0]
            wall_ns = self._run.interval_ns if self._flips.get(k) else 0
            if k == flips[-1]:
                wall_ns = min(max(self._elapsed_ns - k * self._run.interval_ns, 0), self._run.interval_ns)
            made.append(
                Snapshot(
                    worker=worker,
                    k=k,
                    series=self.series if carries else [],
                    counters=self.counters if carries else [],
                    health=Health(0, self._waiting.get(k, 0), 0, wall_ns, 0, 0, 0),
                    in_flight=[(workload, levels[k]) for workload, levels in self.levels.items() if k in levels],
                    ended=[],
                )
            )
        return made


def _series(metric: str, workload: str, stage: int, fields: Mapping[str, Any]) -> Series:
    """Read one histogram; its exact sum, least and most stand beside it, in the first part where it has several."""
    exact, _ = unit(metric)
    try:
        counts = Counts.decode(str(fields[f"{metric}_hdr"]))
    except ValueError as error:
        raise DatabaseError(f"{metric} of {workload} cannot be read from InfluxDB: {error}") from error
    if counts.count != int(fields[f"{metric}_count"]):
        raise DatabaseError(f"{metric} of {workload} in InfluxDB holds {counts.count} values, and its count says otherwise")
    assert counts.least is not None
    assert counts.most is not None
    # Parts of a histogram that was cut hold no sum; their bounds, set the wrong way round, widen nothing.
    whole = f"{metric}_sum{exact}" in fields
    return Series(
        metric,
        workload,
        stage,
        *counts.sparse(),
        count=counts.count,
        total=int(fields[f"{metric}_sum{exact}"]) if whole else 0,
        least=int(fields[f"{metric}_min{exact}"]) if whole else counts.most,
        most=int(fields[f"{metric}_max{exact}"]) if whole else counts.least,
        clamped=int(fields.get(f"{metric}_clamped", 0)),
    )


def _in_flight(rows: Sequence[Row]) -> int:
    """Return what was in flight or waiting at the last flip."""
    latest = max((max(_pairs(row.fields["flips"])) for row in rows if row.fields.get("flips")), default=0)
    return sum(
        int(row.fields.get("in_flight_total", 0)) + int(row.fields.get("waiting", 0))
        for row in rows
        if latest in _pairs(row.fields.get("flips", ""))
    )


def _pairs(text: str) -> dict[int, int]:
    return {int(key): int(value) for key, _, value in (pair.partition("=") for pair in text.split())}
