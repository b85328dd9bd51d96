"""Whole request bodies of the user's own, passed through: JSON Lines as the OpenAI API takes them."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, silent
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.files import open_rows, read_all, shown
from r1perf.datasets.streams import Picker, fingerprint
from r1perf.datasets.words import estimated_tokens
from r1perf.target import BOUNDS, SEVERAL
from r1perf.units import MOST_TOKENS

_ENDPOINTS = ("chat/completions", "completions")


class OpenAI(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="openai"):
    """Request bodies: `{"messages": [...], "max_tokens": ..., "tools": [...], ...}` a line, or `{"prompt": ...}` for completions.

    Everything is sent as it stands, but for model, stream and stream_options, which the target sets, and the workload's `max_tokens`,
    which a body without a bound of its own is given. The lines of a batch file
    (`{"custom_id", "method", "url", "body"}`) are taken by their `body`. Each must be for the target's `endpoint`.
    """

    file: str
    order: Literal["sequential", "shuffled"] = "sequential"
    cache: Cache = "natural"

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> Items:
        """Load the bodies; raises DatasetError with file, line and reason."""
        return _Bodies(self, seed, base, salt, told)


class _Bodies:
    """The bodies. `endpoints` are those that some body is for, each with the place of the first; `several` is where the first one asks
    for more than one answer.
    """

    def __init__(self, spec: OpenAI, seed: int, base: Path | None, salt: str, told: Told) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self._rows = open_rows(spec.file, base, told)
        inputs, self.endpoints = 0.0, dict[str, str]()
        self.several: str | None = None
        for index, body in enumerate(read_all(self._rows, _body, told)):
            inputs += estimated_tokens(_text(body))
            self.endpoints.setdefault(_endpoint(body), self._rows.where(index))
            if self.several is None and _several(body):
                self.several = self._rows.where(index)
        self.size: int | None = len(self._rows)
        self.expected = Expected(1.0, inputs / len(self._rows), None)
        self.digest = fingerprint(spec, seed, self._rows.digest)
        self._pick = Picker(seed, "openai", len(self._rows), spec.order)

    def conversation(self, item: int) -> Conversation:
        body = _body(self._rows.row(self._pick(item)))
        plain = Conversation(turns=(Turn(text=_text(body), max_tokens=_max_tokens(body), body=body),))
        return cached(plain, self._spec.cache, self._salt, self._seed, item)


def _body(row: dict[str, Any]) -> dict[str, Any]:
    """Check that a row is a request body; raises ValueError with a reason."""
    batched = isinstance(row.get("body"), dict)
    body: dict[str, Any] = row["body"] if batched else row
    messages, prompt = body.get("messages"), body.get("prompt")
    if messages is not None and prompt is not None:
        raise ValueError("has both `messages` and `prompt`; allowed: one of them")
    chat = isinstance(messages, list) and bool(messages) and all(isinstance(m, dict) and "role" in m for m in messages)
    if not chat and not isinstance(prompt, str):
        raise ValueError("must have `messages`, a list of objects with a `role`, or `prompt`, a text")
    for name in BOUNDS:
        bound = body.get(name)
        if bound is not None and (type(bound) is not int or not 1 <= bound <= MOST_TOKENS):
            raise ValueError(f"`{name}` is {shown(bound)}; allowed: a whole number from 1 to {MOST_TOKENS:,}, or none")
    url = row.get("url") if batched else None
    if url is not None and _endpoint(body) != next(
        (name for name in _ENDPOINTS if str(url).rstrip("/").endswith("/" + name)), None
    ):
        raise ValueError(f"`url` is {shown(url)}, but its body is one for {_endpoint(body)}")
    return body


def _endpoint(body: dict[str, Any]) -> str:
    """Name the endpoint that a body is for."""
    return _ENDPOINTS[body.get("messages") is None]


def _max_tokens(body: dict[str, Any]) -> int | None:
    """Return the body's own bound, for reserving and planning: the larger one of two, since not every server knows both."""
    return max((body[name] for name in BOUNDS if body.get(name) is not None), default=None)


def _several(body: dict[str, Any]) -> bool:
    """Tell whether a body asks for more than one answer."""
    return any(body.get(name) not in (None, 1) for name in SEVERAL)


def _text(body: dict[str, Any]) -> str:
    """Return the text that a body carries, for estimates."""
    if body.get("messages") is None:
        return str(body["prompt"])
    parts: list[str] = []
    for message in body["messages"]:
        content = message.get("content")
        if isinstance(content, str):
            parts.append(content)
        elif isinstance(content, list):
            parts.extend(part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str))
    return "\n".join(parts)
