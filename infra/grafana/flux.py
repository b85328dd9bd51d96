"""Write the dashboards' queries, in a Flux that InfluxDB 2 and InfluxDB 1.8 (Flux 0.65) both understand.

`v.defaultBucket`, `v.timeRangeStart`, `v.timeRangeStop` and `${name}`, `${name:regex}` are filled in by Grafana, which makes a
series of what has `_time` and `_value` (the other columns name it), and a table of all else.

What adds up (counters, `*_count`, `*_le_*`) is summed over workloads, stages and parts. Percentiles do not: those of one interval are
shown as they were written, each workload apart, and those of a whole run are taken from `r1_run`.
"""

from r1perf.result import FAILED
from r1perf.sinks.influxdb.coarse import LIMITS_MS, name

RUN = 'r.run_id == "${run}"'
RUNS = "r.run_id =~ /^${runs:regex}$/"
SCENARIOS = "r.scenario =~ /^${scenario:regex}$/"
WORKLOADS = "r.workload =~ /^${workload:regex}$/"
WHOLE = "not exists r.workload"
FIRST = 'r.part == "0"'
"""Late data is a part of its own: it adds to counts, but its percentiles are those of a few stragglers."""

COVERED = "covered_ns"
"""How much of the run a point of the generator covers: a rate is divided by that, for a step may hold any number of points."""
ENDED_BADLY = "|".join(sorted(FAILED))


SHOWN = "start: v.timeRangeStart, stop: v.timeRangeStop"
EVER = "start: 0"
"""Whenever it was: `r1_run` has its point at the run's beginning, which may lie before the range that is shown."""


def points(measurement: str, *conditions: str, within: str = SHOWN) -> str:
    """Take the points of a measurement that meet all conditions."""
    wanted = (f'r._measurement == "{measurement}"', *conditions)
    return piped(
        "from(bucket: v.defaultBucket)", f"range({within})", *(f"filter(fn: (r) => {condition})" for condition in wanted)
    )


def fields(*names: str) -> str:
    """Take these fields only."""
    return " or ".join(f'r._field == "{each}"' for each in names)


def piped(*steps: str) -> str:
    """Put steps behind one another."""
    return "\n  |> ".join(steps)


def series(label: str, expression: str, value: str = "r._value") -> tuple[str, ...]:
    """Make one series in time of each value of an expression, which names it."""
    return (
        f"map(fn: (r) => ({{_time: r._time, _value: {value}, {label}: {expression}}}))",
        f'group(columns: ["{label}"])',
        'sort(columns: ["_time"])',
    )


def columns(*names: str) -> str:
    """List columns as Flux does."""
    return "[" + ", ".join(f'"{each}"' for each in names) + "]"


def record(**columns: str) -> str:
    """Make a row of named expressions."""
    return "map(fn: (r) => ({" + ", ".join(f'"{column}": {value}' for column, value in columns.items()) + "}))"


def chosen(field: str, titles: dict[str, str]) -> str:
    """Translate a field's name into what people see; what is in no table keeps its name."""
    return "".join(f'if {field} == "{name}" then "{title}" else ' for name, title in titles.items()) + field


# --- Variables: one column, _value ---


def scenarios() -> str:
    """List the scenarios that were run."""
    return _values("scenario", points("r1_run", fields("status")))


def runs() -> str:
    """List the runs of the chosen scenarios, the newest first."""
    return piped(
        points("r1_run", fields("status"), WHOLE, SCENARIOS),
        'keep(columns: ["_time", "run_id"])',
        "group()",
        'sort(columns: ["_time"], desc: true)',
        record(_value="r.run_id"),
    )


def workloads(of: str) -> str:
    """List the workloads of the chosen runs."""
    return _values("workload", points("r1_counters", of, fields("scheduled")))


def _values(tag: str, of: str) -> str:
    """List a tag's values in order; Flux 0.65 has no `distinct` that works on what is in no group."""
    return piped(
        of,
        f'keep(columns: ["{tag}"])',
        "group()",
        f'unique(column: "{tag}")',
        record(_value=f"r.{tag}"),
        'sort(columns: ["_value"])',
    )


# --- One run ---

PER_STEP = 'aggregateWindow(every: ${step}, fn: sum, timeSrc: "_start", createEmpty: false)'
"""Sum what adds up within each step; a step's time is its beginning."""


def outcomes() -> str:
    """Draw how many requests ended in each outcome, step by step."""
    return 'import "strings"\n\n' + piped(
        points("r1_counters", RUN, WORKLOADS, "r._field =~ /^outcome\\./"),
        'group(columns: ["_field"])',
        PER_STEP,
        *series("outcome", 'strings.trimPrefix(v: r._field, prefix: "outcome.")'),
    )


def outcome_totals() -> str:
    """Count the requests of a run by workload, outcome and reason, so far."""
    return piped(
        points("r1_counters", RUN, WORKLOADS, "r._field =~ /^(outcome|reason)\\./"),
        'group(columns: ["workload", "_field"])',
        "sum()",
        "group()",
        record(workload="r.workload", what="r._field", requests="r._value"),
        'sort(columns: ["workload", "what"])',
    )


