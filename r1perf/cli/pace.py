"""How fast the embedded simulated endpoint will answer a plan, from its own profile: `r1perf check` need not assume it."""

from collections.abc import Mapping

import click
import msgspec

from r1perf.check import Check, Speed, check
from r1perf.datasets import Items
from r1perf.errors import UsageError
from r1perf.launch.simulated import arguments
from r1perf.scenario import Scenario, simulated
from r1perf.schedule import Plan
from r1perf.simulator.cli import command as read_options
from r1perf.simulator.faults import parse_rate
from r1perf.simulator.options import Options
from r1perf.simulator.profiles import PROFILES

SETTLES = 5
"""Speed depends on what is in flight, and that on speed: so many rounds bring them within a few percent of each other."""


def paced(scenario: Scenario, items: Mapping[str, Items], plan: Plan) -> Check:
    """Work a plan out at the speed of its target where that is simulated, else at the assumed one; raises UsageError as `pace` does."""
    made = check(scenario, items, plan)
    for _ in range(SETTLES if simulated(scenario.target.url) else 0):
        made = check(scenario, items, plan, pace(scenario, made))
    return made


def pace(scenario: Scenario, made: Check) -> Speed:
    """Return the speed at what a plan, checked before at some other speed, has in flight; raises UsageError for wrong options."""
    name, options = simulated(scenario.target.url) or ("", {})
    try:
        # As the endpoint's own command line reads them, so that what is refused then is refused now.
        with read_options.make_context("simulate", arguments(name, options)) as context:
            told = context.params
            faults = tuple(parse_rate(fault) for fault in told.pop("faults"))
        chosen = Options(faults=faults, **told).checked()
    except click.ClickException as error:
        raise UsageError(f"`target.url`: the simulated endpoint cannot start: {error.format_message()}") from error
    except UsageError as error:
        raise UsageError(f"`target.url`: the simulated endpoint cannot start: {error}") from error
    profile = PROFILES[chosen.profile].faster(chosen.speed)
    if chosen.tokens_per_chunk is not None:
        profile = msgspec.structs.replace(
            profile, engine=msgspec.structs.replace(profile.engine, tokens_per_chunk=chosen.tokens_per_chunk)
        )
    flights: dict[str, float] = {}
    for row in made.rows:
        flights[row.stage] = flights.get(row.stage, 0.0) + row.in_flight
    requests = sum(row.requests for row in made.rows) or 1.0
    prompt_tokens = sum(row.requests * made.needs[row.workload].input_tokens for row in made.rows) / requests
    ttft_s, tokens_per_s = profile.pace(max(flights.values(), default=1.0), prompt_tokens)
    lengths = profile.lengths
    maths, chat = lengths.thinking_maths.mean + lengths.answer_maths.mean, lengths.thinking_chat.mean + lengths.answer_chat.mean
    answers = {"aime": maths, "chat": chat, "prompts": chat, "openai": chat}
    faster = "" if chosen.speed == 1 else f" at {chosen.speed:g} times its speed"
    return Speed(ttft_s, tokens_per_s, answers, f"simulated {chosen.profile}{faster}")
