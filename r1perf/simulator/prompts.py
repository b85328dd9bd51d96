"""Read a prompt as the engine does: its text, its length in tokens, the hashes of its blocks.

One token is four bytes of UTF-8, which is what English comes to with real tokenizers, give or take a tenth.
"""

from typing import Any

BYTES_PER_TOKEN = 4


def chat_text(messages: list[Any]) -> str:
    """Render a chat as one text, turn by turn, so that a longer chat begins with the text of the shorter one."""
    parts = []
    for message in messages:
        role = message.get("role", "user")
        if role == "assistant":
            parts.append(f"<|Assistant|>{content_text(message.get('content'))}<|end|>")
        elif role == "system":
            parts.append(content_text(message.get("content")))
        else:
            parts.append(f"<|User|>{content_text(message.get('content'))}")
    return "".join(parts) + "<|Assistant|>"


def content_text(content: Any) -> str:
    """Return the text of a message: a string, or a list of parts of which those of type text count."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return ""


def tokens_of(data: bytes) -> int:
    """Count the tokens of a prompt; an empty one still has one."""
    return max(1, -(-len(data) // BYTES_PER_TOKEN))


def block_hashes(data: bytes, block: int, salt: str = "") -> list[int]:
    """Hash each full block of a prompt together with all that stands before it (and the request's `cache_salt`)."""
    width = block * BYTES_PER_TOKEN
    hashes = []
    previous = hash(salt)
    for start in range(0, len(data) - width + 1, width):
        previous = hash((previous, data[start : start + width]))
        hashes.append(previous)
    return hashes
