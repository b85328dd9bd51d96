"""Write the queries that lay several runs over one another: a row for each moment since the run began, a column for each run."""

from infra.grafana.flux import COVERED, EVER, FIRST, PER_SECOND, RUNS, WHOLE, columns, fields, piped, points, record


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
    field = f"{metric}_${{percentile}}_ms"
    rows = piped(
        points("r1_interval", RUNS, 'r.workload == "${workload}"', FIRST, fields(f"{metric}_count", field)),
        'pivot(rowKey: ["_time", "run_id", "stage"], columnKey: ["_field"], valueColumn: "_value")',
        'group(columns: ["_time", "run_id"])',
        f'sort(columns: ["{metric}_count"])',
        f'last(column: "{metric}_count")',
        record(_time="r._time", run_id="r.run_id", _value=f"r.{field}"),
    )
    return _aligned(rows)


def rate(counter: str) -> str:
    """Lay the rate of a counter over that of other runs, in steps since each run began."""
    generator = " and ".join(f"({each})" for each in (WHOLE, FIRST, fields(COVERED)))
    wanted = f'(r.workload == "${{workload}}" and {fields(counter)}) or ({generator})'
    return _aligned(
        points("r1_counters", RUNS, wanted),
        record(run_id="r.run_id", _field="r._field", _value="r._value", ns="r.ns / int(v: ${step}) * int(v: ${step})"),
        'group(columns: ["run_id", "ns", "_field"])',
        "sum()",
        "group()",
        'pivot(rowKey: ["run_id", "ns"], columnKey: ["_field"], valueColumn: "_value")',
        f"filter(fn: (r) => exists r.{counter} and r.{COVERED} > 0)",
        record(run_id="r.run_id", ns="r.ns", _value=PER_SECOND.replace("r._value", f"r.{counter}")),
        kept=("_time", "_value", "run_id", "_field"),
    )


def level(field: str) -> str:
    """Lay what the generator measured over that of other runs."""
    return _aligned(points("r1_counters", RUNS, WHOLE, FIRST, fields(field)))
