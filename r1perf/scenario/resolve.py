"""Write a scenario down: as plain data that loads to the same scenario again."""

from decimal import Decimal
from typing import Any

import msgspec

from r1perf.scenario.model import Scenario
from r1perf.units import Duration, Rate, Tokens


def resolved(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as `run.json` keeps it: every key with its value, defaults too, absent ones left out."""
    return dict(plain(scenario))


def plain(value: Any) -> Any:
    """Return a value of a scenario as JSON has it: units as texts, structs with their tags, absent fields left out."""
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        tagged = {str(config.tag_field): config.tag} if config.tag is not None else {}
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return tagged | {name: plain(inner) for name, inner in fields.items() if inner is not None}
    if isinstance(value, Rate):
        return f"{Decimal(repr(float(value))):f}/s"  # exact, and never 1e-05
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, Tokens):
        return int(value)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple | list):
        return [plain(inner) for inner in value]
    return value
