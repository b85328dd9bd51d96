"""Write as SGLang 0.5 does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import DONE, THINKING, Counts, Wire


class Sglang(Dialect):
    """SGLang: every delta has the key `reasoning_content`, null or text; a finish chunk; `sglext` when asked for."""

    name = "sglang"
    fields = ("reasoning_content",)
    own_finish = True

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token."""
        thinking = kind == THINKING
        return {
            "role": None,
            "content": None if thinking else text,
            "reasoning_content": text if thinking else None,
            "tool_calls": None,
        }

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        matched = 1 if finish == "stop" else None  # the id of the end-of-sentence token
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": matched}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}

    def extra(self, wire: Wire, counts: Counts | None) -> dict[str, Any]:
        """Carry usage on every chunk, null where it was not asked for."""
        return super().extra(wire, counts) or {"usage": None}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Count reasoning twice, as it does: at the top and in the details."""
        return {**super().usage(counts), "reasoning_tokens": counts.reasoning}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Put an `sglext` chunk before usage where the request asks for cache details."""
        ext = b""
        if wire.body.get("return_cached_tokens_details"):
            details = {"cached_tokens_details": {"device": counts.cached, "host": 0}}
            ext = self.event(self.chunk(wire, [], usage=None, sglext=details))
        return ext + super().closing(wire, counts)

    def broken(self, wire: Wire, message: str) -> bytes:
        """Write an error in the middle of a stream."""
        error = {"object": "error", "message": message, "type": "InternalServerError", "param": None, "code": 500}
        return self.event({"error": error}) + DONE
