"""`r1perf check`: validate a scenario and print its plan without sending anything."""

import os
from collections.abc import Iterator
from typing import Any

import click
from rich.markup import escape
from rich.text import Text

from r1perf.check import Check, render
from r1perf.cli.options import read, scenario_options
from r1perf.cli.pace import paced
from r1perf.errors import UsageError
from r1perf.preflight import api_key
from r1perf.providers.registry import check_length
from r1perf.report.paper import paper
from r1perf.scenario import Scenario, folder
from r1perf.sinks.influxdb import settings
from r1perf.sla import Terms, terms
from r1perf.sla.foresight import foresee_in, warning
from r1perf.sla.wording import percent


@click.command("check")
@scenario_options
def command(source: str, **laid: Any) -> None:
    """Validate SCENARIO and print its plan: arrivals, tokens, what will be in flight, money, what its clauses need, warnings.

    Nothing is sent.
    """
    scenario = read(source, **laid)
    settings(scenario.sinks.influxdb, os.environ)
    base = folder(source)
    items = scenario.items(base)
    for loaded in items.values():
        check_length(scenario.target, loaded.conversation(0).turns[0].output_tokens)
    console = paper()
    plan = scenario.plan(items, base)
    promised = terms(scenario, [(stage.name, stage.judged) for stage in plan.stages], items)
    made = paced(scenario, items, plan)
    for part in render(made):
        console.print(part)
    try:
        api_key(scenario.target)
    except UsageError as error:  # a plan needs none
        console.print(f"[yellow]warning:[/yellow] a run cannot start here: {escape(str(error))}")
    for line in _clauses(promised, scenario, made):
        console.print(line, soft_wrap=True)


def _clauses(promised: Terms, scenario: Scenario, made: Check) -> Iterator[Text]:
    """Go through what the clauses need and what the plan has."""
    if not promised.clauses:
        return
    yield Text(f"\nSLA at {percent(promised.confidence)} confidence", style="bold")
    for clause in promised.clauses:
        foreseen = foresee_in(made, clause, confidence=promised.confidence, interval_s=int(scenario.interval) / 1e9)
        style = {True: "", None: "", False: "yellow"}[foreseen.enough]
        yield Text(f"  {foreseen.clause}: {foreseen.says}", style=style)
    window_s = sum({row.stage: row.seconds for row in made.rows if row.judged}.values())
    short = warning(promised.clauses, window_s=window_s, residence_s=made.longest_s)
    if short is not None:
        yield Text(f"warning: {short}", style="yellow")
