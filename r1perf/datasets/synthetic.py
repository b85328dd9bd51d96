"""Made text of given token lengths, in and out, with shared prefixes where they are asked for."""

import math
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, lengths, silent
from r1perf.datasets.streams import fingerprint, stream
from r1perf.datasets.tokens import Calibration, TokensPerWord, Vocabulary, exact_vocabulary, slack, uncounted
from r1perf.traces import Ints

BLOCK = 16
"""Tokens of a cache block, in which servers share prefixes (vLLM's default); TensorRT-LLM and others use 32 or 64."""


_DRAWN = 1_000
"""Items whose lengths are drawn to count them."""


class Prefix(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Shared prefixes: every conversation belongs to one of `groups`, drawn evenly, and begins with its group's prefix.

    `hit_ratio` is the share of all input tokens that a cache can serve once each group's prefix is in it; or `tokens` says the
    prefix's length, without the chat template. Only whole blocks of `block` tokens count as shared, and never a prompt's last token
    (it is always computed).
    """

    groups: Annotated[int, msgspec.Meta(ge=1)] = 1
    hit_ratio: Annotated[float, msgspec.Meta(gt=0, lt=1)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | str | None = None
    block: Annotated[int, msgspec.Meta(ge=1)] = BLOCK

    def __post_init__(self) -> None:
        """Refuse none and both."""
        if (self.hit_ratio is None) == (self.tokens is None):
            raise ValueError("needs either `hit_ratio` or `tokens`")


class Synthetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="synthetic"):
    """Prompts of made words; output lengths are ordered exactly (`ignore_eos` where the server has it).

    Input lengths are exact with a `tokenizer` (a `tokenizer.json`); else one word counts as `tokens_per_word` tokens.
    `template_tokens` are those that the chat template adds; they are part of `input_tokens`, so that the server's count is met.
    Where none of the three is given, both are found before the run by the server's own counts, unless `calibrate` is false.
    `cache`: with "bust" (the default) texts are new in every run, shared prefixes among them, and a prompt meets in a cache only
    what this run put there; with "natural" a seed's texts are the same in every run.
    """

    input_tokens: lengths.Length
    output_tokens: lengths.Length
    prefix: Prefix | None = None
    tokenizer: str | None = None
    tokens_per_word: TokensPerWord = 1.0
    template_tokens: Annotated[int, msgspec.Meta(ge=0)] = 0
    calibrate: bool = True
    cache: Literal["bust", "natural"] = "bust"
    cache_control: bool = False

    def __post_init__(self) -> None:
        """Read the lengths, so that a wrong one is told before the run."""
        inputs = lengths.tokens(self.input_tokens, "input_tokens")
        lengths.tokens(self.output_tokens, "output_tokens")
        if self.prefix is not None:
            prefix_tokens(self.prefix, inputs)
        if inputs.at(0) <= self.template_tokens:
            raise ValueError(f"input_tokens: must be above template_tokens ({self.template_tokens})")

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> "Made":
        """Load the tokenizer, where one is given; every prompt is made when it is asked for."""
        if self.tokenizer is not None:
            return Made(self, seed, salt, exact_vocabulary(self.tokenizer, base, self.template_tokens))
        return Made(self, seed, salt, Vocabulary(calibration=Calibration(self.tokens_per_word, self.template_tokens)))


class Made:
    """The prompts."""

    def __init__(self, spec: Synthetic, seed: int, salt: str, vocabulary: Vocabulary) -> None:
        self._spec, self._seed, self._salt, self._vocabulary = spec, seed, salt, vocabulary
        self._input = lengths.tokens(spec.input_tokens, "input_tokens")
        self._output = lengths.tokens(spec.output_tokens, "output_tokens")
        self._prefix = prefix_tokens(spec.prefix, self._input) if spec.prefix is not None else 0
        self._common = self._prefix  # tokens of text that a group has in common
        if spec.prefix is not None and spec.prefix.hit_ratio is not None:
            calibration = vocabulary.calibration
            self._common += slack(spec, calibration, spec.prefix.block) - calibration.overhead
        self._text = (seed, salt if spec.cache == "bust" else "")
        self.size: int | None = None
        self.shortest, self.longest = self._input.at(0.0), self._input.at(1 - 1e-9)
        self.estimated = uncounted(spec)
        least = vocabulary.calibration.least
        inputs = self._input.mean if self.shortest >= least else self._input.mean_of(lambda length: max(length, least))
        self.expected = Expected(1.0, inputs, self._output.mean, ordered=True, most_output_tokens=self._output.most)
        self.digest = fingerprint(spec, seed, vocabulary.digest, vocabulary.calibration)

    def lengthened(self, items: Ints) -> float:
        """Return the share of these items that are asked to be shorter than the template and one word, and are made as long.

        Of none, or of many, it is that of their law.
        """
        least = self.calibration.least
        if self.shortest >= least:
            return 0.0
        if not 0 < len(items) <= _DRAWN:
            return self._input.mean_of(lambda length: float(length < least))
        return sum(self._input.draw(self._random(item)) < least for item in items.tolist()) / len(items)

    @property
    def vocabulary(self) -> Vocabulary:
        """Return the words that texts are made of."""
        return self._vocabulary

    @property
    def calibration(self) -> Calibration:
        """Say how words are counted."""
        return self._vocabulary.calibration

    def calibrated(self, calibration: Calibration) -> Items:
        """Return the same prompts at lengths corrected by a server's own counts."""
        return Made(self._spec, self._seed, self._salt, Vocabulary(self._vocabulary.words, calibration, self._vocabulary.digest))

    def conversation(self, item: int) -> Conversation:
        """Make one prompt."""
        random = self._random(item)
        wanted, output = self._input.draw(random), self._output.draw(random)
        start = own = ""
        if self._spec.prefix is None:
            own = self._vocabulary.text(wanted, *self._text, "item", item)
        else:
            start, own = self._parts(wanted, random.randrange(self._spec.prefix.groups), item)
        return Conversation(turns=(Turn(text=start + own, shared=len(start), output_tokens=output),))

    def _random(self, item: int) -> Random:
        """Return the stream of an item's lengths: first that of its input."""
        return stream(self._seed, "synthetic/lengths", item)

    def _parts(self, wanted: int, group: int, item: int) -> tuple[str, str]:
        """Return the group's prefix and the rest; a prompt that is shorter has as much of it as leaves a token of its own."""
        count = self._vocabulary.calibration.words(wanted)
        common = min(max(0, round(self._common / self._vocabulary.calibration.tokens_per_word)), count - 1)
        start = self._vocabulary.made(common, *self._text, "group", group)
        return start + " " if start else "", self._vocabulary.made(count - common, *self._text, "item", item)

    def hit_ratio(self, requests: int) -> float:
        """Return the share of input tokens that a cache can serve over so many requests: each group's first one misses."""
        if self._spec.prefix is None or not requests:
            return 0.0
        seen = self._spec.prefix.groups * (1 - (1 - 1 / self._spec.prefix.groups) ** requests)
        return hit_ratio(self._prefix, self._spec.prefix.block, self._input) * (1 - seen / requests)


def hit_ratio(prefix: int, block: int, inputs: lengths.Law) -> float:
    """Return the share of input tokens that lie in whole shared blocks, never a prompt's last token."""
    return inputs.mean_of(lambda length: min(prefix, length - 1) // block * block) / inputs.mean


def prefix_tokens(prefix: Prefix, inputs: lengths.Law) -> int:
    """Return the prefix's length: the number of whole blocks whose hit ratio is nearest to the wanted one.

    Raises ValueError where the lengths cannot give it.
    """
    if prefix.tokens is not None:
        return lengths.tokens(prefix.tokens, "prefix.tokens").at(0)
    assert prefix.hit_ratio is not None
    low, high = 0, math.ceil(inputs.at(1 - 1e-9) / prefix.block)
    while low < high:
        middle = (low + high) // 2
        if hit_ratio(middle * prefix.block, prefix.block, inputs) < prefix.hit_ratio:
            low = middle + 1
        else:
            high = middle
    nearest = min(
        (blocks * prefix.block for blocks in (low - 1, low) if blocks > 0),
        key=lambda tokens: abs(hit_ratio(tokens, prefix.block, inputs) - (prefix.hit_ratio or 0)),
        default=0,
    )
    reached = hit_ratio(nearest, prefix.block, inputs)
    if abs(reached - prefix.hit_ratio) > 0.02:
        raise ValueError(
            f"prefix.hit_ratio: {prefix.hit_ratio:g} cannot be had with these lengths in blocks of {prefix.block} tokens; "
            f"the nearest is {reached:.3g}"
        )
    return nearest
