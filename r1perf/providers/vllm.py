"""Speak to vLLM (read at 0.33; its older streams have `reasoning_content` where newer ones have `reasoning`)."""

from typing import ClassVar

from r1perf.providers.openai import OpenAI


class Vllm(OpenAI, frozen=True, tag="vllm"):
    """Can be ordered to an exact length: `ignore_eos` with `min_tokens` = `max_tokens`."""

    orders_length: ClassVar[bool] = True
