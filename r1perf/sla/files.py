"""Read clauses from a file: a TOML list of ours, or OpenSLO documents in YAML or JSON."""

import importlib
import json
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from r1perf.errors import ClauseError, UsageError
from r1perf.sla import openslo
from r1perf.sla.clauses import Clause
from r1perf.sla.grammar import did_you_mean
from r1perf.sla.validate import Scope, parse

_KEYS = ("clauses", "confidence")

_FROM_CONSTRUCTORS = (ValueError, TypeError, AttributeError, LookupError, RecursionError)
"""What pyyaml lets through from what it builds values with: `2026-13-45`, `!!int ""`, `!!timestamp x`, `!!bool x`."""


class SlaFile(msgspec.Struct, frozen=True):
    """The clauses of a file, and the confidence at which it wants them judged; None where it does not say."""

    clauses: tuple[Clause, ...]
    confidence: float | None = None


def load(path: Path, scope: Scope | None = None) -> SlaFile:
    """Read a file by its ending (.toml; .yaml, .yml, .json for OpenSLO); raises UsageError with the file and the reason."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"{path}: cannot be read: {reason}") from error
    match path.suffix.lower():
        case ".toml":
            texts, confidence = _toml(path, text)
        case ".json":
            texts, confidence = _openslo(path, _json(path, text)), None
        case ".yaml" | ".yml":
            texts, confidence = _openslo(path, _yaml(path, text)), None
        case ending:
            raise UsageError(f"{path}: cannot tell what `{ending}` holds; allowed: .toml, .yaml, .yml, .json")
    try:
        return SlaFile(tuple(parse(one, scope) for one in texts), confidence)
    except ClauseError as error:
        raise UsageError(f"{path}: {error}") from error


def _toml(path: Path, text: str) -> tuple[list[str], float | None]:
    try:
        table = tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # more than TOMLDecodeError: a whole number of thousands of digits, deep nesting
        raise UsageError(f"{path}: is no valid TOML: {error}") from error
    for key in table:
        if key not in _KEYS:
            raise UsageError(f"{path}: `{key}`: unknown; {did_you_mean(key, _KEYS)}")
    texts, confidence = table.get("clauses"), table.get("confidence")
    if not isinstance(texts, list) or not texts or not all(isinstance(one, str) for one in texts):
        raise UsageError(f'{path}: `clauses` must be a list of clauses such as ["p95(ttft) < 800ms"]')
    if confidence is not None and (not isinstance(confidence, float) or not 0.5 < confidence < 1):
        raise UsageError(f"{path}: `confidence` must lie between 0.5 and 1, such as 0.95")
    return texts, confidence


def _json(path: Path, text: str) -> list[Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # as above
        raise UsageError(f"{path}: is no valid JSON: {error}") from error
    return found if isinstance(found, list) else [found]


def _yaml(path: Path, text: str) -> list[Any]:
    try:
        yaml = importlib.import_module("yaml")
    except ImportError as error:
        raise UsageError(
            f"{path}: OpenSLO in YAML needs pyyaml, which is not installed; allowed: pip install 'r1perf[openslo]', or JSON"
        ) from error
    try:
        return [document for document in yaml.safe_load_all(text) if document is not None]
    except (yaml.YAMLError, *_FROM_CONSTRUCTORS) as error:
        raise UsageError(f"{path}: is no valid YAML: {' '.join(str(error).split())}") from error


def _openslo(path: Path, documents: list[Any]) -> list[str]:
    try:
        return openslo.clauses(documents)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
