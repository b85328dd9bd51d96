"""What the hard limits of `[stop]` leave of a plan."""

from collections.abc import Iterable, Iterator, Mapping

from r1perf.budget import Budget, Limits, carried, usd
from r1perf.calibrate import REQUESTS, Estimated
from r1perf.check.expect import Needs
from r1perf.check.rows import Row
from r1perf.datasets import Items
from r1perf.scenario import Scenario
from r1perf.source import WorkloadSource


def limited(
    scenario: Scenario, items: Mapping[str, Items], rows: tuple[Row, ...], wanted: Mapping[str, Needs], cost: float | None
) -> Iterator[str]:
    """Tell which limits end the planned run early, and for which workloads not even one request fits. `cost` is the expected one in USD."""
    stop = scenario.stop
    asked = sum(row.requests for row in rows)
    if stop.requests is not None:
        calibrating = _calibrating(items.values(), stop.requests)
        if asked > stop.requests - calibrating:
            taken = f", and {calibrating:,} more calibrate lengths before them" if calibrating else ""
            yield f"`stop.requests` ({stop.requests:,}) ends the run early: about {asked:,.0f} requests are planned{taken}"
    never = list(_never(scenario, items, {row.workload for row in rows}))
    yield from never
    if stop.cost is not None and cost is not None and cost > stop.cost and not never:
        yield f"`stop.cost` ({usd(stop.cost)}) ends the run early: the plan costs about {usd(cost, 3)}"
    tokens = sum(row.requests * wanted[row.workload].output_tokens for row in rows)
    if stop.output_tokens is not None and tokens > stop.output_tokens and not never:
        yield f"`stop.output_tokens` ({stop.output_tokens:,}) ends the run early: about {tokens:,.0f} output tokens are planned"


def _calibrating(loaded: Iterable[Items], room: int) -> int:
    """Return how many of the requests calibrations take: nothing is asked where it leaves none to the run."""
    taken = 0
    for items in loaded:
        if isinstance(items, Estimated) and items.estimated and room - taken > REQUESTS:
            taken += REQUESTS
    return taken


def _never(scenario: Scenario, items: Mapping[str, Items], planned: Iterable[str]) -> Iterator[str]:
    """Go through the workloads whose first request is reserved at more than a limit has in all."""
    stop, target = scenario.stop, scenario.target
    for name in sorted(planned) if stop.reserves else ():
        first = items[name].conversation(0)
        call = WorkloadSource(scenario.workload[name], items[name], target).call(first, first.turns[0], first.before)
        held = Budget(Limits(stop.cost, stop.output_tokens), target.price, carried(target)).reserve(call)
        if isinstance(held, str):
            yield f"{name}: not even one request can be sent: {held}"
