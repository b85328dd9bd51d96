"""`r1perf schema`: the JSON schema of a scenario."""

import click
import msgspec

from r1perf.scenario import schema


@click.command("schema")
def command() -> None:
    """Print the JSON schema (2020-12) of a scenario file, for editors and generators."""
    click.echo(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())
