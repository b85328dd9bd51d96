"""Write as OpenRouter does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import DONE, THINKING, Counts, Wire


class Openrouter(Dialect):
    """OpenRouter: `: OPENROUTER PROCESSING`, `provider` in every chunk, `reasoning` and `reasoning_details`, cost."""

    name = "openrouter"
    own_finish = True
    keep_alive_s = 10.0  # unverified

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Name the generation."""
        return [("x-generation-id", wire.id)]

    def at_once(self, wire: Wire) -> bytes:
        """Say that the request is being processed."""
        return self.keep_alive()

    def keep_alive(self) -> bytes:
        """Return its own words."""
        return b": OPENROUTER PROCESSING\n\n"

    def role(self) -> None:
        """Have no role chunk."""

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token: thinking twice, in two shapes."""
        if kind != THINKING:
            return {"role": "assistant", "content": text}
        detail = {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}
        return {"role": "assistant", "content": "", "reasoning": text, "reasoning_details": [detail]}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        return {"index": 0, "delta": delta, "finish_reason": finish, "native_finish_reason": finish, "logprobs": None}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Name the upstream."""
        return {"id": wire.id, "provider": "Elsewhere" if wire.rerouted else "R1Sim", **super().chunk(wire, choices, **more)}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"role": "assistant", "content": ""}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Add the cost, at 0.70 and 2.50 USD per million tokens (its R1 price of July 2026)."""
        cost = round((counts.prompt * 0.70 + counts.output * 2.50) / 1e6, 9)
        return {**super().usage(counts), "cost": cost}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Give usage always, in a chunk with an empty delta."""
        if wire.mute:
            return b""
        choice = self.choice(self.finish_delta(), None) if wire.chat else {"index": 0, "text": "", "finish_reason": None}
        return self.event(self.chunk(wire, [choice], usage=self.usage(counts)))

    def broken(self, wire: Wire, message: str) -> bytes:
        """Put the error into a chunk, with finish_reason "error"."""
        error = {"code": 502, "message": message}
        return self.event(self.chunk(wire, [self.choice({"content": ""}, "error")], error=error)) + DONE
