"""Find a scenario, read it, and lay what the command line says over it."""

import datetime
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from r1perf.datasets.registry import AnyDataset
from r1perf.errors import ScenarioError, UsageError
from r1perf.scenario.decode import decode
from r1perf.scenario.model import Scenario
from r1perf.scenario.sentences import allowed
from r1perf.scenario.shorthands import Shorthands, apply
from r1perf.scenario.validate import validate


def load(source: str | Path | Mapping[str, Any], sets: Sequence[str] = (), shorthands: Shorthands | None = None) -> Scenario:
    """Return a scenario that can be run; raises UsageError (ScenarioError where a key is wrong).

    `source` is a file, the name of a shipped scenario, the kind of a dataset (`aime`), or a scenario as `resolved()` gives
    it. `sets` are "path=value" and win over the file; shorthands come first, so that a set can refine what they made.
    """
    raw = _copied(source) if isinstance(source, Mapping) else _read(source)
    if shorthands is not None:
        apply(raw, shorthands)
    for text in sets:
        _set(raw, text)
    scenario = decode(raw)
    validate(scenario)
    return scenario


def folder(source: str | Path) -> Path:
    """Return the folder that a scenario's relative file names start from: its own, or the current one for a shipped one."""
    path = Path(source)
    return path.resolve().parent if path.is_file() else Path.cwd()


def shipped() -> dict[str, Path]:
    """Return the scenarios that come with r1perf, by name: packaged, or beside the package in a work tree."""
    package = Path(str(resources.files("r1perf")))
    for place in (package / "_scenarios", package.parent / "scenarios"):
        if place.is_dir():
            return dict(sorted((path.stem, path) for path in place.glob("*.toml")))
    return {}


def kinds() -> list[str]:
    """Return the kinds of datasets."""
    return [str(kind.__struct_config__.tag) for kind in get_args(AnyDataset)]


def _read(source: str | Path) -> dict[str, Any]:
    path, text = Path(source), str(source)
    if not text:
        raise UsageError(f"no scenario is named: give a file, a shipped scenario ({', '.join(shipped())}) or a dataset")
    if not path.exists() or path.is_dir():  # a FIFO or /dev/stdin is read as a file is
        if text in shipped():
            path = shipped()[text]
        elif text in kinds():
            return {"name": text, "workload": {text: {"dataset": {"kind": text}}}}
        elif path.is_dir():
            raise UsageError(f"{text}: is a folder; give a scenario file")
        else:
            guess = allowed(text.removesuffix(".toml"), [*shipped(), *kinds()])
            raise UsageError(f"{text}: no such file, shipped scenario or dataset; {guess}")
    try:
        return tomllib.loads(path.read_text("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path}: is not TOML: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {error}") from error


def _copied(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list | tuple) else value


def _set(raw: dict[str, Any], text: str) -> None:
    """Lay one "path=value" over a scenario; lists are walked by index (`stages.0`, `stages[0]`) or by an element's name."""
    path, equals, value = text.partition("=")
    keys = path.strip().replace("[", ".").replace("]", "").split(".")
    if not equals or not all(keys):
        raise UsageError(f'"{text}": a setting is written path=value, as workload.aime.max_tokens=4096')
    at: Any = raw
    for depth, key in enumerate(keys):
        here, last = ".".join(keys[:depth]), depth == len(keys) - 1
        place: Any = key
        if isinstance(at, list):
            place = _index(at, key, here)
        elif not isinstance(at, dict):
            raise ScenarioError(here, f"is not a table, so it has no `{key}`")
        if last:
            at[place] = _value(value.strip())
        else:
            at = at[place] if isinstance(at, list) else at.setdefault(place, {})


def _index(items: list[Any], key: str, path: str) -> int:
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    if key in names:
        return names.index(key)
    if key.isdecimal() and int(key) < len(items):
        return int(key)
    named = ", ".join(name for name in names if name)
    raise ScenarioError(path, f"has no element `{key}`; allowed: 0 to {len(items) - 1}" + (f", {named}" if named else ""))


def _value(text: str) -> Any:
    """Read a value as TOML; what is not TOML (8k, 2/s, a date) is a text."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    value = parsed["value"]
    return text if len(parsed) > 1 or isinstance(value, datetime.date | datetime.time) else value
