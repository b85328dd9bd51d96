"""Conversations of several turns."""

from pathlib import Path
from typing import Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Turn, lengths
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.streams import stream
from r1perf.datasets.words import digest, made


class Chat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="chat"):
    """Multi-turn conversations with think time between the turns."""

    turns: lengths.Length = lengths.Uniform(low=1, high=5)
    message_tokens: lengths.Length = lengths.Lognormal(median=60, sigma=0.8, low=8, high=2000)
    think_time: lengths.Times = lengths.Lognormal(median="5s", sigma=0.6, low="1s", high="60s")
    history: Literal["server", "dataset"] = "server"
    cache: Cache = "natural"

    def __post_init__(self) -> None:
        """Read the distributions, so that a wrong one is told before the run."""
        lengths.tokens(self.turns, "turns")
        lengths.tokens(self.message_tokens, "message_tokens")
        lengths.times(self.think_time, "think_time")

    def load(self, seed: int, base: Path | None = None, salt: str = "") -> Items:
        """Load nothing: every conversation is made when it is asked for."""
        return _Made(self, seed, salt)


class _Made:
    size: int | None = None

    def __init__(self, spec: Chat, seed: int, salt: str) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self._turns = lengths.tokens(spec.turns, "turns")
        self._message = lengths.tokens(spec.message_tokens, "message_tokens")
        self._think = lengths.times(spec.think_time, "think_time")
        self.expected = Expected(self._turns.mean, self._message.mean, None)
        self.digest = digest(msgspec.json.encode(spec), seed).hex()

    def conversation(self, item: int) -> Conversation:
        random = stream(self._seed, "chat", item)
        turns = tuple(
            Turn(
                text=made(self._message.draw(random), "chat", self._seed, item, turn),
                think_time_ns=self._think.draw(random) if turn else 0,
            )
            for turn in range(self._turns.draw(random))
        )
        return cached(Conversation(turns=turns), self._spec.cache, self._salt, self._seed, item)
