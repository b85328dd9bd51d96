"""Prefix caching as a choice: make sure that no prompt is in a server's cache, that its start is, or leave it as it comes.

A cache matches prompts from their first token, so what decides is put at the very start of the first message. The prefix has the
same number of tokens in both modes: a cold and a warm run differ in the cache alone.
"""

from typing import Any, Literal

import msgspec

from r1perf.datasets import Conversation, Turn
from r1perf.datasets.words import made
from r1perf.target import Message

Cache = Literal["bust", "warm", "natural"]
"""bust: a prefix that no other conversation has; warm: one prefix for all of them; natural: the text as it comes."""

PREFIX_WORDS = 8
"""64 bits: among a million conversations two are alike with probability 3e-8; less than a cache block (16 tokens) long."""


def cached(conversation: Conversation, cache: Cache, *key: object) -> Conversation:
    """Put the prefix at the very start of a conversation. For "bust" the key names the conversation and its run."""
    if cache == "natural":
        return conversation
    prefix = made(PREFIX_WORDS, "cache", *(key if cache == "bust" else ("warm",))) + "\n\n"
    if conversation.before:
        first, *rest = conversation.before
        return msgspec.structs.replace(conversation, before=(Message(first.role, prefix + first.content), *rest))
    turn, *later = conversation.turns
    return msgspec.structs.replace(conversation, turns=(_prefixed(turn, prefix), *later))


def _prefixed(turn: Turn, prefix: str) -> Turn:
    if turn.body is None:
        return msgspec.structs.replace(turn, text=prefix + turn.text)
    return msgspec.structs.replace(turn, body=_body(turn.body, prefix))


def _body(body: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Prefix the first message of a request body (text or a list of parts), or its prompt."""
    messages = body.get("messages")
    if not messages:
        return body | {"prompt": prefix + body["prompt"]} if isinstance(body.get("prompt"), str) else body
    first, *rest = messages
    content = first.get("content")
    if isinstance(content, str):
        content = prefix + content
    else:
        content = [{"type": "text", "text": prefix}, *(content or [])]
    return body | {"messages": [first | {"content": content}, *rest]}
