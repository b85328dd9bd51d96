"""`r1perf influx`: what concerns InfluxDB and is not part of a run."""

import os
from pathlib import Path

import click

from r1perf.sinks.influxdb.replay import Elsewhere, replay


@click.group("influx")
def command() -> None:
    """Work with runs in InfluxDB."""


@command.command("replay")
@click.argument("run", type=click.Path(path_type=Path, exists=True, file_okay=False), metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Send the whole run, made from its archive: to where it never was.")
@click.option("--url", help="Send the whole run to another server than its own.")
@click.option("--org", help="Send the whole run to another organization.")
@click.option("--bucket", help="Send the whole run to another bucket.")
def replay_command(run: Path, everything: bool, **elsewhere: str | None) -> int:
    """Send to InfluxDB what it did not get of RUN, a run's folder; of a run that never had an InfluxDB, all.

    Points that are there already are written over by themselves: sending them again changes nothing. The token, and what the
    run does not say, come from the environment: INFLUXDB_V2_TOKEN, INFLUXDB_V2_URL, INFLUXDB_V2_ORG, INFLUXDB_V2_BUCKET.
    """

    def tell(sentence: str) -> None:
        click.echo(f"note: {sentence}", err=True)

    sent = replay(run, os.environ, tell, everything=everything, elsewhere=Elsewhere(**elsewhere))
    if sent.left:
        click.echo(f"r1perf: {sent.left / 1000:.0f} kB of points could not be sent; they are kept", err=True)
        return 2
    click.echo(f"{sent.points} points sent" if sent.points else "nothing was left to send")
    return 3 if sent.rejected else 0
