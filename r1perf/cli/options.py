"""Options that several commands share: which scenario, and what is laid over it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from r1perf.scenario import Scenario, Shorthands, load
from r1perf.sla import outline, parse, require, scope_of, unique
from r1perf.sla.archive import on_disk
from r1perf.sla.files import load as load_clauses

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

_SLA_OPTIONS = (
    click.option("--sla", "clauses", multiple=True, metavar="CLAUSE", help="What must hold too, as 'p95(ttft) < 800ms'."),
    click.option(
        "--sla-file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="More of it: a TOML list of clauses, or OpenSLO (.yaml, .json).",
    ),
    click.option(
        "--confidence",
        type=click.FloatRange(0.5, 1, min_open=True, max_open=True),
        help="How sure a verdict must be; 0.95 by default.",
    ),
)


class Recorded(click.Path):
    """Take the path of recorded runs."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it; raises UsageError for the address of a database."""
        return super().convert(on_disk(str(value)), param, ctx)


baseline_option = click.option(
    "--baseline", type=Recorded(path_type=Path), multiple=True, metavar="RUN",
    help="A run, or a folder of runs, that clauses with `baseline` are held against.",
)  # fmt: skip


def scenario_options(function: F) -> F:
    """Add SCENARIO and what is laid over it; the command takes them as `source` and `**laid`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return sla_options(function)


def sla_options(function: F) -> F:
    """Add what must hold; the command takes it as `clauses`, `sla_file` and `confidence`."""
    for option in reversed(_SLA_OPTIONS):
        function = option(function)
    return function


def read(
    source: str, *, sets: tuple[str, ...], clauses: Sequence[str] = (), sla_file: Path | None = None, confidence: float | None = None,
    **shorthands: Any,
) -> Scenario:  # fmt: skip
    """Load the scenario that the options name, and check every clause that is to hold in it; raises UsageError."""
    return promised(load(source, sets, Shorthands(**shorthands)), clauses, sla_file, confidence)


def promised(scenario: Scenario, clauses: Sequence[str], sla_file: Path | None, confidence: float | None) -> Scenario:
    """Return the scenario with these clauses beside its own, all checked before anything is sent; raises ClauseError."""
    scope = scope_of(scenario, outline(scenario))
    found = [parse(text, scope) for text in (*scenario.sla.clauses, *clauses)]
    sure = scenario.sla.confidence
    if sla_file is not None:
        file = load_clauses(sla_file, scope)
        found += file.clauses
        sure = file.confidence or sure
    if found:
        require()
    sla = msgspec.structs.replace(
        scenario.sla, clauses=tuple(map(str, unique(found))), confidence=sure if confidence is None else confidence
    )
    return msgspec.structs.replace(scenario, sla=sla)
