"""`r1perf judge`: verdicts on recorded runs, from their archives alone."""

from pathlib import Path

import click
import msgspec

from r1perf.cli.options import Recorded, baseline_option, sla_options
from r1perf.cli.output import note
from r1perf.cli.sides import worst
from r1perf.report import print_verdicts
from r1perf.report.paper import paper
from r1perf.sla import exit_code, judge_archive, parse, require, runs_in
from r1perf.sla.archive import passed_over
from r1perf.sla.comparable import distinct
from r1perf.sla.files import load


@click.command("judge")
@click.argument("runs", type=Recorded(path_type=Path), nargs=-1, required=True, metavar="RUN...")
@sla_options
@baseline_option
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON instead.")
def command(
    runs: tuple[Path, ...], clauses: tuple[str, ...], sla_file: Path | None, confidence: float | None, baseline: tuple[Path, ...], as_json: bool
) -> int:  # fmt: skip
    """Judge RUN..., runs' folders or folders of runs, with the clauses given, or with those that each run declared.

    Nothing but the archives is needed. Several runs are one side of a comparison with the baseline.
    """
    require()
    texts = [str(parse(text)) for text in clauses]
    if sla_file is not None:
        file = load(sla_file)
        texts += map(str, file.clauses)
        confidence = file.confidence if confidence is None else confidence
    given = distinct(run for path in runs for run in runs_in(path))
    folders = given.runs
    held = [run for path in baseline for run in runs_in(path)]
    for sentence in (*(says for path in (*runs, *baseline) for says in passed_over(path)), *given.notes):
        note(sentence)
    found = {
        run: judge_archive(
            run, texts or None, confidence=confidence, baseline=held, beside=[other for other in folders if other != run],
            damage=note,
        )
        for run in folders
    }  # fmt: skip
    if as_json:
        click.echo(
            msgspec.json.format(msgspec.json.encode({str(run): verdicts for run, verdicts in found.items()}), indent=2).decode()
        )
    for run, verdicts in found.items() if not as_json else ():
        print_verdicts(verdicts, paper(), str(run))
        if not verdicts:
            click.echo(f"{run}: it declared no clauses; give some with --sla or --sla-file", err=True)
    return worst([exit_code(verdicts) if verdicts else 2 for verdicts in found.values()])
