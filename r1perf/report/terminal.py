"""Draw a run's final tables: readable at 80 columns, and without colour."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from r1perf.metrics import METRICS
from r1perf.report.answers import accuracy_lines, bounds_tables, caching_table, prompting_lines
from r1perf.report.tables import new_table
from r1perf.report.verdicts import print_verdicts
from r1perf.report.wording import count, digits, duration, money, plural, rate, share, span, whole
from r1perf.result import CENSORED, FAILED
from r1perf.schedule.model import DRAIN
from r1perf.sla import read_verdicts
from r1perf.summary import Cost, Document, Rates, SeriesRow, StageRow
from r1perf.summary.document import Covered

LATENCIES = ("ttft", "ttfo", "thinking", "itl", "tpot", "e2e")
TOKENS = ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
_STYLE: dict[str, str] = {**dict.fromkeys(FAILED, "red"), **dict.fromkeys(CENSORED, "yellow")}


def print_report(document: Document, console: Console) -> None:
    """Print everything that is known of a run."""
    rows = {(row.metric, row.workload, row.stage): row for row in document.series}
    _head(document, console)
    _outcomes(document, console)
    names = [workload.name for workload in document.workloads]
    for name in names if len(names) == 1 else [None, *names]:
        title = "all workloads" if name is None else f"workload {name}"
        _print(console, _latencies(title, [rows.get((metric, name, None)) for metric in LATENCIES]))
    _stages(document, console)
    _stage_latencies(document, console, rows)
    _throughput(document, console)
    for table in bounds_tables(document):
        _print(console, table)
    _print(console, _tokens(rows))
    _print(console, caching_table(document, rows))
    for line in _closing(document, rows):
        console.print(line, soft_wrap=False)
    print_verdicts(read_verdicts(document.sla), console)


def _print(console: Console, table: Table) -> None:
    if table.row_count:
        console.print(table)
        console.print()


def _head(document: Document, console: Console) -> None:
    facts = [
        f"{document.name} on {document.target}",
        f"model {document.model}, engine {document.engine}, {document.url}" if document.model else document.url,
        f"{document.started}, {_length(document)}, {plural(len(document.workers), 'worker')}, run {document.run_id}",
    ]
    console.print(Text(facts[0], style="bold"))
    for fact in filter(None, facts[1:]):
        console.print(Text(fact))
    if document.status != "finished":
        console.print(Text(f"{document.status}: {document.reason}" if document.reason else document.status, style="bold yellow"))
    if document.part is not None:
        console.print(_part(document.part))
    console.print()


def _length(document: Document) -> str:
    """Say how long the whole run took."""
    if document.part is None:
        return span(document.elapsed_s)
    return "goes on" if document.part.run_s is None else span(document.part.run_s)


def _part(part: Covered) -> Text:
    of = "" if part.run_s is None else f" of {span(part.run_s)}"
    earlier = "; answers to earlier requests are in it" if part.begin_s > 0 else ""
    return Text(f"part of the run: {span(part.begin_s)} to {span(part.end_s)}{of}; not judged{earlier}", style="bold yellow")


def _outcomes(document: Document, console: Console) -> None:
    scheduled = document.counts.get("scheduled", 0)
    table = new_table("requests", "outcome", "requests", "share", "reasons")
    table.columns[3].justify, table.columns[3].no_wrap = "left", False
    for outcome, n in document.counts.items():
        if outcome == "in_flight" and not n:
            continue
        why = ", ".join(f"{reason} {count(times)}" for reason, times in document.reasons.get(outcome, {}).items())
        style = _STYLE.get(outcome, "") if n else ""
        table.add_row(outcome.replace("_", " "), count(n), share(n, scheduled), why, style=style)
    _print(console, table)
    counters = document.counters
    parts = [
        f"{plural(counters.get('conversations', 0), 'conversation')}, {count(counters.get('conversations_done', 0))} with all turns"
    ]
    for name, words in (
        ("abandoned_turns", "turns never scheduled"),
        ("no_answer", "without an answer"),
        ("length_mismatch", "of another length than ordered"),
        ("reasoning_hidden", "with hidden reasoning"),
        ("not_streamed", "not streamed (no TTFT, ITL, TPOT)"),
        ("late", "sent over 5 ms late"),
    ):
        if counters.get(name):
            parts.append(f"{count(counters[name])} {words}")
    console.print(Text("; ".join(parts)))
    if stray := counters.get("stray_events"):
        lost = "text in them is lost, and its time is in ITL"
        console.print(
            Text(f"{plural(stray, 'event')} held no JSON and went unread: {lost} (`r1perf probe` shows one)", style="yellow")
        )
    console.print()


def _latencies(title: str, rows: list[SeriesRow | None]) -> Table:
    table = new_table(title, "", "count", "p50", "p90", "p95", "p99", "max")
    if not any(rows):
        return table
    for metric, row in zip(LATENCIES, rows, strict=True):
        ranks = (row.p50, row.p90, row.p95, row.p99, row.max) if row else (None,) * 5
        table.add_row(METRICS[metric].title, count(row.count if row else None), *(_shown(row, value) for value in ranks))
    return table


def _shown(row: SeriesRow | None, value: float | None) -> str:
    """Write a percentile, which is its bucket's upper edge, never above the exact maximum beside it."""
    return duration(value if row is None or value is None else min(value, row.max))


