"""Recorded conversations in ShareGPT's shape: `conversations` of from/value, or `messages` of role/content, as text or in parts."""

from typing import Any, NamedTuple

from r1perf.datasets.files import held, shown
from r1perf.grading import without_reasoning
from r1perf.target import Message

_KNOWN = {
    "user": ("human", "user", "tool", "function", "observation", "function_response", "tool_response", "ipython"),
    "assistant": ("gpt", "assistant", "chatgpt", "bing", "bard", "model", "bot", "function_call", "tool_call"),
    "system": ("system", "developer"),
}
_ROLES = {name: role for role, names in _KNOWN.items() for name in names}


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

    Messages of one role in a row become one; what a tool said counts as the user's. Answers lose their reasoning, as R1 wants it:
    so they carry what a server's own would.
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
            answers[-1].append(without_reasoning(text).strip() if "<think>" in text or "</think>" in text else text)
    exchanges = (
        Exchange("\n\n".join(texts), "\n\n".join(answer) if answer else None) for texts, answer in zip(said, answers, strict=True)
    )
    return Recorded(tuple(before), tuple(exchange for exchange in exchanges if exchange.said.strip()))


def _messages(row: dict[str, Any]) -> list[tuple[str, str]]:
    for key in ("conversations", "messages", "conversation"):
        if row.get(key) is not None:
            if not isinstance(row[key], list):
                raise ValueError(f"`{key}` must be a list of messages")
            return [_message(entry, f"{key}[{number}]") for number, entry in enumerate(row[key])]
    raise ValueError(f"has neither `conversations` nor `messages` (it has {held(row)})")


def _message(entry: Any, where: str) -> tuple[str, str]:
    """Read {"from", "value"} or {"role", "content"}; raises ValueError for a role that nobody knows."""
    has: dict[str, Any] = entry if isinstance(entry, dict) else {}
    role = has.get("from", has.get("role"))
    if not isinstance(role, str) or not ("value" in has or "content" in has):
        raise ValueError(
            f'`{where}` must have "from" and "value", or "role" and "content" (it has {", ".join(has) or "nothing"})'
        )
    key = "value" if "value" in has else "content"
    text = text_of_content(has[key])
    if text is None:
        raise ValueError(f"`{where}.{key}` must be a text or a list of parts, not {shown(has[key])}")
    if role not in _ROLES:
        raise ValueError(f'`{where}` is from "{role}"; allowed: {", ".join(_ROLES)}')
    return _ROLES[role], text


def text_of_content(content: Any) -> str | None:
    """Return the text of a message's content: a text, nothing, or parts, of which those with text count; None where it is none of these."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        return None
    return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
