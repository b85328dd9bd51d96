"""The JSON schema of a scenario file, from the same structs that decode it."""

from typing import Any

import msgspec
from msgspec import inspect

from r1perf.scenario.model import Scenario
from r1perf.scenario.resolve import plain
from r1perf.units import Duration, Rate, Tokens

_UNITS: dict[type, dict[str, Any]] = {
    Duration: {"type": "string", "pattern": r"^(\d+(\.\d+)?(ns|us|ms|s|m|h|d))+$", "examples": ["90s", "1m30s"]},
    Rate: {"type": "string", "pattern": r"^\d+(\.\d+)?\s*/\s*(s|min|h)$", "examples": ["10/s", "120/min"]},
    Tokens: {
        "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^\d+(\.\d+)?\s*[kM]?$"}],
        "examples": [2048, "8k"],
    },
}
_SIMPLE: dict[type, str] = {
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum", "pattern": "pattern"}


def schema() -> dict[str, Any]:
    """Return the JSON schema (2020-12) of a scenario file.

    It is msgspec's own schema in spirit; that one cannot write defaults that carry units.
    """
    defs: dict[str, Any] = {}
    _schema(inspect.type_info(Scenario), defs)
    # A file may leave these out: the simulated endpoint stands in.
    del defs["Target"]["required"]
    defs["Scenario"]["required"] = ["name", "workload"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "r1perf scenario", "$ref": "#/$defs/Scenario", "$defs": defs,
    }  # fmt: skip


def _schema(kind: inspect.Type, defs: dict[str, Any]) -> dict[str, Any]:
    match kind:
        case inspect.Metadata():
            return _schema(kind.type, defs) | (kind.extra_json_schema or {})
        case inspect.StructType():
            return _struct(kind, defs)
        case inspect.UnionType():
            return {"anyOf": [_schema(t, defs) for t in kind.types if not isinstance(t, inspect.NoneType)]}
        case inspect.LiteralType():
            return {"enum": list(kind.values)}
        case inspect.CustomType():
            return dict(_UNITS[kind.cls])
        case inspect.VarTupleType():
            bounds = {"minItems": kind.min_length} if kind.min_length else {}
            return {"type": "array", "items": _schema(kind.item_type, defs)} | bounds
        case inspect.DictType():
            made: dict[str, Any] = {"type": "object", "additionalProperties": _schema(kind.value_type, defs)}
            names = _schema(kind.key_type, defs)
            return made | ({"propertyNames": names} if "pattern" in names else {})
        case inspect.AnyType():
            return {}
    bounds = {written: getattr(kind, name) for name, written in _BOUNDS.items() if getattr(kind, name, None) is not None}
    return {"type": _SIMPLE[type(kind)]} | bounds


def _struct(kind: inspect.StructType, defs: dict[str, Any]) -> dict[str, Any]:
    name = kind.cls.__name__
    if name in defs:
        return {"$ref": f"#/$defs/{name}"}
    made: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    defs[name] = made
    if kind.cls.__doc__:
        made["description"] = kind.cls.__doc__.split("\n\n")[0]
    required = []
    if kind.tag_field is not None:
        made["properties"][kind.tag_field] = {"const": kind.tag}
        required.append(kind.tag_field)
    for field in kind.fields:
        shape = _optional(field.type, defs)
        default = field.default if field.default is not msgspec.NODEFAULT else None
        made["properties"][field.encode_name] = shape if default is None else shape | {"default": plain(default)}
        if field.required:
            required.append(field.encode_name)
    if required:
        made["required"] = required
    return {"$ref": f"#/$defs/{name}"}


def _optional(kind: inspect.Type, defs: dict[str, Any]) -> dict[str, Any]:
    """Write an optional field as what it is when it is there: TOML has no null."""
    if isinstance(kind, inspect.UnionType):
        rest = [t for t in kind.types if not isinstance(t, inspect.NoneType)]
        if len(rest) == 1:
            return _schema(rest[0], defs)
    return _schema(kind, defs)
