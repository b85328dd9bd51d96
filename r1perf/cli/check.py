"""`r1perf check`: validate a scenario and print its plan without sending anything."""

from typing import Any

import click
from rich.console import Console

from r1perf.check import check, render
from r1perf.cli.options import read, scenario_options
from r1perf.preflight import api_key
from r1perf.providers.registry import check_length
from r1perf.scenario import folder


@click.command("check")
@scenario_options
def command(source: str, **laid: Any) -> None:
    """Validate SCENARIO and print its plan: arrivals, tokens, what will be in flight, money, warnings. Nothing is sent."""
    scenario = read(source, **laid)
    api_key(scenario.target)
    base = folder(source)
    items = scenario.items(base)
    for loaded in items.values():
        check_length(scenario.target, loaded.conversation(0).turns[0].output_tokens)
    console = Console()
    for part in render(check(scenario, items, scenario.plan(items, base))):
        console.print(part)
