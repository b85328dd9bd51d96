"""`r1perf runs`: which runs there are."""

from pathlib import Path

import click
import msgspec

from r1perf.cli.bucket import opened
from r1perf.cli.output import note
from r1perf.errors import ArchiveError, UsageError
from r1perf.report.paper import paper
from r1perf.report.runs import print_runs
from r1perf.sinks.influxdb import address
from r1perf.sinks.influxdb.runs import runs as written
from r1perf.summary.archived import standing
from r1perf.summary.listed import Listed, listed


@click.command("runs")
@click.argument("where", default="runs", metavar="[FOLDER | influx://BUCKET]")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list instead.")
def command(where: str, as_json: bool) -> None:
    """List runs, the newest first: the archives in FOLDER (runs, by default), or the runs in a bucket of InfluxDB.

    The server is named by the environment: INFLUXDB_V2_URL, INFLUXDB_V2_ORG, INFLUXDB_V2_TOKEN.
    """
    found = _in_bucket(address.bucket(where)) if address.is_address(where) else _in_folder(Path(where))
    print_runs(found, paper(), as_json=as_json)


def _in_bucket(bucket: str) -> list[Listed]:
    with opened(bucket) as found:
        return written(found)


def _in_folder(folder: Path) -> list[Listed]:
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    found = []
    for path in folder.rglob("run.json"):
        try:
            found.append(_listed(path.parent))
        except ArchiveError as error:
            note(str(error))
    return sorted(found, key=lambda each: each.started_ns, reverse=True)


def _listed(folder: Path) -> Listed:
    """Return the line of a folder's run; of one that was killed its run.json does not know what came of it."""
    written, alive = standing(folder)
    line = listed(written, str(folder))
    return line if alive or written.status != "running" else msgspec.structs.replace(line, status="interrupted")
