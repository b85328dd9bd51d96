"""Options that several commands share: which scenario, and what is laid over it."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from r1perf.scenario import Scenario, Shorthands, load

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("source", metavar="SCENARIO"),
    click.option("--set", "sets", multiple=True, metavar="PATH=VALUE", help="Set any key: workload.aime.max_tokens=4096."),
    click.option("--url", help="The target's base URL, as http://127.0.0.1:8000/v1."),
    click.option("--model", help="The model's name on the target."),
    click.option("--rate", help="Arrivals by rate, as 2/s; of stages the highest, the others change with it."),
    click.option("--sessions", type=click.IntRange(min=1), help="A closed loop of so many sessions instead."),
    click.option("--requests", type=click.IntRange(min=1), help="End after so many requests."),
    click.option("--duration", help="How long arrivals go on, as 90s; of stages all together."),
)


def scenario_options(function: F) -> F:
    """Add SCENARIO and what is laid over it; the command takes them as `source` and `**laid`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def read(source: str, *, sets: tuple[str, ...], **shorthands: Any) -> Scenario:
    """Load the scenario that the options name."""
    return load(source, sets, Shorthands(**shorthands))
