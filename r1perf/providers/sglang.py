"""Speak to SGLang (read at 0.5.23)."""

from typing import ClassVar

from r1perf.providers.openai import OpenAI


class Sglang(OpenAI, frozen=True, tag="sglang"):
    """Can be ordered to an exact length: `ignore_eos` with `min_tokens` = `max_tokens`."""

    orders_length: ClassVar[bool] = True
