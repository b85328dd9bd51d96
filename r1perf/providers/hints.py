"""Mark in a chat what is worth caching, as Anthropic's API takes it and gateways pass it on: `cache_control` on a text part.

A mark says that everything up to and with its part is to be kept. It stands where other requests can go on from: at the end of the
system prompt, at the end of the text that conversations share, and at the end of the last message, for the next turn. That is
three at most, of the four that are taken.
"""

from collections.abc import Sequence
from typing import Any

from r1perf.target import Message

MARK = {"type": "ephemeral"}


def marked(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return messages as a request body has them, with marks."""
    first_user = next((at for at, message in enumerate(messages) if message.role != "system"), len(messages))
    made = []
    for at, message in enumerate(messages):
        parts = _parts(message)
        if at in (first_user - 1, len(messages) - 1):
            parts[-1]["cache_control"] = MARK
        whole = len(parts) == 1 and "cache_control" not in parts[0]
        made.append({"role": message.role, "content": message.content if whole else parts})
    return made


def _parts(message: Message) -> list[dict[str, Any]]:
    """Part a message where the text that others share ends, and mark that end."""
    if not 0 < message.shared < len(message.content):
        return [{"type": "text", "text": message.content}]
    start, rest = message.content[: message.shared], message.content[message.shared :]
    return [{"type": "text", "text": start, "cache_control": MARK}, {"type": "text", "text": rest}]
