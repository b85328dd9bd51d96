"""Turn a run into points: `r1_interval`, `r1_counters`, `r1_run` and `events`. docs/influxdb.md describes them.

What tells series apart are tags, and a run adds few: (workload, stage, part). Metrics are fields. `<metric>_hdr` is the
encoded histogram, so that any range of points merges exactly; the percentiles beside it are for charts that cannot read it.
"""

from collections.abc import Callable, Iterator

import msgspec

from r1perf.histogram import Counts
from r1perf.metrics import METRICS
from r1perf.schedule import stage_name
from r1perf.sinks.influxdb.coarse import coarse
from r1perf.sinks.influxdb.gather import Group
from r1perf.sinks.influxdb.line import TEXT_LIMIT, Field, line, texts
from r1perf.summary import Document, Rates, Run, SeriesRow
from r1perf.summary.document import RANKS
from r1perf.summary.listed import failures, verdict

INTERVAL, COUNTERS, RUN, EVENTS = "r1_interval", "r1_counters", "r1_run", "events"

RANK_NAMES = tuple(f"p{rank.replace('.', '')}" for rank in RANKS)

Fields = dict[str, Field]


def unit(metric: str) -> tuple[str, str]:
    """Return the endings of a metric's names: of its exact values, and of its percentiles. Tokens need none."""
    return ("", "") if METRICS[metric].unit == "tokens" else ("_us", "_ms")


