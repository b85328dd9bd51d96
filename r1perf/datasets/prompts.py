"""Prompts of the user's own: a list in the scenario, or a file."""

from pathlib import Path
from typing import Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Turn
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.streams import Picker
from r1perf.datasets.words import digest


class Prompts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="prompts"):
    """Single-turn prompts as they are."""

    prompts: tuple[str, ...] = ()
    order: Literal["sequential", "shuffled"] = "sequential"
    cache: Cache = "natural"

    def __post_init__(self) -> None:
        """Refuse an empty list."""
        if not self.prompts:
            raise ValueError('needs `prompts = ["...", ...]`')

    def load(self, seed: int, base: Path | None = None, salt: str = "") -> Items:
        """Load the prompts."""
        return _Listed(self, seed, salt)


class _Listed:
    def __init__(self, spec: Prompts, seed: int, salt: str) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self._pick = Picker(seed, "prompts", len(spec.prompts), spec.order)
        self.size: int | None = len(spec.prompts)
        self.expected = Expected(1.0, sum(map(len, spec.prompts)) / 4 / len(spec.prompts), None)
        self.digest = digest(msgspec.json.encode(spec), seed).hex()

    def conversation(self, item: int) -> Conversation:
        turn = Turn(text=self._spec.prompts[self._pick(item)])
        return cached(Conversation(turns=(turn,)), self._spec.cache, self._salt, self._seed, item)
