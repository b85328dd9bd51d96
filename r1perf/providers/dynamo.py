"""Speak to NVIDIA Dynamo's frontend, whose errors inside a stream may be an `error` event with nothing but a comment."""

from typing import ClassVar

from r1perf.providers.openai import OpenAI


class Dynamo(OpenAI, frozen=True, tag="dynamo"):
    """Can be ordered to an exact length: `ignore_eos` and `min_tokens` stand at the root, as for vLLM (dynamo-llm 1.1 on)."""

    orders_length: ClassVar[bool] = True