def failed_share() -> str:
    """Say which share of the requests that ended so far failed; cancelled, dropped and lost ones are in neither number."""
    return piped(
        points("r1_counters", RUN, WORKLOADS, f"r._field =~ /^outcome\\.(ok|truncated|{ENDED_BADLY})$/"),
        record(ended="r._value", failed=f"if r._field =~ /^outcome\\.({ENDED_BADLY})$/ then r._value else 0"),
        "group()",
        "reduce(identity: {ended: 0, failed: 0}, "
        "fn: (r, accumulator) => ({ended: accumulator.ended + r.ended, failed: accumulator.failed + r.failed}))",
        record(_value="float(v: r.failed) / float(v: r.ended)"),
    )


def generator(titles: dict[str, str]) -> str:
    """Draw how the generator fared. Of late data only the first part speaks for all workers."""
    return piped(points("r1_counters", RUN, WHOLE, FIRST, fields(*titles)), *series("name", chosen("r._field", titles)))


def one_a_time(metric: str, of: str, *ranks: str, workloads: str = WORKLOADS) -> str:
    """Take a metric's percentiles of each interval: where a stage ends inside of one, those of the stage with more values."""
    return piped(
        points("r1_interval", of, workloads, FIRST, fields(f"{metric}_count", *(f"{metric}_{rank}_ms" for rank in ranks))),
        'pivot(rowKey: ["_time", "run_id", "workload", "stage"], columnKey: ["_field"], valueColumn: "_value")',
        'group(columns: ["_time", "run_id", "workload"])',
        f'sort(columns: ["{metric}_count"])',
        f'last(column: "{metric}_count")',
    )


def percentiles(metric: str, *ranks: str) -> str:
    """Draw a metric's percentiles of each interval, as they were written: never put together over time or workloads."""
    rows = one_a_time(metric, RUN, *ranks)
    drawn = [record(_time="r._time", _value=f"r.{metric}_{rank}_ms", name=f'r.workload + " {rank}"') for rank in ranks]
    ordered = ('group(columns: ["name"])', 'sort(columns: ["_time"])')
    if len(drawn) == 1:
        return piped(rows, *drawn, *ordered)
    tables = ",\n  ".join(f"rows |> {each}" for each in drawn)
    return f"rows = {rows}\n\n" + piped(f"union(tables: [\n  {tables},\n])", *ordered)


def percentile_now(metric: str, rank: str) -> str:
    """Tell a metric's percentile of each workload in the last interval; nothing where it has no value there."""
    last = piped(points("r1_counters", RUN, WHOLE, FIRST, fields(COVERED)), "last()", 'keep(columns: ["_time"])')
    row = record(_time="r._time", _value=f"r.{metric}_{rank}_ms", name="r.workload")
    rows = piped(one_a_time(metric, RUN, rank), "group()", row)
    return piped(f'join(tables: {{rows: {rows}, last: {last}}}, on: ["_time"])', 'group(columns: ["name"])')


def heatmap(metric: str) -> str:
    """Count the values of each step in a few cells, named by their upper limits in ms."""
    cells, below = {"_time": "r._time"}, ""
    for limit in LIMITS_MS[metric]:
        field = f"r.{name(metric, limit)}"
        cells[str(limit)] = field + below
        below = f" - {field}"
    cells["+Inf"] = f"r.{metric}_count{below}"
    return piped(
        points("r1_interval", RUN, WORKLOADS, fields(f"{metric}_count", *(name(metric, limit) for limit in LIMITS_MS[metric]))),
        'group(columns: ["_field"])',
        PER_STEP,
        "group()",
        'pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")',
        record(**cells),
        'sort(columns: ["_time"])',
    )


def cells(metric: str) -> list[str]:
    """Name a heatmap's cells, the lowest first."""
    return [*map(str, LIMITS_MS[metric]), "+Inf"]


def events() -> str:
    """List what is to be marked: stages, notes, the end."""
    return piped(
        points("events", RUN, fields("title", "text")),
        'keep(columns: ["_time", "_field", "_value", "kind"])',
        "group()",
        'pivot(rowKey: ["_time", "kind"], columnKey: ["_field"], valueColumn: "_value")',
    )


# --- Runs as a whole ---


def table(conditions: tuple[str, ...], tags: dict[str, str], figures: dict[str, str], within: str = EVER) -> str:
    """Lay out a row a run (or a run's workload) with its own figures: tags and fields of `r1_run` by their titles."""
    shown = {"time": "r._time"} | {title: f"r.{column}" for column, title in (tags | figures).items()}
    return piped(
        points("r1_run", *conditions, fields(*figures), within=within),
        f'pivot(rowKey: {columns("_time", *tags)}, columnKey: {columns("_field")}, valueColumn: "_value")',
        "group()",
        record(**shown),
        'sort(columns: ["time"], desc: true)',
    )
