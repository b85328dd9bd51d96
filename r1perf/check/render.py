"""Show the plan of a run to people, at 80 columns."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from r1perf.budget import usd
from r1perf.check.expect import time_text
from r1perf.check.plan import Check
from r1perf.check.rows import Row

TITLES = ("conversations", "requests", "requests/s", "output tok/s", "in flight")


def render(made: Check) -> list[RenderableType]:
    """Return what people see of a plan: head, a table by stage and workload, cost, assumptions, warnings."""
    return [*_head(made), *_stages(made), *_tail(made)]


def _head(made: Check) -> Iterator[RenderableType]:
    yield f"[bold]{made.scenario}[/bold] against {escape(made.target)}"
    yield f"schedule {made.digest}"
    yield ""


def _stages(made: Check) -> Iterator[RenderableType]:
    """Show one table in parts of equal columns, so that what a stage is can stand on a line of its own."""
    first = max(len(name) for name in ("all", *made.needs))
    yield _part(first, [("", *TITLES)])
    for stage in made.stages[:-1]:
        rows = [row for row in made.rows if row.stage == stage.name]
        lasts = f", {time_text(rows[0].seconds)}" if rows else ""
        mark = "" if stage.judged else " (not judged)"
        yield Text(f"{stage.name}{lasts}{mark}: {stage.says}", style="bold")
        if rows:
            yield _part(first, [_cells(row) for row in rows])
    yield Text("")
    yield _part(first, [("all", f"{made.conversations:,.0f}", f"{made.requests:,.0f}")])


def _cells(row: Row) -> tuple[str, ...]:
    about = ["" if known else "~" for known in (row.exact, row.counted)]
    figures = (_figure(value) for value in (row.requests_per_s, row.output_tokens_per_s, row.in_flight))
    return row.workload, f"{about[0]}{row.conversations:,.0f}", f"{about[1]}{row.requests:,.0f}", *figures


def _part(first: int, rows: Sequence[tuple[str, ...]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(min_width=first, no_wrap=True)
    for title in TITLES:
        table.add_column(min_width=len(title), justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table


def _tail(made: Check) -> Iterator[RenderableType]:
    yield ""
    if made.money is not None:
        most = ""
        if made.money.capped:
            most = f", but at most {usd(made.money.most or 0.0)} by `stop.cost`"
        elif made.money.most is not None:
            most = f", at most {usd(made.money.most, 3)} with every answer at its bound"
        yield f"cost: about {usd(made.money.expected, 3)}{most}"
    for text in made.assumptions:
        yield f"[dim]assumed: {escape(text)}[/dim]"
    for text in made.warnings:
        yield f"[yellow]warning:[/yellow] {escape(text)}"


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
