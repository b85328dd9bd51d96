"""Show a list of runs."""

from collections.abc import Sequence

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from r1perf.report.wording import NONE, count, span
from r1perf.summary.listed import Listed

WIDE = 120
"""On a terminal of fewer columns a run has two lines."""


def print_runs(found: Sequence[Listed], console: Console, *, as_json: bool = False) -> None:
    """Print runs as a table, or as a JSON list."""
    if as_json:
        console.file.write(msgspec.json.format(msgspec.json.encode(list(found)), indent=2).decode() + "\n")
        return
    if not found:
        console.print("no runs")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="")
    wide = console.width >= WIDE
    # Its name begins with the time of its start, UTC. Where there is no room it alone is broken: a number or verdict never is.
    table.add_column("run" if wide else "run, target", overflow="fold", no_wrap=False)
    if wide:
        table.add_column("target", overflow="fold")
    for name in ("length", "requests", "failed"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("ended", no_wrap=True)
    for each in found:
        run, ended = each.where or each.run_id, [each.status, *([] if each.verdict in (None, "none") else [each.verdict])]
        table.add_row(
            *(map(Text, (run, each.target) if wide else (f"{run}\n  {each.target}",))),
            NONE if each.elapsed_s is None else span(each.elapsed_s),
            count(each.requests),
            count(each.failed),
            (", " if wide else ",\n").join(ended),
        )
    console.print(table)
