"""`r1perf run`: carry a scenario out."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import click
import msgspec
from rich.console import Console

from r1perf import clock
from r1perf.cli.options import baseline_option, read, scenario_options
from r1perf.cli.output import note
from r1perf.cli.sides import against, worst
from r1perf.cli.view import view
from r1perf.collector import View
from r1perf.errors import UsageError
from r1perf.launch.run import Ran, run
from r1perf.report import print_report, print_verdicts, render_json, render_json_array
from r1perf.report.paper import paper
from r1perf.scenario import Scenario, folder
from r1perf.sinks.archive import create
from r1perf.sla import read_verdicts, runs_in

BIND = "127.0.0.1:5557"


@click.command("run")
@scenario_options
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, help="Worker processes on this machine.")
@click.option(
    "--expect-workers", type=click.IntRange(min=1), help="Wait for so many workers from elsewhere instead (`r1perf worker`)."
)
@click.option("--bind", metavar="HOST:PORT", help=f"Where to wait for them; {BIND} by default.")
@click.option("--repeat", type=click.IntRange(min=1), default=1, show_default=True, help="Make so many runs, in one folder.")
@click.option("--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True, help="Where archives are kept.")
@baseline_option
@click.option("--fail-fast", is_flag=True, help="End the run as soon as a clause fails whatever is still to come.")
@click.option(
    "--json", "as_json", is_flag=True,
    help="Print run.json on standard output, and nothing else there; with --repeat over 1, a JSON array of one for each run.",
)  # fmt: skip
@click.option("--quiet", is_flag=True, help="Print the archive's path only.")
def command(
    source: str,
    workers: int,
    expect_workers: int | None,
    bind: str | None,
    repeat: int,
    runs: Path,
    baseline: tuple[Path, ...],
    fail_fast: bool,
    as_json: bool,
    quiet: bool,
    **laid: Any,
) -> int:
    """Run SCENARIO: a file, the name of a shipped scenario (r1-mixed), or a kind of dataset (aime).

    Without a target's URL the embedded simulated endpoint is loaded. Every run leaves its archive in RUNS; Ctrl-C once
    waits up to 10 s for what is in flight, twice stops at once, and the archive is complete either way.
    """
    scenario = read(source, **laid)
    if fail_fast:
        scenario = msgspec.structs.replace(scenario, sla=msgspec.structs.replace(scenario.sla, fail_fast=True))
    held = [run for path in baseline for run in runs_in(path)]
    if repeat > 1:
        runs = create(runs, scenario.name, clock.wall_ns())
    made: list[Ran] = []
    with _runner(workers, expect_workers, bind) as carry_out:
        for _ in range(repeat):
            ran = _run(carry_out, scenario, folder(source), runs, plain=as_json, quiet=quiet)
            made.append(against(ran, held, _folders(made)) if held else ran)
            _tell(made[-1], as_json=as_json, quiet=quiet)
            if ran.verdict.code in (2, 130):
                break
    if held and len(made) > 1:
        made = [against(ran, held, _folders(made)) for ran in made]
        if not as_json and not quiet:
            _tell_side(made)
    if as_json:
        click.echo(_as_json(made, array=repeat > 1), nl=False)
    elif repeat > 1:
        click.echo(str(runs))
    return worst([ran.verdict.code for ran in made])


def _folders(made: list[Ran]) -> list[Path]:
    return [ran.folder for ran in made if ran.folder is not None]


class _CarryOut(Protocol):
    def __call__(self, scenario: Scenario, *, base: Path, runs: Path, view: View) -> Ran:
        """Carry one run out."""


@contextmanager
def _runner(workers: int, expect: int | None, bind: str | None) -> Iterator[_CarryOut]:
    """Give what carries runs out: with workers on pipes, or with a swarm's."""
    if expect is None:
        if bind is not None:
            raise UsageError("--bind says where workers from elsewhere are waited for: it goes with --expect-workers")
        yield partial(run, workers=workers)
        return
    if workers > 1:
        raise UsageError("--workers starts workers here, --expect-workers waits for others: give one of them")
    try:
        from r1perf.swarm.gathering import gathered
    except ModuleNotFoundError as error:
        raise UsageError("a swarm needs Locust: install r1perf[swarm]") from error
    with gathered(expect, bind or BIND, note) as swarm:
        yield swarm.run


def _run(carry_out: _CarryOut, scenario: Scenario, base: Path, runs: Path, *, plain: bool, quiet: bool) -> Ran:
    # With --json and --quiet standard output is the result's alone; progress goes to standard error.
    console = Console(stderr=plain or quiet)
    watch = view(console, quiet=quiet)
    try:
        return carry_out(scenario, base=base, runs=runs, view=watch)
    finally:
        watch.close()


def _tell(ran: Ran, *, as_json: bool, quiet: bool) -> None:
    """Print what came of a run; the archive's path stands last."""
    document, sentence = ran.verdict.document, ran.verdict.sentence
    if document is not None and not as_json and not quiet:
        print_report(document, paper())
    if sentence is not None:
        click.echo(f"r1perf: {sentence}", err=True)
    if ran.folder is not None and not as_json:
        click.echo(str(ran.folder))


def _as_json(made: list[Ran], *, array: bool) -> str:
    """Return what --json prints: the document of the only run, or an array, however many of its runs were made."""
    documents = [ran.verdict.document for ran in made if ran.verdict.document is not None]
    return render_json_array(documents) if array else "".join(map(render_json, documents))


def _tell_side(made: list[Ran]) -> None:
    """Print what all runs together say against the baseline."""
    document = made[-1].verdict.document
    if document is not None:
        verdicts = [one for one in read_verdicts(document.sla) if one.kind == "baseline"]
        print_verdicts(verdicts, paper(), f"all {len(_folders(made))} runs against the baseline")
