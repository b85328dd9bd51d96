"""How fast the embedded simulated endpoint will answer a plan, from its own profile: `r1perf check` need not assume it."""

from collections.abc import Callable

import msgspec

from r1perf.check import Check, Speed
from r1perf.errors import UsageError
from r1perf.scenario import Scenario, simulated
from r1perf.simulator.options import Options
from r1perf.simulator.profiles import PROFILES

SETTLES = 5
"""Speed depends on what is in flight, and that on speed: so many rounds bring them within a few percent of each other."""

_PACE: dict[str, Callable[[str], float]] = {"speed": float, "tokens_per_chunk": int}
"""The options of the simulated endpoint that change how fast it is."""


def pace(scenario: Scenario, made: Check) -> Speed:
    """Return the speed at what a plan, checked before at some other speed, has in flight; raises UsageError for wrong options."""
    name, options = simulated(scenario.target.url) or ("", {})
    try:
        told = {key: _number(key, options[key], kind) for key, kind in _PACE.items() if key in options}
        chosen = msgspec.convert({"profile": name} | told, Options).checked()
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


def _number(key: str, text: str, kind: Callable[[str], float]) -> float:
    try:
        return kind(text)
    except ValueError:
        raise UsageError(f'{key} is not a number: "{text}"') from None
