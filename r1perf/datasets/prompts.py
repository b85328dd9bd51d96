"""Prompts of the user's own: a list in the scenario, or a JSON Lines, JSON, CSV, Parquet or text file."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, silent
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.files import cell, open_rows, read_all, shown, text_of, whole
from r1perf.datasets.streams import Picker, fingerprint
from r1perf.datasets.words import estimated_tokens
from r1perf.target import Message
from r1perf.units import MOST_TOKENS


class Prompts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="prompts"):
    """Single-turn prompts as they are.

    A file's rows hold `prompt`, and where they have them `system`, `expected` (the right answer, graded) and `output_tokens`
    (orders an exact length: vLLM's custom format).
    """

    prompts: tuple[str, ...] = ()
    file: str | None = None
    order: Literal["sequential", "shuffled"] = "sequential"
    cache: Cache = "natural"
    cache_control: bool = False

    def __post_init__(self) -> None:
        """Refuse none and both."""
        if bool(self.prompts) == (self.file is not None):
            raise ValueError('needs either `prompts = ["...", ...]` or `file = "..."`')
        if not all(self.prompts):
            raise ValueError("`prompts` holds an empty text")

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> Items:
        """Load the prompts; raises DatasetError with file, line and reason."""
        return _Rows(self, seed, base, salt, told)


class _Rows:
    def __init__(self, spec: Prompts, seed: int, base: Path | None, salt: str, told: Told) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self._rows = open_rows(spec.file, base, told) if spec.file is not None else None
        count, inputs, outputs, ordered, most = 0, 0.0, 0, 0, 0
        for conversation in read_all(self._rows, read_prompt, told) if self._rows is not None else map(_listed, spec.prompts):
            turn = conversation.turns[0]
            count += 1
            inputs += estimated_tokens(turn.text) + sum(estimated_tokens(message.content) for message in conversation.before)
            outputs += turn.output_tokens or 0
            ordered += turn.output_tokens is not None
            most = max(most, turn.output_tokens or 0)
        self.size: int | None = count
        whole = ordered == count
        self.expected = Expected(
            1.0, inputs / count, outputs / count if whole else None, ordered=whole, most_output_tokens=most if whole else None
        )
        self.digest = fingerprint(spec, seed, self._rows.digest if self._rows is not None else "")
        self._pick = Picker(seed, "prompts", count, spec.order)

    def conversation(self, item: int) -> Conversation:
        index = self._pick(item)
        plain = _listed(self._spec.prompts[index]) if self._rows is None else read_prompt(self._rows.row(index))
        return cached(plain, self._spec.cache, self._salt, self._seed, item)


def read_prompt(row: dict[str, Any]) -> Conversation:
    """Read one row; raises ValueError with a reason."""
    ordered = cell(row, "output_tokens")
    if ordered in (None, ""):
        ordered = None
    elif isinstance(ordered, str) and (digits := whole(ordered)) is not None and len(digits) <= 20:  # a CSV cell
        ordered = int(digits)
    if ordered is not None and (type(ordered) is not int or not 1 <= ordered <= MOST_TOKENS):
        raise ValueError(f"`output_tokens` is {shown(ordered)}; allowed: a whole number from 1 to {MOST_TOKENS:,}, or none")
    expected = cell(row, "expected")
    if type(expected) not in (str, int, float, type(None)):
        raise ValueError(f"`expected` is {shown(expected)}; allowed: a text or a number, or none")
    return Conversation(
        turns=(
            Turn(
                text=text_of(row, "prompt"),
                expected=None if expected in (None, "") else str(expected),
                output_tokens=ordered,
            ),
        ),
        before=(Message("system", text_of(row, "system")),) if cell(row, "system") else (),
    )


def _listed(prompt: str) -> Conversation:
    return Conversation(turns=(Turn(text=prompt),))
