"""Write as LiteLLM's proxy does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Wire


class Litellm(Dialect):
    """LiteLLM's proxy: `reasoning_content`, the role on the first token, `x-litellm-` headers."""

    name = "litellm"
    fields = ("reasoning_content",)
    own_finish = True

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Say which deployment answered, and how often the proxy tried."""
        return [
            ("x-litellm-call-id", wire.id),
            ("x-litellm-model-id", "r1sim-deployment-1"),
            ("x-litellm-upstream-model", wire.model),
            ("x-litellm-attempted-retries", "0"),
            ("x-litellm-attempted-fallbacks", "1" if wire.rerouted else "0"),
        ]

    def role(self) -> None:
        """Have no role chunk of its own."""

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Leave out what is None."""
        return {"index": 0, "delta": delta} if finish is None else {"finish_reason": finish, "index": 0, "delta": delta}