def _stages(document: Document, console: Console) -> None:
    table = new_table("stages", "stage", "plan", "window", "requests", "ok", "failed", "req/s", "output tok/s", left=2)
    for row in sorted(document.stages, key=lambda row: row.plan.name == DRAIN):  # stages that were added stand behind it
        if row.start_s is None or row.end_s is None:
            continue
        name = row.plan.name if row.plan.judged else f"{row.plan.name} *"
        failed = sum(n for outcome, n in row.counts.items() if outcome in FAILED)
        ok = row.counts.get("ok", 0) + row.counts.get("truncated", 0)
        rates = row.throughput
        table.add_row(
            name,
            row.plan.says,
            span(row.end_s - row.start_s),
            count(row.counts.get("scheduled", 0)),
            count(ok),
            count(failed),
            rate(rates.requests_per_s if rates else None),
            rate(rates.output_tokens_per_s if rates else None),
        )
    if not table.row_count:
        return
    console.print(table)
    console.print(Text("requests, ok, failed: scheduled in the stage; rates: of what ended in it"))
    if any(not row.plan.judged for row in document.stages if row.start_s is not None):
        console.print(Text("* sent, not judged: not in the other tables"))
    console.print()


def _stage_latencies(document: Document, console: Console, rows: dict[tuple[str, str | None, str | None], SeriesRow]) -> None:
    judged = [row for row in document.stages if row.plan.judged and row.start_s is not None]
    if len(judged) < 2:
        return
    table = new_table("p95 by stage", "stage", *(METRICS[metric].title for metric in LATENCIES))
    for stage in judged:
        found = (rows.get((metric, None, stage.plan.name)) for metric in LATENCIES)
        table.add_row(stage.plan.name, *(_shown(row, row.p95 if row else None) for row in found))
    _print(console, table)


def _throughput(document: Document, console: Console) -> None:
    gpus = document.system.gpus
    per_gpu = ("tok/s per GPU",) if gpus else ()
    table = new_table("throughput in the judged window", "", "req/s", "input tok/s", "output tok/s", "total tok/s", *per_gpu)
    found: list[tuple[str, Rates]] = []
    if len(document.workloads) > 1:
        found += [(row.name, row.throughput) for row in document.workloads if row.throughput]
    if document.throughput:
        found.append(("all", document.throughput))
    for name, rates in found:
        cells = [rates.requests_per_s, rates.input_tokens_per_s, rates.output_tokens_per_s, rates.total_tokens_per_s]
        table.add_row(name, *map(rate, cells), *([rate(rates.total_tokens_per_s_per_gpu)] if gpus else []))
    _print(console, table)


def _tokens(rows: dict[tuple[str, str | None, str | None], SeriesRow]) -> Table:
    table = new_table("tokens of a request", "", "count", "mean", "p50", "p95", "max")
    for metric in TOKENS:
        row = rows.get((metric, None, None))
        if row is not None:
            table.add_row(METRICS[metric].title, count(row.count), digits(row.mean), *map(whole, (row.p50, row.p95, row.max)))
    return table


def _closing(document: Document, rows: dict[tuple[str, str | None, str | None], SeriesRow]) -> Iterator[Text]:
    """Go through the lines below the tables: where tokens came from, cost, the generator, stationarity, validity."""
    sources = [(name, document.counters.get(f"tokens_from_{name}", 0)) for name in ("server", "tokenizer", "chunks")]
    yield from prompting_lines(document)
    known = [f"{name} ({count(n)})" for name, n in sources if n]
    if known:
        yield Text(f"tokens were counted by: {', '.join(known)}")
    untold = document.counters.get("untold", 0)
    if untold:
        yield Text(
            f"nobody told the input tokens of {plural(untold, 'request')}: they are not in the rates of input and total tokens",
            style="yellow",
        )
    for workload in document.workloads:
        yield from accuracy_lines(workload)
    if document.cost:
        yield Text(f"cost: {_cost(document.cost)}")
    delay = rows.get(("schedule_delay", None, None))
    if delay:
        p50, p99, most = (_shown(delay, value) for value in (delay.p50, delay.p99, delay.max))
        yield Text(f"schedule delay: p50 {p50}, p99 {p99}, max {most}")
    clamped = sum(row.clamped for row in document.series if row.workload is None and row.stage is not None)
    if clamped:
        yield Text(f"{plural(clamped, 'value')} lay outside of 0 to 1 h and were counted at its edge", style="yellow")
    for stage in document.stages:
        yield from _stationary(stage)
    if document.validity.valid:
        yield Text("valid: the generator kept up", style="green")
    for reason in document.validity.reasons:
        yield Text(f"INVALID: {reason}", style="bold red")


def _cost(cost: Cost) -> str:
    """Say what the run cost, and between what and what where nobody told all tokens."""
    basis = "GPU hours" if cost.basis == "gpu_hours" else "token prices"
    per_1m = f"{money(cost.usd_per_1m_output_tokens)} per 1M output tokens"
    if not cost.untold:
        return f"{money(cost.usd)} by {basis}, {per_1m}, {money(cost.usd_per_request)} a request"
    most = "with no bound" if cost.usd_most is None else f"{money(cost.usd_most)} at most"
    least = "not known" if cost.usd is None else f"{money(cost.usd)} at least"
    others = f"; of the others {per_1m}" if cost.usd_per_1m_output_tokens is not None else ""
    return f"{least}, {most}, by {basis}: nobody told all tokens of {plural(cost.untold, 'request')}{others}"


def _stationary(stage: StageRow) -> Iterator[Text]:
    if not stage.plan.judged or stage.start_s is None:
        return
    if stage.note:
        yield Text(f"stage {stage.plan.name}: {stage.note}", style="yellow" if stage.stationary is False else "")
    else:
        yield Text(f"stage {stage.plan.name}: stationary")
