"""The lengths of recorded traffic, and the prefixes that its requests shared."""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, silent
from r1perf.datasets.streams import fingerprint
from r1perf.datasets.synthetic import BLOCK
from r1perf.datasets.tokens import Calibration, TokensPerWord, Vocabulary, exact_vocabulary, slack, uncounted
from r1perf.errors import DatasetError
from r1perf.replay import Replay, replay
from r1perf.target import Positive
from r1perf.traces import Ints, Trace, read_trace
from r1perf.units import MOST_TOKENS, Duration, Rate


class TraceLengths(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="trace"):
    """Requests as long as those of a Mooncake, Qwen-Bailian, Azure or BurstGPT trace, in its order; output lengths are ordered.

    Item i is the i-th request of the replay (`start`, `length`, `speed`, `rate`: see `r1perf.replay`), so that arrivals of the same
    replay meet their own lengths; after the last one it begins again. Where the trace names its prefix blocks (`hash_ids`),
    equal ids are equal text, among the first copies of its requests, among the second ones and so on, never between them: a request
    that comes again, by a `rate` above the trace's own or in another pass, shares no more than it did in the trace. `scale` shortens (or lengthens) inputs, blocks and outputs alike, for small servers.
    `tokenizer`, `tokens_per_word`, `template_tokens`, `calibrate` and `cache` are those of `synthetic`.
    """

    file: str
    start: Duration = Duration(0)
    length: Duration | None = None
    speed: Positive = 1.0
    rate: Rate | None = None
    scale: Positive = 1.0
    tokenizer: str | None = None
    tokens_per_word: TokensPerWord = 1.0
    template_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    calibrate: bool = True
    cache: Literal["bust", "natural"] = "bust"
    cache_control: bool = False

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> "Replayed":
        """Read the trace; raises DatasetError with file, line and reason."""
        if self.tokenizer is not None:
            vocabulary = exact_vocabulary(self.tokenizer, base, self.template_tokens)
        else:
            vocabulary = Vocabulary(calibration=Calibration(self.tokens_per_word, self.template_tokens))
        trace = read_trace((base or Path()) / Path(self.file).expanduser())
        if (says := _left_out(trace)) is not None:
            told(says)
        return Replayed(self, seed, salt, trace, self._replay(trace), vocabulary)

    def offsets_ns(self, base: Path | None = None) -> Ints:
        """Return when each request comes, in ns from the replay's start, in order: the times that belong to the items."""
        return self._replay(read_trace((base or Path()) / Path(self.file).expanduser())).offsets_ns

    def _replay(self, trace: Trace) -> Replay:
        return replay(trace, start_ns=self.start, length_ns=self.length, speed=self.speed, rate=self.rate)


def _left_out(trace: Trace) -> str | None:
    """Say how many requests of the file are not asked."""
    whole = trace.left_out + len(trace.offsets_ns)
    return (
        f"{trace.left_out:,} of the trace's {whole:,} requests had no input or no output and are left out"
        if trace.left_out
        else None
    )


