"""Make the tables of a report: no lines but the one under the head, readable without colour."""

from rich import box
from rich.table import Table


def new_table(title: str, *columns: str, left: int = 1) -> Table:
    """Make a table whose first `left` columns hold words, the others numbers."""
    table = Table(
        box=box.SIMPLE_HEAD,
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="",
        pad_edge=False,
        show_edge=False,
    )
    for n, name in enumerate(columns):
        table.add_column(name, justify="left" if n < left else "right", no_wrap=n >= left or n == 0)
    return table
