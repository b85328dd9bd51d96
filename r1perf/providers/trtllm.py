"""Speak to TensorRT-LLM's `trtllm-serve`, which refuses request fields that it does not know."""

from typing import ClassVar

from r1perf.providers.openai import OpenAI


class Trtllm(OpenAI, frozen=True, tag="trtllm"):
    """Can be ordered to an exact length; sends usage on every chunk once `stream_options` is there at all."""

    orders_length: ClassVar[bool] = True
