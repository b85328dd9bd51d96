"""Write as NVIDIA Dynamo does."""

from typing import Any

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Wire


class Dynamo(Dialect):
    """NVIDIA Dynamo: as older vLLM without its `stop_reason`; errors are an `event: error` whose text is only a comment (dynamo#8674)."""

    name = "dynamo"
    fields = ("reasoning_content",)
    own_finish = True

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Leave out what is vLLM's own."""
        return {"index": 0, "delta": delta, "finish_reason": finish}

    def broken(self, wire: Wire, message: str) -> bytes:
        """Name the event and put the message in a comment; nothing follows."""
        return b"event: error\n: " + message.encode() + b"\n\n"
