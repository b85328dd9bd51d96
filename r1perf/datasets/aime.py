"""Competition problems with whole-number answers, 0 to 999: made ones, or the public AIME sets."""

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, silent
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.files import Rows, cell, open_rows, read_all, shown, text_of, whole
from r1perf.datasets.hub import HubRows
from r1perf.datasets.problems import problem
from r1perf.datasets.streams import Order, Picker, fingerprint, stream
from r1perf.datasets.words import estimated_tokens
from r1perf.units import Tokens

DIRECTIVE = "\nPlease reason step by step, and put your final answer within \\boxed{}."
"""The published directive for mathematics, in the user's message and without a system prompt (README of deepseek-ai/DeepSeek-R1)."""

TEMPERATURE, TOP_P, ROOM = 0.6, 0.95, Tokens(32_768)
"""How DeepSeek evaluates R1 (its model card): sampling, and the room for an answer with its thinking."""


class Aime(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="aime"):
    """AIME problems: made ones of the given difficulty, or those of a file or of a hub set.

    `raw` sends the problem alone, as vLLM's benchmark does. `grade = false` reads no answers (sets that have none).
    `solution_room` bounds each answer to the length of the set's own `solution`, as vLLM does by default: a few hundred tokens,
    which cuts a reasoning model in mid-thought. `sample` says how more items than problems are drawn: in "shuffled" passes, each
    a new permutation, or by "choice" with replacement after the first pass, or in passes in the file's order ("sequential").
    """

    file: str | None = None
    hub: str | None = None
    split: str = "train"
    revision: str | None = None
    difficulty: Annotated[int, msgspec.Meta(ge=1, le=3)] = 2
    raw: bool = False
    grade: bool = True
    solution_room: bool = False
    sample: Order = "shuffled"
    cache: Cache = "natural"
    cache_control: bool = False

    def __post_init__(self) -> None:
        """Refuse what does not go together."""
        if self.file is not None and self.hub is not None:
            raise ValueError("`file` and `hub` cannot be given both")
        if self.solution_room and self.file is None and self.hub is None:
            raise ValueError("`solution_room` needs a `file` or `hub` set with solutions; made problems have none")

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> Items:
        """Load the problems; raises DatasetError with file, line and reason."""
        if self.hub is not None:
            return _Stored(self, HubRows(self.hub, self.split, self.revision, told), seed, salt)
        if self.file is not None:
            return _Stored(self, open_rows(self.file, base, told), seed, salt)
        return _Made(self, seed, salt)


class _Record(NamedTuple):
    problem: str
    answer: str | None
    solution_tokens: int | None


class _Source:
    """Turn problems into conversations."""

    def __init__(self, spec: Aime, seed: int, salt: str, content: str = "") -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self.digest = fingerprint(spec, seed, content)

    def conversation(self, item: int) -> Conversation:
        record = self._record(item)
        text = record.problem if self._spec.raw else record.problem + DIRECTIVE
        turn = Turn(text=text, expected=record.answer, max_tokens=record.solution_tokens)
        return cached(Conversation(turns=(turn,)), self._spec.cache, self._salt, self._seed, item)

    def _record(self, item: int) -> _Record:
        raise NotImplementedError

    def _expected(self, problems: list[str]) -> Expected:
        """Estimate the input from some problems."""
        extra = 0 if self._spec.raw else estimated_tokens(DIRECTIVE)
        return Expected(1.0, sum(map(estimated_tokens, problems)) / len(problems) + extra, None)


class _Made(_Source):
    def __init__(self, spec: Aime, seed: int, salt: str) -> None:
        super().__init__(spec, seed, salt)
        self.size: int | None = None
        self.expected = self._expected([self._record(item).problem for item in range(64)])

    def _record(self, item: int) -> _Record:
        made = problem(stream(self._seed, "aime", item), self._spec.difficulty)
        return _Record(made.text, str(made.answer) if self._spec.grade else None, None)


class _Stored(_Source):
    def __init__(self, spec: Aime, rows: Rows, seed: int, salt: str) -> None:
        super().__init__(spec, seed, salt, rows.digest)
        # Sets of this kind hold some hundred or thousand short texts: they are kept.
        self._records = list(read_all(rows, self._read))
        self._pick = Picker(seed, "aime", len(rows), spec.sample)
        self.size: int | None = len(rows)
        self.expected = self._expected([record.problem for record in self._records])

    def _record(self, item: int) -> _Record:
        return self._records[self._pick(item)]

    def _read(self, row: dict[str, Any]) -> _Record:
        room = None
        if self._spec.solution_room:
            room = max(1, round(estimated_tokens(text_of(row, "solution", "Solution"))))
        return _Record(text_of(row, "problem", "Problem"), _answer(row) if self._spec.grade else None, room)


def _answer(row: dict[str, Any]) -> str:
    """Read a row's answer; raises ValueError unless it is a whole number from 0 to 999 ("073" is 73)."""
    value = cell(row, "answer", "Answer")
    number = None if value is None else whole(str(value))
    if number is None or len(number) > 3:
        told = "has no `answer`" if value is None else f"`answer` is {shown(value)}"
        raise ValueError(f"{told}; allowed: a whole number from 0 to 999, or `grade = false` for sets without answers")
    return number