class Replayed:
    """The requests of a replay."""

    def __init__(self, spec: TraceLengths, seed: int, salt: str, trace: Trace, chosen: Replay, vocabulary: Vocabulary) -> None:
        self._spec, self._seed, self._salt, self._trace, self._chosen, self._vocabulary = (
            spec,
            seed,
            salt,
            trace,
            chosen,
            vocabulary,
        )
        self._text = (seed, salt if spec.cache == "bust" else "")
        self._block_tokens = trace.block_tokens * spec.scale
        self._slack = slack(spec, vocabulary.calibration, min(BLOCK, int(self._block_tokens)))
        self._block = lru_cache(maxsize=2048)(self._made_block)  # long shared prefixes come again and again
        self.size: int | None = len(chosen.rows)
        inputs = trace.input_tokens[chosen.rows]
        self.shortest, self.longest = (max(1, round(int(end) * spec.scale)) for end in (inputs.min(), inputs.max()))
        self.estimated = uncounted(spec)
        self.left_out = _left_out(trace)
        self.offsets_ns = chosen.offsets_ns
        longest = self.longest if self.longest > MOST_TOKENS else max(1, round(int(trace.output_tokens.max()) * spec.scale))
        if longest > MOST_TOKENS:
            raise DatasetError(f"{spec.file}: with `scale` {spec.scale:g} it has lengths over {MOST_TOKENS:,} tokens")
        self.expected = self.expected_of(np.arange(len(chosen.rows)))
        self.digest = fingerprint(spec, seed, trace.digest, vocabulary.digest, vocabulary.calibration)

    def expected_of(self, items: Ints) -> Expected:
        """Return what these items need, exactly; there is at least one, and no input is shorter than the template and one word."""
        rows = self._chosen.rows[items % len(self._chosen.rows)]
        inputs, outputs = (
            np.maximum(least, np.rint(tokens[rows] * self._spec.scale))
            for tokens, least in ((self._trace.input_tokens, self.calibration.least), (self._trace.output_tokens, 1))
        )
        return Expected(1.0, float(inputs.mean()), float(outputs.mean()), ordered=True, most_output_tokens=int(outputs.max()))

    def lengthened(self, items: Ints) -> float:
        """Return the share of these items that are asked to be shorter than the template and one word, and are made as long."""
        rows = self._chosen.rows[items % len(self._chosen.rows)] if len(items) else self._chosen.rows
        wanted = np.maximum(1, np.rint(self._trace.input_tokens[rows] * self._spec.scale))
        return float((wanted < self.calibration.least).mean())

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the words that texts are made of."""
        return self._vocabulary

    @property
    def calibration(self) -> Calibration:
        """Say how words are counted."""
        return self._vocabulary.calibration

    def calibrated(self, calibration: Calibration) -> Items:
        """Return the same requests at lengths corrected by a server's own counts."""
        vocabulary = Vocabulary(self._vocabulary.words, calibration, self._vocabulary.digest)
        return Replayed(self._spec, self._seed, self._salt, self._trace, self._chosen, vocabulary)

    def conversation(self, item: int) -> Conversation:
        """Make one request: about 70 us for each 1,000 tokens."""
        row = int(self._chosen.rows[item % len(self._chosen.rows)])
        wanted = max(1, round(int(self._trace.input_tokens[row]) * self._spec.scale))
        output = max(1, round(int(self._trace.output_tokens[row]) * self._spec.scale))
        left = self._vocabulary.calibration.words(wanted)
        turn = self._turn(item)
        parts: list[str] = []
        start = 0
        for number, block in enumerate(self._trace.block_ids(row), start=1):
            end = self._words_to(number)
            count = min(left, end - start)
            start = end
            if count:
                parts.append(self._block(block, turn, count))
                left -= count
        shared = sum(map(len, parts)) + len(parts)
        if left:
            parts.append(self._vocabulary.made(left, *self._text, "item", item))
        text = " ".join(parts)
        return Conversation(turns=(Turn(text=text, shared=min(shared, len(text)), output_tokens=output),))

    def _turn(self, item: int) -> tuple[int, int]:
        """Return which pass over the replay an item is in, and which copy of its request it is there."""
        again, place = divmod(item, len(self._chosen.rows))
        return again, 0 if self._chosen.copies is None else int(self._chosen.copies[place])

    def _words_to(self, blocks: int) -> int:
        """Return how many words so many blocks hold, from the start: no rounding adds up. The template's tokens belong to the first."""
        calibration = self._vocabulary.calibration
        tokens = blocks * self._block_tokens + self._slack - calibration.overhead
        return max(0, round(tokens / calibration.tokens_per_word))

    def _made_block(self, block: int, turn: tuple[int, int], words: int) -> str:
        return self._vocabulary.made(words, *self._text, "block", block, *turn)
