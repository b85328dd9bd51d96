"""Speak to llama.cpp's `llama-server`, which counts tokens in `timings` even where `usage` is absent."""

from typing import Any, ClassVar

from r1perf.providers.openai import OpenAI


class LlamaCpp(OpenAI, frozen=True, tag="llamacpp"):
    """Can be ordered to an exact length: `ignore_eos` up to `max_tokens`; it knows no `min_tokens`."""

    orders_length: ClassVar[bool] = True

    def exact_length(self, tokens: int) -> dict[str, Any]:
        """Return the fields that order exactly so many tokens."""
        return {"max_tokens": tokens, "ignore_eos": True}
