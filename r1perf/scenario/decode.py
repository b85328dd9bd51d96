"""Turn a decoded TOML file into a Scenario; every mistake is one sentence with its path and what is allowed."""

import datetime
import math
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from r1perf.errors import ScenarioError
from r1perf.scenario.model import DEFAULT_MODEL, DEFAULT_URL, Scenario
from r1perf.scenario.sentences import sentence
from r1perf.target import SIMULATED
from r1perf.units import Duration, Rate, Tokens
from r1perf.workload import Workload

T = TypeVar("T")

MOST = 2**53 - 1
"""The largest whole number that every reader of JSON takes as it is (RFC 8259, 6)."""

NAME = re.compile(r"[a-z0-9][a-z0-9_-]*")


def decode(raw: dict[str, Any]) -> Scenario:
    """Check the types of everything and build the structs; raises ScenarioError. Rules over several keys are `validate`'s."""
    _in_range(raw)
    target = _table(raw, "target")
    url = target.get("url", DEFAULT_URL)
    if isinstance(url, str) and url.startswith(SIMULATED):
        target = {"model": DEFAULT_MODEL} | target | {"url": url}
    workloads = {}
    for name, table in _table(raw, "workload").items():
        if NAME.fullmatch(name) is None:
            raise ScenarioError(f"workload.{name}", "is not a name: names match [a-z0-9][a-z0-9_-]*")
        workloads[name] = convert(table, Workload, f"workload.{name}").filled()
    scenario = convert(raw | {"target": target, "workload": {}}, Scenario, "")
    _no_dates(raw)
    return msgspec.structs.replace(scenario, workload=workloads)


def convert(value: Any, kind: type[T], path: str) -> T:
    """Convert one table; raises ScenarioError with real names in its path."""
    try:
        return msgspec.convert(value, kind, dec_hook=_unit)
    except msgspec.ValidationError as error:
        raise sentence(str(error), value, kind, path) from None


def _unit(kind: type, value: Any) -> Any:
    """Read a number that carries its unit."""
    if kind is Tokens and isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise ValueError(f"must be at least 1, not {value}")
        return Tokens(value)
    if kind in (Duration, Rate, Tokens):
        if not isinstance(value, str):
            raise ValueError(f"{_shown(value)} is not {kind.allowed}")
        if value.strip().startswith("-"):
            raise ValueError(f'must not be negative: "{value}"')
        parsed = kind.parse(value)
        if kind is Tokens and parsed < 1:
            raise ValueError(f'must be at least 1, not "{value}"')
        if kind is Tokens and parsed > MOST:
            raise ValueError(f'must be at most {MOST}, not "{value}"')
        return parsed
    raise NotImplementedError(kind)


def _shown(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else f"{value}"


def _table(raw: dict[str, Any], key: str) -> dict[str, Any]:
    table = raw.get(key, {})
    if not isinstance(table, dict):
        raise ScenarioError(key, "must be a table")
    return table


def _in_range(raw: Any) -> None:
    """Refuse numbers that JSON has not, inf and nan, and whole ones that its readers would round."""
    for path, value in _leaves(raw, ""):
        if isinstance(value, float) and not math.isfinite(value):
            raise ScenarioError(path, f"must be a finite number, not {value}")
        if isinstance(value, int) and abs(value) > MOST:
            raise ScenarioError(path, f"must be a whole number from -{MOST} to {MOST}, not {value}")


def _no_dates(raw: Any) -> None:
    """Refuse dates and times where the types let anything pass: JSON has none."""
    for path, value in _leaves(raw, ""):
        if isinstance(value, (datetime.date, datetime.time)):
            raise ScenarioError(path, f'dates cannot be sent as JSON; write it as a text: "{value.isoformat()}"')


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        yield path, value
