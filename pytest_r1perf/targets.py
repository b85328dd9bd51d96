"""Read which endpoint a test is judged on: a name of the `r1_targets` file, a URL, or a table of a scenario's [target] keys."""

import datetime
import json
import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_r1perf.markers import did_you_mean
from r1perf.errors import UsageError

Target = str | Mapping[str, Any] | None
"""What `r1_target` may be: a name of r1_targets, a URL, or a table as a scenario's [target]."""


class Targets:
    """Know the targets by name."""

    def __init__(self, file: Path | None) -> None:
        self._named = _read(file) if file else {}

    def keys(self, target: Target) -> Iterator[tuple[str, Any]]:
        """Go through the keys that a target lays over the scenario's own."""
        if isinstance(target, str) and target in self._named:
            yield from _flat("target", {"name": target} | self._named[target])
        elif isinstance(target, str) and ":" in target:
            yield "target.url", target
        elif isinstance(target, str):
            known = did_you_mean(target, self._named) if self._named else "there is no r1_targets file that says where it is"
            raise UsageError(f"r1_target: unknown target `{target}`; {known}")
        elif isinstance(target, Mapping):
            yield from _flat("target", target)
        elif target is not None:
            raise UsageError(f"r1_target must be a name, a URL or a table of a target's keys, not {target!r}")


def title(target: Target) -> str | None:
    """Return the name of a target of which no scenario tells more."""
    if isinstance(target, Mapping):
        return str(target["name"]) if "name" in target else None
    return target if isinstance(target, str) else None


def toml(value: Any) -> str:
    """Write a value as TOML: that is JSON, but for tables."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    try:
        return json.dumps(value)
    except TypeError:
        raise UsageError(f"{value!r} cannot be a value of a scenario; allowed: what TOML has") from None


def _read(file: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"r1_targets: {file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, a whole number of thousands of digits, deep nesting
        raise UsageError(f"r1_targets: {file} cannot be read: {error}") from error
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise UsageError(f'r1_targets: {file}: `{name}` must be a table, as [vllm] with url = "..."')
    return tables


def _flat(path: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{path}.{key}", value)
        else:
            yield f"{path}.{key}", value