class Points:
    """Writes one run's points. `group_ns` is how much of it a point holds."""

    def __init__(self, run: Run, group_ns: int) -> None:
        self._run, self._group_ns = run, group_ns
        self._tags = {"run_id": run.run_id, "scenario": run.name, "target": run.target, "model": run.model}

    def group(self, group: Group, reserve: Callable[[], int], spool_bytes: int | None) -> Iterator[str]:
        """Write a group of intervals; `reserve` gives another part where a histogram is too large for one field."""
        time_ms = (self._run.started_ns + group.number * self._group_ns) // 1_000_000
        by_place: dict[tuple[str, int], dict[str, Counts]] = {}
        for (metric, workload, stage), counts in group.series.items():
            by_place.setdefault((workload, stage), {})[metric] = counts
        extra: list[int] = []
        for place, metrics in sorted(by_place.items()):
            for number, fields in enumerate(_metrics(metrics)):
                while number > len(extra):
                    extra.append(reserve())
                part = group.part if number == 0 else extra[number - 1]
                yield line(INTERVAL, self._place(*place, part), fields, time_ms)
        counters: dict[tuple[str, int], Fields] = {}
        for (name, workload, stage), n in group.counters.items():
            counters.setdefault((workload, stage), {})[name] = n
        for place, fields in sorted(counters.items()):
            yield line(COUNTERS, self._place(*place, group.part), dict(sorted(fields.items())), time_ms)
        for workload, levels in sorted(group.levels.items()):
            tags = self._tags | {"workload": workload, "part": str(group.part)}
            yield line(COUNTERS, tags, {"in_flight": levels[max(levels)], "in_flight_flips": _pairs(levels)}, time_ms)
        generator = _generator(group, self._run.interval_ns)
        if group.part == 0 and "elapsed_ns" in generator:
            first = -(-group.number * self._group_ns // self._run.interval_ns)  # the first interval that begins in the group
            generator["covered_ns"] = int(generator["elapsed_ns"]) - first * self._run.interval_ns
        if spool_bytes is not None:
            generator["spool_bytes"] = spool_bytes
        yield line(COUNTERS, self._tags | {"part": str(group.part)}, generator, time_ms)

    def begin(self) -> Iterator[str]:
        """Write the run as it begins."""
        yield line(RUN, self._tags, self._facts() | {"status": "running"}, self._run.started_ns // 1_000_000)

    def end(self, document: Document) -> Iterator[str]:
        """Write the run as it ended, over what was written at its beginning; and each workload's figures."""
        time_ms = self._run.started_ns // 1_000_000
        yield line(RUN, self._tags, self._facts() | _verdict(document) | figures(document, None), time_ms)
        for row in document.workloads:
            yield line(RUN, self._tags | {"workload": row.name}, figures(document, row.name), time_ms)

    def event(self, kind: str, text: str, time_ms: int) -> str:
        """Write an annotation: a stage that begins, a note, the run's end."""
        tags = {"run_id": self._run.run_id, "scenario": self._run.name, "kind": kind}
        return line(EVENTS, tags, {"title": kind, "text": text[: TEXT_LIMIT // 4]}, time_ms)

    def _place(self, workload: str, stage: int, part: int) -> dict[str, str]:
        return self._tags | {"workload": workload, "stage": stage_name(self._run.stages, stage), "part": str(part)}

    def _facts(self) -> Fields:
        """Write what was known before the run began: scenario and labels apart, the rest as `run`."""
        run = self._run
        rest = msgspec.structs.replace(run, scenario={}, labels={}, environment={})
        fields: Fields = {"point_ns": self._group_ns}
        fields.update(
            pair
            for name, value in (
                ("run", rest),
                ("scenario_json", run.scenario),
                ("labels", run.labels),
                ("environment", run.environment),
            )
            for pair in texts(name, msgspec.json.encode(value).decode())
        )
        return fields


def _metrics(metrics: dict[str, Counts]) -> list[Fields]:
    """Return the fields of one workload and stage: one dict, and more where a histogram needs more parts."""
    parts: list[Fields] = [{}]
    for metric in (name for name in METRICS if name in metrics):
        counts = metrics[metric]
        if counts.least is None or counts.most is None:
            continue
        exact, shown = unit(metric)
        payloads = encoded(counts)
        parts += [{} for _ in range(len(payloads) - len(parts))]
        first = parts[0]
        first[f"{metric}_sum{exact}"] = counts.total
        first[f"{metric}_min{exact}"] = counts.least
        first[f"{metric}_max{exact}"] = counts.most
        if counts.clamped:
            first[f"{metric}_clamped"] = counts.clamped
        scale = 1000 if shown else 1
        for name, value in zip(RANK_NAMES, counts.percentiles(RANKS), strict=True):
            assert value is not None
            first[f"{metric}_{name}{shown}"] = value / scale
        first |= coarse(metric, counts)
        for fields, (count, payload) in zip(parts, payloads, strict=False):
            fields[f"{metric}_count"] = count
            fields[f"{metric}_hdr"] = payload
    return parts


def encoded(counts: Counts, limit: int = TEXT_LIMIT) -> list[tuple[int, str]]:
    """Encode a histogram, cut into as many as it takes for each to fit into a field; return how many values each holds."""
    at, numbers = counts.sparse()
    payload = counts.encode()
    if len(payload) < limit or len(at) == 1:
        return [(sum(numbers), payload)]
    half, made = len(at) // 2, []
    for begin, end in ((0, half), (half, len(at))):
        piece = Counts()
        piece.add_sparse(at[begin:end], numbers[begin:end], sum(numbers[begin:end]), 0, 0, 0)
        made += encoded(piece, limit)
    return made


def _generator(group: Group, interval_ns: int) -> Fields:
    """Say how the generator fared, all workers together: the busiest one's CPU, the longest delays, the memory of all."""
    fields: Fields = {"flips": _pairs({k: len(healths) for k, healths in sorted(group.health.items())})}
    reached = {k: healths for k, healths in group.health.items() if healths}
    if group.ended:
        fields["stages_ended"] = _pairs(group.ended)
    if waiting := {k: n for k, healths in sorted(reached.items()) if (n := sum(health.waiting for health in healths))}:
        fields["waiting_flips"] = _pairs(waiting)
    if not reached:
        return fields
    everything = [health for healths in reached.values() for health in healths]
    last = reached[max(reached)]
    return fields | {
        "elapsed_ns": max(k * interval_ns + min(h.wall_ns, interval_ns) for k, healths in reached.items() for h in healths),
        "in_flight_total": sum(health.in_flight for health in last),
        "waiting": sum(health.waiting for health in last),
        "cpu_share": max((health.cpu_ns / health.wall_ns for health in everything if health.wall_ns), default=0.0),
        "loop_lag_max_ms": max(health.loop_lag_max_ns for health in everything) / 1e6,
        "schedule_delay_max_ms": max(health.delay_max_ns for health in everything) / 1e6,
        "rss_bytes": sum(health.rss_bytes for health in last),
    }


def _verdict(document: Document) -> Fields:
    """Say how the run ended."""
    fields: Fields = {
        "status": document.status,
        "verdict": verdict(document),
        "valid": document.validity.valid,
        "early": document.early,
        "in_flight": document.counts.get("in_flight", 0),
        "elapsed_s": document.elapsed_s,
    }
    if document.reason is not None:
        fields["reason"] = document.reason
    stages = [row.plan for row in document.stages]  # with those that were not planned
    for name, value in (("reasons", document.validity.reasons), ("sla", document.sla), ("stages", stages)):
        fields |= texts(name, msgspec.json.encode(value).decode())
    return fields


def figures(document: Document, workload: str | None) -> Fields:
    """Return the run's own figures, over the judged stages: for tables that compare runs."""
    row = next((row for row in document.workloads if row.name == workload), None)
    counts = row.counts if row else document.counts
    fields: Fields = {
        "requests": counts.get("scheduled", 0),
        "ok": counts.get("ok", 0) + counts.get("truncated", 0),
        "failed": failures(counts),
    }
    fields |= _floats(row.throughput if row else document.throughput)
    if workload is None and document.cost is not None:
        fields |= {f"cost_{key}": value for key, value in msgspec.structs.asdict(document.cost).items() if value is not None}
    for series in document.series:
        if series.workload == workload and series.stage is None:
            fields |= _row(series)
    return fields


def _floats(rates: Rates | None) -> Fields:
    return {key: float(value) for key, value in msgspec.structs.asdict(rates).items() if value is not None} if rates else {}


def _row(row: SeriesRow) -> Fields:
    _, shown = unit(row.metric)
    fields: Fields = {f"{row.metric}_count": row.count}
    for name in ("mean", "min", "max", *RANK_NAMES):
        fields[f"{row.metric}_{name}{shown}"] = float(getattr(row, name))
    return fields


def _pairs(values: dict[int, int]) -> str:
    return " ".join(f"{key}={value}" for key, value in sorted(values.items()))
