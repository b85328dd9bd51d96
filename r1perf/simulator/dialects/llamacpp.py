"""Write as llama.cpp's server does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Counts, Wire


class LlamaCpp(Dialect):
    """llama.cpp's server: choices first, `reasoning_content`, an empty finish delta, `timings` beside usage."""

    name = "llama.cpp"
    fields = ("reasoning_content",)
    own_finish = True
    counts_reasoning = False

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": None}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Put the finish first."""
        return {"finish_reason": finish, "index": 0, "delta": delta}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Order the keys as it does."""
        kind = "chat.completion.chunk" if wire.chat else "text_completion"
        head = {"choices": choices, "created": wire.created, "id": wire.id, "model": wire.model}
        return {**head, "system_fingerprint": "r1sim", "object": kind, **more}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Give timings with usage."""
        if not wire.usage:
            return b""
        timings = {"cache_n": counts.cached, "prompt_n": counts.prompt - counts.cached, "predicted_n": counts.output}
        return self.event(self.chunk(wire, [], usage=self.usage(counts), timings=timings))
