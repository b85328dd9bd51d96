"""Show the plan of a run to people."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from r1perf.check.expect import time_text
from r1perf.check.plan import Check


def render(made: Check) -> list[RenderableType]:
    """Return what people see of a plan: head, table by stage and workload, cost, assumptions, warnings."""
    return [*_head(made), _table(made), *_tail(made)]


def _head(made: Check) -> Iterator[RenderableType]:
    yield f"[bold]{made.scenario}[/bold] against {escape(made.target)}"
    yield f"schedule {made.digest}"


def _table(made: Check) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("stage")
    table.add_column("workload")
    for title in ("lasts", "conversations", "requests", "requests/s", "output tok/s", "in flight"):
        table.add_column(title, justify="right")
    for stage in made.stages[:-1]:
        rows = [row for row in made.rows if row.stage == stage.name]
        mark = "" if stage.judged else " (not judged)"
        table.add_row(f"{stage.name}{mark}", stage.says, time_text(rows[0].seconds) if rows else "", style="bold")
        for row in rows:
            about = "" if row.exact else "~"
            table.add_row(
                "", row.workload, "", f"{about}{row.conversations:,.0f}", f"{about}{row.requests:,.0f}", _figure(row.requests_per_s),
                _figure(row.output_tokens_per_s), _figure(row.in_flight),
            )  # fmt: skip
    table.add_section()
    table.add_row("all", "", "", f"{made.conversations:,.0f}", f"{made.requests:,.0f}", style="bold")
    return table


def _tail(made: Check) -> Iterator[RenderableType]:
    if made.money is not None:
        most = "" if made.money.most is None else f", at most ${made.money.most:,.2f} with every answer at its bound"
        yield f"cost: about ${made.money.expected:,.2f}{most}"
    for text in made.assumptions:
        yield f"[dim]assumed: {escape(text)}[/dim]"
    for text in made.warnings:
        yield f"[yellow]warning:[/yellow] {escape(text)}"


def _figure(value: float) -> str:
    return f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
