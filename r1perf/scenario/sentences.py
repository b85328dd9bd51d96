"""Say what is wrong with a scenario in one sentence, from the decoder's own error and the types it decoded to."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

from msgspec import inspect

from r1perf.errors import ScenarioError

_AT = re.compile(r"(?P<what>.*?)(?: - at `(?P<key>key in )?\$(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_VALUE = re.compile(r"Invalid (?:enum )?value (.*)")
_BOUND = re.compile(r"Expected `[^`]*` (>=|>|<=|<) (\S+)")
_LENGTH = re.compile(r"Expected `array` of length >= (\d+)")
_TYPE = re.compile(r"Expected `([^`]*)`, got `([^`]*)`")

_BOUNDS = {">=": "at least", ">": "greater than", "<=": "at most", "<": "less than"}
_TYPES = {
    "object": "a table", "array": "a list", "str": "a text", "int": "a whole number", "float": "a number",
    "bool": "true or false", "null": "nothing", "date": "a date", "datetime": "a date", "time": "a time of day",
}  # fmt: skip


def sentence(error: str, value: Any, kind: Any, path: str) -> ScenarioError:
    """Translate msgspec's error on converting `value`, which stands at `path`, to `kind`."""
    match = _AT.fullmatch(error)
    what, steps = (match["what"], _steps(match["path"] or "", value)) if match else (error, [])
    here = join(path, *steps)
    if found := _UNKNOWN.fullmatch(what):
        names = _fields(_type_at(inspect.type_info(kind), steps, value))
        return ScenarioError(join(here, found[1]), f"unknown; {allowed(found[1], names)}")
    if found := _MISSING.fullmatch(what):
        tags = _tags(_type_at(inspect.type_info(kind), steps, value))
        return ScenarioError(
            join(here, found[1]), f"is missing; allowed: {', '.join(tags)}" if tags and found[1] == "kind" else "is missing"
        )
    if found := _VALUE.fullmatch(what):
        given = str(_value_at(value, steps))
        choices = _choices(inspect.type_info(kind), steps, value)
        return ScenarioError(here, f'unknown {steps[-1] if steps else "value"} "{given}"; {allowed(given, choices)}')
    given = _shown(_value_at(value, steps))
    if found := _BOUND.fullmatch(what):
        return ScenarioError(here, f"must be {_BOUNDS[found[1]]} {float(found[2]):g}, not {given}")
    if found := _LENGTH.fullmatch(what):
        return ScenarioError(here, "must not be empty")
    if "matching regex" in what:
        return ScenarioError(here, f"{given} is not a name: names match [a-z0-9][a-z0-9_-]*")
    if found := _TYPE.fullmatch(what):
        wanted = " or ".join(_TYPES.get(name, name) for name in found[1].split(" | ") if name != "null")
        return ScenarioError(here, f"must be {wanted}, not {_article(found[2], given)}")
    return ScenarioError(here, what)


def allowed(given: str, names: Iterable[str]) -> str:
    """Say what was probably meant, or everything that is allowed."""
    names = list(names)
    close = difflib.get_close_matches(given, names, n=1, cutoff=0.65)
    return f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(names)}" if names else "nothing is allowed here"


def join(path: str, *steps: str) -> str:
    """Put a dotted path together; indexes are written [0]."""
    for step in steps:
        path += step if step.startswith("[") else f".{step}" if path else step
    return path


def _article(kind: str, given: str) -> str:
    return given if kind in ("int", "float", "bool", "str") else _TYPES.get(kind, kind)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _steps(path: str, value: Any) -> list[str]:
    """Split a path of msgspec's; where it hides a key behind [...], find the one whose value cannot be a text."""
    steps: list[str] = []
    for name, index in _STEP.findall(path):
        if index == "...":
            inside = _value_at(value, steps)
            steps.append(next((key for key, inner in inside.items() if not isinstance(inner, str)), "..."))
        else:
            steps.append(name or f"[{index}]")
    return steps


def _value_at(value: Any, steps: list[str]) -> Any:
    for step in steps:
        try:
            value = value[int(step[1:-1])] if step.startswith("[") else value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _type_at(kind: inspect.Type, steps: list[str], value: Any) -> inspect.Type:
    """Follow a path through the types; unions of tagged structs are chosen as the value's own tag says."""
    for depth in range(len(steps) + 1):
        kind = _chosen(kind, _value_at(value, steps[:depth]), last=depth == len(steps))
        if depth == len(steps):
            break
        step = steps[depth]
        if isinstance(kind, inspect.StructType):
            kind = next((field.type for field in kind.fields if field.encode_name == step), inspect.AnyType())
        elif isinstance(kind, inspect.DictType):
            kind = kind.value_type
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
            kind = kind.item_type
        else:
            return inspect.AnyType()
    return kind


def _chosen(kind: inspect.Type, value: Any, *, last: bool) -> inspect.Type:
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    if not isinstance(kind, inspect.UnionType):
        return kind
    structs = [t for t in _members(kind) if isinstance(t, inspect.StructType)]
    for struct in structs:
        if isinstance(value, dict) and struct.tag is not None and value.get(str(struct.tag_field)) == struct.tag:
            return struct
    rest = [t for t in kind.types if not isinstance(_bare(t), inspect.NoneType)]
    if len(structs) == 1 and isinstance(value, dict):
        return structs[0]
    return kind if last or len(rest) != 1 else _bare(rest[0])


def _bare(kind: inspect.Type) -> inspect.Type:
    return kind.type if isinstance(kind, inspect.Metadata) else kind


def _fields(kind: inspect.Type) -> list[str]:
    if not isinstance(kind, inspect.StructType):
        return []
    return ([str(kind.tag_field)] if kind.tag_field else []) + [field.encode_name for field in kind.fields]


def _tags(kind: inspect.Type) -> list[str]:
    return [str(t.tag) for t in _members(kind) if isinstance(t, inspect.StructType) and t.tag is not None]


def _members(kind: inspect.Type) -> list[inspect.Type]:
    return [_bare(t) for t in kind.types] if isinstance(kind, inspect.UnionType) else [_bare(kind)]


def _choices(kind: inspect.Type, steps: list[str], value: Any) -> list[str]:
    """List the tags or literals that may stand at a path."""
    holder = _members(_type_at(kind, steps[:-1], value))
    tags = [str(t.tag) for t in holder if isinstance(t, inspect.StructType) and steps and t.tag_field == steps[-1]]
    here = _members(_type_at(kind, steps, value))
    return tags or [str(choice) for t in here if isinstance(t, inspect.LiteralType) for choice in t.values]
