"""Random streams of a dataset: each derived from the seed, a dimension's name and an item, so that item i never depends on what was
asked before it. No global state.
"""

from functools import lru_cache
from random import Random
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from r1perf.datasets.words import digest

Order = Literal["shuffled", "sequential", "choice"]


def stream(seed: int, name: str, item: int) -> Random:
    """Open the stream of one item in one dimension (4 us)."""
    return Random(int.from_bytes(digest(seed, name, item), "big"))


def fingerprint(spec: object, seed: int, *content: object) -> str:
    """Hash a dataset's parameters, seed and what it read, as `Items.digest`."""
    return digest(msgspec.json.encode(spec, enc_hook=repr), seed, *content).hex()


class Picker:
    """Map item numbers to the `count` records of a file.

    "shuffled": in passes, each pass a permutation of its own; "sequential": in passes in the file's order; "choice": the first
    `count` items are one permutation, later ones are drawn with replacement, as vLLM oversamples.
    """

    def __init__(self, seed: int, name: str, count: int, order: Order) -> None:
        self._seed, self._name, self._count, self._order = seed, name, count, order
        self._permutation = lru_cache(maxsize=4)(self._permute)  # neighbouring passes overlap between sessions
        if order != "sequential":
            self._permutation(0)

    def __call__(self, item: int) -> int:
        """Return the index of the record that an item shows."""
        turn, place = divmod(item, self._count)
        if self._order == "sequential":
            return place
        if self._order == "choice" and turn > 0:
            return stream(self._seed, self._name + "/choice", item).randrange(self._count)
        return int(self._permutation(turn)[place])

    def _permute(self, turn: int) -> NDArray[np.int64]:
        key = np.frombuffer(digest(self._seed, self._name + "/order", turn), dtype="<u8")
        return np.random.Generator(np.random.Philox(key=key)).permutation(self._count)
