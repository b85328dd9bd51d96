"""Made text of given token lengths, in and out."""

from pathlib import Path

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Turn, lengths
from r1perf.datasets.streams import stream
from r1perf.datasets.words import digest, made


class Synthetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="synthetic"):
    """Prompts of made words; output lengths are ordered exactly."""

    input_tokens: lengths.Length
    output_tokens: lengths.Length

    def __post_init__(self) -> None:
        """Read the lengths, so that a wrong one is told before the run."""
        lengths.tokens(self.input_tokens, "input_tokens")
        lengths.tokens(self.output_tokens, "output_tokens")

    def load(self, seed: int, base: Path | None = None, salt: str = "") -> Items:
        """Load nothing: every prompt is made when it is asked for."""
        return _Made(self, seed, salt)


class _Made:
    size: int | None = None

    def __init__(self, spec: Synthetic, seed: int, salt: str) -> None:
        self._spec, self._seed, self._salt = spec, seed, salt
        self._input = lengths.tokens(spec.input_tokens, "input_tokens")
        self._output = lengths.tokens(spec.output_tokens, "output_tokens")
        self.expected = Expected(1.0, self._input.mean, self._output.mean)
        self.digest = digest(msgspec.json.encode(spec), seed).hex()

    def conversation(self, item: int) -> Conversation:
        random = stream(self._seed, "synthetic/lengths", item)
        count, output = self._input.draw(random), self._output.draw(random)
        return Conversation(turns=(Turn(text=made(count, self._salt, self._seed, item), output_tokens=output),))
