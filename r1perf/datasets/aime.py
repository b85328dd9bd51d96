"""Competition problems with whole-number answers, 0 to 999: made ones, or the public AIME sets."""

from pathlib import Path
from typing import Annotated

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Turn
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.problems import problem
from r1perf.datasets.streams import stream
from r1perf.datasets.words import digest

DIRECTIVE = "\nPlease reason step by step, and put your final answer within \\boxed{}."
"""The published directive for mathematics: in the user's message, no system prompt (the model's own card)."""


class Aime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="aime"):
    """AIME problems; the embedded generator unless a file or a hub name is given."""

    difficulty: Annotated[int, msgspec.Meta(ge=1, le=3)] = 2
    raw: bool = False
    cache: Cache = "natural"

    def load(self, seed: int, base: Path | None = None, salt: str = "") -> Items:
        """Load the problems."""
        return _Made(self, seed, salt)


class _Made:
    size: int | None = None
    expected = Expected(1.0, 90.0, None)

    def __init__(self, spec: Aime, seed: int, salt: str) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self.digest = digest(msgspec.json.encode(spec), seed).hex()

    def conversation(self, item: int) -> Conversation:
        made = problem(stream(self._seed, "aime", item), self._spec.difficulty)
        text = made.text if self._spec.raw else made.text + DIRECTIVE
        return cached(
            Conversation(turns=(Turn(text=text, expected=str(made.answer)),)), self._spec.cache, self._salt, self._seed, item
        )
