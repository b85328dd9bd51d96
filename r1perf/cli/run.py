"""`r1perf run`: carry a scenario out."""

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from r1perf import clock
from r1perf.cli.options import read, scenario_options
from r1perf.cli.view import view
from r1perf.launch.run import Ran, run
from r1perf.report import print_report, render_json
from r1perf.scenario import Scenario, folder
from r1perf.sinks.archive import create


@click.command("run")
@scenario_options
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes on this machine.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Make so many runs, in one folder.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where archives are kept.")
@click.option("--json", "as_json", is_flag=True, help="Print run.json on standard output, and nothing else there.")
@click.option("--quiet", is_flag=True, help="Print the archive's path only.")
def command(source: str, workers: int, repeat: int, runs: Path, as_json: bool, quiet: bool, **laid: Any) -> int:
    """Run SCENARIO: a file, the name of a shipped scenario (r1-mixed), or a kind of dataset (aime).

    Without a target's URL the embedded simulated endpoint is loaded. Every run leaves its archive in RUNS; Ctrl-C once
    waits for what is in flight, twice stops at once, and the archive is complete either way.
    """
    scenario = read(source, **laid)
    if repeat > 1:
        runs = create(runs, scenario.name, clock.wall_ns())
    code = 0
    for _ in range(repeat):
        ran = _run(scenario, folder(source), runs, workers, plain=as_json, quiet=quiet)
        code = max(code, ran.verdict.code)
        _tell(ran, as_json=as_json, quiet=quiet)
        if ran.verdict.code in (2, 130):
            break
    if repeat > 1 and not as_json:
        click.echo(str(runs))
    return code


def _run(scenario: Scenario, base: Path, runs: Path, workers: int, *, plain: bool, quiet: bool) -> Ran:
    # With --json and --quiet standard output is the result's alone; progress goes to standard error.
    console = Console(stderr=plain or quiet)
    watch = view(console, quiet=quiet)
    try:
        return run(scenario, base=base, runs=runs, view=watch, workers=workers)
    finally:
        watch.close()


def _tell(ran: Ran, *, as_json: bool, quiet: bool) -> None:
    """Print what came of a run; the archive's path stands last."""
    document, sentence = ran.verdict.document, ran.verdict.sentence
    if document is not None and as_json:
        click.echo(render_json(document), nl=False)
    elif document is not None and not quiet:
        print_report(document, Console())
    if sentence is not None:
        click.echo(f"r1perf: {sentence}", err=True)
    if ran.folder is not None and not as_json:
        click.echo(str(ran.folder))
