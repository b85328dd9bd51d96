"""Write the queries that lay several runs over one another: a row for each moment since the run began, a column for each run."""

from infra.grafana.flux import COVERED, EVER, FIRST, RUNS, WHOLE, columns, fields, one_a_time, piped, points, record
from infra.grafana.rates import PER_SECOND, added, counted

WORKLOAD = 'r.workload == "${workload}"'


def _aligned(data: str, *value: str, kept: tuple[str, ...] = ("_time", "_value", "run_id")) -> str:
    """Lay runs over one another: a row for each second since the run began, a column for each run."""
    starts = piped(
        points("r1_run", RUNS, WHOLE, fields("status"), within=EVER),
        'keep(columns: ["_time", "run_id"])',
        'rename(columns: {_time: "began"})',
        "group()",
    )
    values = piped(data, f"keep(columns: {columns(*kept)})", "group()")
    ours = {each: f"r.{each}" for each in kept if each != "_time"}
    return f"starts = {starts}\n\ndata = {values}\n\n" + piped(
        'join(tables: {data: data, starts: starts}, on: ["run_id"])',
        record(**ours, ns="int(v: r._time) - int(v: r.began)"),
        *value,
        record(run_id="r.run_id", _value="r._value", seconds="float(v: r.ns) / 1000000000.0"),
        "group()",
        'pivot(rowKey: ["seconds"], columnKey: ["run_id"], valueColumn: "_value")',
        'sort(columns: ["seconds"])',
    )


def percentile(metric: str) -> str:
    """Lay a percentile of one workload over that of other runs, interval by interval."""
    rows = one_a_time(metric, RUNS, "${percentile}", workloads=WORKLOAD)
    value = record(_time="r._time", run_id="r.run_id", _value=f"r.{metric}_${{percentile}}_ms")
    return _aligned(piped(rows, value))


def rate(counter: str) -> str:
    """Lay the rate of a counter over that of other runs, in steps since each run began."""
    row = {"n": "r.n", COVERED: f"r.{COVERED}"}
    return _aligned(
        counted(counter, RUNS, WORKLOAD),
        record(run_id="r.run_id", ns="r.ns / int(v: ${step}) * int(v: ${step})", **row),
        'group(columns: ["run_id", "ns"])',
        added(COVERED, "n"),
        f"filter(fn: (r) => r.{COVERED} > 0.0)",
        "group()",
        record(run_id="r.run_id", ns="r.ns", _value=PER_SECOND),
        kept=("_time", "run_id", *row),
    )


def level(field: str) -> str:
    """Lay what the generator measured over that of other runs."""
    return _aligned(points("r1_counters", RUNS, WHOLE, FIRST, fields(field)))
