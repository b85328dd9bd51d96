"""`r1perf influx`: what concerns InfluxDB and is not part of a run."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from r1perf.cli.options import Recorded
from r1perf.cli.output import note
from r1perf.sinks.influxdb.replay import Elsewhere, Sent, replay
from r1perf.sinks.influxdb.spool import REJECTED, again


@click.group("influx")
def command() -> None:
    """Work with runs in InfluxDB."""


@command.command("replay")
@click.argument("run", type=Recorded(path_type=Path, exists=True, file_okay=False), metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Send the whole run, made from its archive: to where it never was.")
@click.option("--url", help="Send the whole run to another server than its own.")
@click.option("--org", help="Send the whole run to another organization.")
@click.option("--bucket", help="Send the whole run to another bucket.")
def replay_command(run: Path, everything: bool, **elsewhere: str | None) -> int:
    """Send to InfluxDB what it did not get of RUN, a run's folder; of a run that never had an InfluxDB, all.

    Points that are there already are written over by themselves: sending them again changes nothing. The token, and what the
    run does not say, come from the environment: INFLUXDB_V2_TOKEN, INFLUXDB_V2_URL, INFLUXDB_V2_ORG, INFLUXDB_V2_BUCKET.
    """

    to = Elsewhere(**elsewhere)
    sent = replay(run, os.environ, note, everything=everything, elsewhere=to)
    problems = list(_problems(run, sent, elsewhere=bool(to)))
    if sent.points or not problems:
        click.echo(f"{sent.points} points sent" if sent.points else "nothing was left to send")
    for problem in problems:
        click.echo(f"r1perf: {problem}", err=True)
    return 2 if sent.left else 3 if problems else 0


def _problems(run: Path, sent: Sent, *, elsewhere: bool) -> Iterator[str]:
    """Go through what InfluxDB has not got, and say what helps."""
    if sent.left:
        sends = "the same command" if elsewhere else f"`{again(run)}`"
        yield f"{sent.left / 1000:.0f} kB of points could not be sent; once that is put right, {sends} sends them"
    if sent.rejected:
        yield f"{sent.rejected} points are refused" + ("" if elsewhere else f"; they are in {run / REJECTED} with the reasons")
    if sent.short is not None:
        yield f"the archive has {sent.short} of the run: its disk was full, or workers on other machines keep the rest"
    missing = f"{sent.lost} points found no room on the disk" if sent.lost else ""
    if not sent.complete and sent.short is None:
        missing = missing or "not all points of the run were kept: its process was killed, or its disk was full"
    if missing:
        yield missing + f"; `{again(run, whole=True)}` sends the whole run, as far as its archive has it"
