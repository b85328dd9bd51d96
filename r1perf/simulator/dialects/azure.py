"""Write as Azure AI Foundry does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Counts, Wire


class Azure(Dialect):
    """Azure AI Foundry: `prompt_filter_results` first with `choices: []`, filter results on every choice."""

    name = "azure"
    fields = ("reasoning_content",)
    own_finish = True

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """Say first what the prompt filter found."""
        safe = {"filtered": False, "severity": "safe"}
        found = [
            {"prompt_index": 0, "content_filter_results": {"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe}}
        ]
        first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": found}
        return self.event(first) + super().opening(wire, counts)

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Add the filter's results."""
        return {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None, "content_filter_results": {}}
