"""Recorded conversations in ShareGPT's shape: `conversations` of from/value, or `messages` of role/content."""

from typing import Any, NamedTuple

import msgspec

from r1perf.target import Message

_ROLES = {"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant",
          "bard": "assistant", "system": "system"}  # fmt: skip


class _Said(msgspec.Struct, frozen=True):
    role: str = msgspec.field(name="from")
    value: str


class _Message(msgspec.Struct, frozen=True):
    role: str
    content: str | None = None


class Exchange(NamedTuple):
    """What a user said, and the recorded answer where there is one."""

    said: str
    answered: str | None


class Recorded(NamedTuple):
    """One recorded conversation; without an exchange it cannot be asked."""

    before: tuple[Message, ...]
    exchanges: tuple[Exchange, ...]


def read_recorded(row: dict[str, Any]) -> Recorded:
    """Read one row; raises ValueError with a reason. What comes before the first user message, but for a system prompt, is left out.

    Messages of one role in a row become one; what a tool said counts as the user's.
    """
    messages = _messages(row)
    before: list[Message] = []
    said: list[list[str]] = []
    answers: list[list[str]] = []
    for role, text in messages:
        if role == "system":
            if not said:
                before.append(Message("system", text))
        elif role == "user":
            if not said or answers[-1]:
                said.append([])
                answers.append([])
            said[-1].append(text)
        elif said:
            answers[-1].append(text)
    exchanges = (
        Exchange("\n\n".join(texts), "\n\n".join(answer) if answer else None) for texts, answer in zip(said, answers, strict=True)
    )
    return Recorded(tuple(before), tuple(exchange for exchange in exchanges if exchange.said.strip()))


def _messages(row: dict[str, Any]) -> list[tuple[str, str]]:
    if row.get("conversations") is not None:
        said = msgspec.convert(row["conversations"], list[_Said])
        return [(_ROLES.get(entry.role, "user"), entry.value) for entry in said]
    if row.get("messages") is not None:
        messages = msgspec.convert(row["messages"], list[_Message])
        return [(_ROLES.get(entry.role, "user"), entry.content or "") for entry in messages]
    raise ValueError(f"has neither `conversations` nor `messages` (it has {', '.join(row) or 'nothing'})")
