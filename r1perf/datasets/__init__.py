"""What is asked: conversations by index. One file a dataset; a dataset is a struct, `load()` gives its conversations."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from r1perf.target import Message

Told = Callable[[str], None]
"""Takes a sentence on how far the loading of a large file is."""


def silent(sentence: str) -> None:
    """Take a sentence and do nothing."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One user turn.

    `recorded_answer` is the dataset's own reply (history = "dataset"); `expected` the right answer, for grading.
    `output_tokens` orders an exact length, `max_tokens` bounds this turn. `body` is a whole request body, passed through.
    """

    text: str
    shared: int = 0  # characters at its start that other conversations begin with as well
    recorded_answer: str | None = None
    expected: str | None = None
    max_tokens: int | None = None
    output_tokens: int | None = None
    think_time_ns: int = 0  # before this turn, after the one before it ended
    body: dict[str, Any] | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation of one or more turns, with what stands before them."""

    turns: tuple[Turn, ...]
    before: tuple[Message, ...] = ()  # system prompt, earlier messages
    headers: dict[str, str] = {}  # session affinity


class Expected(msgspec.Struct, frozen=True):
    """What a conversation is expected to need, for `r1perf check`; None where it depends on the model's own length.

    `ordered` says that every answer's length is ordered exactly, so that `output_tokens` is its mean whatever the model would have
    said, and `most_output_tokens` the longest that can be ordered, where there is one.
    """

    turns: float
    input_tokens: float | None  # per request
    output_tokens: float | None  # per request
    ordered: bool = False
    most_output_tokens: int | None = None


class Items(Protocol):
    """A loaded dataset. Item i is the same whatever was asked for before, on every worker."""

    expected: Expected
    digest: str  # of data files and parameters: equal on every worker or the run is refused
    size: int | None  # distinct conversations; None: as many as wanted

    def conversation(self, item: int) -> Conversation:
        """Return the item-th conversation of the seeded stream."""


class Dataset(Protocol):
    """A dataset as a scenario names it (a tagged struct)."""

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> Items:
        """Load it, deriving its own random streams from the seed; raises DatasetError with file, line and reason.

        Relative paths are taken from `base`, the scenario file's folder. `salt` is one text for the whole run (its id): with
        `cache = "bust"` it makes the prompts of this run differ from those of every other run of the same seed. `told` hears of the
        progress where there is much to load.
        """
