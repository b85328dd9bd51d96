"""Show a list of runs."""

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table

from r1perf.report.wording import NONE, count, span
from r1perf.summary.listed import Listed


def print_runs(found: Sequence[Listed], console: Console, *, as_json: bool = False) -> None:
    """Print runs as a table, or as a JSON list."""
    if as_json:
        console.file.write(msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode() + "\n")
        return
    if not found:
        console.print("no runs")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    table.add_column("run", no_wrap=True)  # its name begins with the time of its start, UTC
    table.add_column("target", overflow="fold")
    for name in ("length", "requests", "failed"):
        table.add_column(name, justify="right")
    table.add_column("ended")
    for each in found:
        how = each.status if each.verdict in (None, "none") else f"{each.status}, {each.verdict}"
        table.add_row(
            each.where or each.run_id,
            each.target,
            NONE if each.elapsed_s is None else span(each.elapsed_s),
            count(each.requests),
            count(each.failed),
            how,
        )
    console.print(table)
