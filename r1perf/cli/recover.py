"""`r1perf recover`: rebuild a run's summary from what its workers have written."""

import shlex
from pathlib import Path

import click

from r1perf.cli.options import Recorded
from r1perf.cli.output import note
from r1perf.errors import UsageError
from r1perf.report import print_report
from r1perf.report.paper import paper
from r1perf.sinks.archive import write_document
from r1perf.summary import read_document, rebuilt
from r1perf.summary.archived import NO_END, RUN_JSON, goes_on


@click.command("recover")
@click.argument("runs", type=Recorded(path_type=Path, exists=True, file_okay=False), nargs=-1, required=True, metavar="RUN...")
@click.option("--write", is_flag=True, help="Replace run.json in the first folder by what was rebuilt.")
def command(runs: tuple[Path, ...], write: bool) -> int:
    """Rebuild one run from the snapshots and requests files in RUN..., the folders in which its workers wrote.

    For a run whose collector died; what was measured is in these files. The exit code is 3 where the run did not come to its
    end, or is invalid. A run.json of the run's own end is never replaced.
    """
    if write and any(map(goes_on, runs)):
        raise UsageError("the run goes on, and writes its run.json at its end")
    if write and (runs[0] / RUN_JSON).exists():
        written = read_document(runs[0])
        if written.status != "running" and written.reason != NO_END:
            raise UsageError(
                f"{runs[0] / RUN_JSON} is that of the run's own end ({written.status}), which no rebuilt one replaces; "
                f"without --write you see what the files hold"
            )
    built = rebuilt(*runs, damage=note)
    print_report(built, paper())
    if not built.sla and built.scenario.get("sla", {}).get("clauses"):
        judge = shlex.join(["r1perf", "judge", str(runs[0])])
        note(f"clauses are not judged here; `{judge}` does")
    if write:
        write_document(runs[0], built)
    if built.early and built.reason is not None:
        click.echo(f"r1perf: {built.reason}", err=True)
    return 3 if built.early or not built.validity.valid else 0
