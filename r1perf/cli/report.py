"""`r1perf report`: the tables of a run, from its archive alone or from InfluxDB alone."""

from datetime import UTC, datetime
from pathlib import Path

import click

from r1perf.cli.bucket import opened
from r1perf.cli.output import note
from r1perf.errors import ArchiveError, UsageError
from r1perf.report import load, print_report, render_json, render_json_array
from r1perf.report.paper import paper
from r1perf.sinks.influxdb import address
from r1perf.sinks.influxdb.reading import Part, read
from r1perf.sinks.influxdb.runs import find
from r1perf.sla import runs_in
from r1perf.sla.archive import passed_over
from r1perf.summary import Document
from r1perf.units import Duration


@click.command("report")
@click.argument("run", metavar="RUN")
@click.option(
    "--from", "begin", metavar="TIME", help="Of a run in InfluxDB, begin here: 90s after its start, or a date and time in UTC."
)
@click.option("--to", "end", metavar="TIME", help="Of a run in InfluxDB, end here.")
@click.option("--json", "as_json", is_flag=True, help="Print run.json instead; of a folder of runs, an array.")
def command(run: str, begin: str | None, end: str | None, as_json: bool) -> int:
    """Print the tables of RUN: a run's folder, a folder of runs (all that can be read), or influx://BUCKET/RUN_ID.

    The server is named by the environment: INFLUXDB_V2_URL, INFLUXDB_V2_ORG, INFLUXDB_V2_TOKEN. TIME is a duration after the
    run's start (90s) or a date and time in UTC (2026-11-30T15:00:00); points that begin in between are merged.
    """
    one, code = True, 0
    if address.is_address(run):
        documents = [_from_influxdb(address.run(run), begin, end)]
    elif begin is not None or end is not None:
        raise UsageError("--from and --to need a run in InfluxDB: influx://BUCKET/RUN_ID")
    else:
        folders = runs_in(Path(run))
        one = folders == [Path(run)]
        documents = []
        for folder in folders:
            try:
                documents.append(load(folder, note))
            except ArchiveError as error:
                if one:
                    raise
                note(str(error))
                code = 2
        for sentence in passed_over(Path(run)):
            note(sentence)
    if as_json:
        click.echo(render_json(documents[0]) if one else render_json_array(documents), nl=False)
        return code
    for n, document in enumerate(documents):
        if n:
            click.echo()
        print_report(document, paper())
    return code


def _from_influxdb(at: address.Address, begin: str | None, end: str | None) -> Document:
    with opened(at.bucket) as bucket:
        found = find(bucket, at.run_id)
        started_ns = found.run.started_ns
        part = Part(_offset_ns("--from", begin, started_ns), _offset_ns("--to", end, started_ns))
        if part.begin_ns is not None and part.end_ns is not None and part.end_ns <= part.begin_ns:
            raise UsageError(f"--to {end} does not lie behind --from {begin}")
        return read(bucket, found, part)


def _offset_ns(option: str, text: str | None, started_ns: int) -> int | None:
    """Read a time as an offset from the run's start."""
    if text is None:
        return None
    try:
        return int(Duration.parse(text))
    except ValueError:
        pass
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f'{option}: "{text}" is neither {Duration.allowed} nor a time such as 2026-11-30T15:00:00') from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return round(at.timestamp() * 1000) * 1_000_000 - started_ns
