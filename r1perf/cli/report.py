"""`r1perf report`: the tables of a run, from its archive alone."""

from pathlib import Path

import click
from rich.console import Console

from r1perf.report import load, print_report, render_json


@click.command("report")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option("--json", "as_json", is_flag=True, help="Print the run's document as JSON instead.")
def command(run: Path, as_json: bool) -> None:
    """Print the tables of RUN, a run's folder; nothing but the archive is needed."""
    document = load(run, lambda sentence: click.echo(f"note: {sentence}", err=True))
    if as_json:
        click.echo(render_json(document), nl=False)
    else:
        print_report(document, Console())
