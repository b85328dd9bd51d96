"""Tell before a run how often its prompts repeat: whole prompts, and their beginnings, which a prefix cache can serve."""

from collections.abc import Iterable

import msgspec

from r1perf.datasets import Conversation

PROMPTS = 1_000
CHARACTERS = 20_000_000
"""How far a dataset is looked through: the first so many prompts, and no more text than this."""

BLOCK = 64
"""Characters that are compared at once: about a cache block of 16 tokens."""


class Repeats(msgspec.Struct, frozen=True, kw_only=True):
    """What the first `prompts` first turns have in common: `repeated` of them are an earlier one, word for word.

    `shared` is the share of all their text that lies in beginnings (in whole blocks of 64 characters, a repeated prompt in full)
    which an earlier prompt had too: about the hit ratio of a cache that forgets nothing. Later turns, which begin as the turn before them did, are not
    among it.
    """

    prompts: int
    repeated: int
    shared: float


def repeats(conversations: Iterable[Conversation]) -> Repeats:
    """Look through conversations in their order, as far as `PROMPTS` and `CHARACTERS` go."""
    whole: set[int] = set()
    begun: set[int] = set()
    prompts = repeated = characters = shared = 0
    for conversation in conversations:
        if prompts == PROMPTS or characters >= CHARACTERS:
            break
        text = _text(conversation)
        prompts += 1
        characters += len(text)
        key = hash(text)
        again = key in whole
        repeated += again
        whole.add(key)
        shared += len(text) if again else _begun(text, begun)
    return Repeats(prompts=prompts, repeated=repeated, shared=shared / characters if characters else 0.0)


def _text(conversation: Conversation) -> str:
    said = [f"{message.role}\n{message.content}" for message in conversation.before]
    return "\n".join([*said, conversation.turns[0].text])


def _begun(text: str, begun: set[int]) -> int:
    """Return how many characters some earlier text began with, in whole blocks, and remember this one's beginnings."""
    known, chain = 0, 0
    for at in range(0, len(text) - BLOCK + 1, BLOCK):
        chain = hash((chain, text[at : at + BLOCK]))
        if chain in begun:  # then everything before it was, too
            known += BLOCK
        else:
            begun.add(chain)
    return known
