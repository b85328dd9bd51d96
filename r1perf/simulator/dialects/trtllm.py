"""Write as TensorRT-LLM (main, 2026) does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Counts, Wire


class Trtllm(Dialect):
    """TensorRT-LLM: a role line with a trailing space, usage on every chunk, tokens with empty text, strict requests."""

    name = "trtllm"
    fields = ("reasoning_content",)
    counts_reasoning = False  # unverified
    holds_bytes = True
    request_fields = frozenset({
        "add_generation_prompt", "chat_template_kwargs", "echo", "frequency_penalty", "ignore_eos", "logit_bias", "logprobs",
        "max_completion_tokens", "max_tokens", "messages", "min_p", "min_tokens", "model", "n", "presence_penalty", "prompt",
        "reasoning_effort", "repetition_penalty", "response_format", "seed", "stop", "stop_token_ids", "stream",
        "stream_options", "suffix", "temperature", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "user",
    })  # fmt: skip

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk: no content key."""
        return {"role": "assistant"}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice; None is left out."""
        choice = {"index": 0, "delta": delta}
        return choice if finish is None else {**choice, "finish_reason": finish, "avg_decoded_tokens_per_iter": 1.0}

    def continuous(self, wire: Wire) -> bool:
        """Default `continuous_usage_stats` to true."""
        stream_options = wire.body.get("stream_options") or {}
        return wire.usage and stream_options.get("continuous_usage_stats", True) is True

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """End the first line in a space."""
        opening = super().opening(wire, counts)
        return opening[:-2] + b" \n\n" if opening else opening
