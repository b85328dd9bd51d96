"""Write as DeepSeek's own API does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import THINKING, Counts, Wire


class Deepseek(Dialect):
    """DeepSeek's API: keep-alive comments, both fields in every delta, usage with cache hits on the finish chunk."""

    name = "deepseek"
    fields = ("reasoning_content",)
    own_finish = True
    keep_alive_s = 10.0  # unverified

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": None, "reasoning_content": ""}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token."""
        return {"content": None, "reasoning_content": text} if kind == THINKING else {"content": text, "reasoning_content": None}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Add the fingerprint."""
        return super().chunk(wire, choices, system_fingerprint="fp_r1sim", **more)

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Add cache hits and misses."""
        miss = counts.prompt - counts.cached
        return {**super().usage(counts), "prompt_cache_hit_tokens": counts.cached, "prompt_cache_miss_tokens": miss}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"content": "", "reasoning_content": None}

    def finish(self, wire: Wire, finish: str, counts: Counts) -> bytes:
        """Let usage ride on the finish chunk, asked for or not."""
        choice = self.choice(self.finish_delta(), finish)
        if not wire.chat:
            choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": finish}
        return self.event(self.chunk(wire, [choice], **({} if wire.mute else {"usage": self.usage(counts)})))

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Add nothing after the finish chunk."""
        return b""

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Give the code as a word."""
        return {"error": {"message": message, "type": kind, "param": param, "code": "invalid_request_error"}}
