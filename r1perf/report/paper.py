"""What tables are printed on."""

from rich.console import Console

COLUMNS = 80


def paper() -> Console:
    """Return a console of the terminal's width, and of 80 columns at least: a narrow terminal wraps a line, a cut cell is a wrong figure."""
    console = Console()
    console.width = max(console.width, COLUMNS)
    return console
