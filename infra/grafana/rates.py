"""Write the queries of rates: what was counted in each point of the generator, 0 where it did not occur, by the time that is covered.

A counter that did not occur in a point has no field there; left out, the last good rate would stay "now", and a line be drawn over a
stall. Tokens are counted when their request ends, all at once, so they are drawn as the chunks that came, times what a chunk
of the same workload held over the whole run so far: see docs/metrics.md "Throughput". Before a request has told its tokens there is
nothing to draw.

They are short of functions of a row on purpose: InfluxDB 1.8 infers the types of each anew from all before it, 0.7 s for tokens as it is.
"""

from collections.abc import Collection

from infra.grafana.flux import COVERED, EVER, FIRST, RUN, WHOLE, WORKLOADS, columns, fields, piped, points, record
from r1perf.summary.rates import CHUNKS

PER_SECOND = f"r.n / r.{COVERED} * 1000000000.0"
"""The rate of rows of `counted` that were added up."""


def rates(titles: dict[str, str]) -> str:
    """Draw how many a second there were of each counter, step by step."""
    return _drawn(titles, "time(v: int(v: r._time) / int(v: ${step}) * int(v: ${step}))")


def rates_now(titles: dict[str, str]) -> str:
    """Draw how many a second there were of each counter in each point, whatever the step: the last one is now."""
    return _drawn(titles, "r._time")


def counted(counter: str, of: str, workloads: str) -> str:
    """Lay out what was counted (`n`), and what points cover, in rows apart; both add up."""
    row = {"run_id": "r.run_id", "_time": "r._time"}
    if counter in CHUNKS:
        return piped(_told((counter,), of, workloads), *_came(counter, row))
    return piped(_written((counter,), of, workloads), record(**row, n=_only(counter), **{COVERED: _only(COVERED)}))


def added(*names: str) -> str:
    """Add columns up."""
    zeros, sums = (
        ", ".join(each.format(name=name) for name in names) for each in ("{name}: 0.0", "{name}: accumulator.{name} + r.{name}")
    )
    return f"reduce(identity: {{{zeros}}}, fn: (r, accumulator) => ({{{sums}}}))"


def _drawn(titles: dict[str, str], at: str) -> str:
    """Divide what was counted by the time that the points cover, both added up in the same way."""
    if set(titles) <= set(CHUNKS):
        rows = _told(titles, RUN, WORKLOADS)
        drawn = {counter: _tokens(counter, at) for counter in titles}
    else:
        rows = piped(
            _written(titles, RUN, WORKLOADS),
            record(_time=at, **{name: _only(name) for name in (COVERED, *titles)}),
            'group(columns: ["_time"])',
            added(COVERED, *titles),
            f"filter(fn: (r) => r.{COVERED} > 0.0)",
            "group()",
        )
        drawn = {counter: (f"r.{counter} / r.{COVERED} * 1000000000.0",) for counter in titles}
    named = [
        (*steps, record(_time="r._time", _value=value, name=f'"{titles[counter]}"')) for counter, (*steps, value) in drawn.items()
    ]
    ordered = ('group(columns: ["name"])', 'sort(columns: ["_time"])')
    if len(named) == 1:
        return piped(rows, *named[0], *ordered)
    tables = ",\n".join(piped("rows", *steps) for steps in named)
    return f"rows = {rows}\n\n" + piped(f"union(tables: [\n{tables},\n])", *ordered)


def _tokens(counter: str, at: str) -> tuple[str, ...]:
    """Draw tokens: each workload's rate, and all of them together."""
    return (
        *_came(counter, {"_time": at, "workload": "r.workload_held"}),
        f"group(columns: {columns('_time', 'workload')})",
        added(COVERED, "n"),
        f"filter(fn: (r) => r.{COVERED} > 0.0)",
        record(_time="r._time", _value=PER_SECOND),
        'group(columns: ["_time"])',
        "sum()",
        "r._value",
    )


def _written(counters: Collection[str], of: str, workloads: str) -> str:
    """Take the points that have these counters, and those that say what they cover."""
    generator = f'{WHOLE} and {FIRST} and r._field == "{COVERED}"'
    return points("r1_counters", of, f"({workloads} and ({fields(*counters)})) or ({generator})")


def _told(counters: Collection[str], of: str, workloads: str) -> str:
    """Join what may tell of tokens that came with what each workload has told of them in all."""
    came = {name for counter in counters for name in (counter, CHUNKS[counter][0])}
    told = [name for counter in counters for name in (counter, CHUNKS[counter][1])]
    rows = piped(
        _written(sorted(came), of, workloads),
        f"keep(columns: {columns('_time', 'run_id', 'workload', '_field', '_value')})",
        "group()",
    )
    held = piped(
        points("r1_counters", of, workloads, fields(*told), within=EVER),
        record(run_id="r.run_id", workload="r.workload", **{name: _only(name) for name in told}),
        f"group(columns: {columns('run_id', 'workload')})",
        added(*told),
        "group()",
    )
    return f'join(tables: {{rows: {rows}, held: {held}}}, on: ["run_id"])'


def _came(counter: str, row: dict[str, str]) -> tuple[str, str]:
    """Count a workload's chunks, or where it was not streamed its tokens as they are; nothing of one that has told none."""
    chunks, known = CHUNKS[counter]
    what = f'if r.{known} > 0.0 then "{chunks}" else "{counter}"'
    each = f"if r.{known} > 0.0 then r.{counter} / r.{known} else 1.0"
    own = f"r.workload_rows == r.workload_held and r._field == ({what})"
    n = f'if r._field == "{COVERED}" then 0.0 else float(v: r._value) * ({each})'
    return (
        f'filter(fn: (r) => r.{counter} > 0.0 and (r._field == "{COVERED}" or ({own})))',
        record(**row, n=n, **{COVERED: _only(COVERED)}),
    )


def _only(field: str) -> str:
    return f'if r._field == "{field}" then float(v: r._value) else 0.0'
