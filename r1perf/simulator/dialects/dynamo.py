"""Write as NVIDIA Dynamo does."""

from r1perf.simulator.dialects.dialect import Dialect
from r1perf.simulator.dialects.wire import Wire


class Dynamo(Dialect):
    """NVIDIA Dynamo: as older vLLM, but errors are an `event: error` whose text is only a comment (dynamo#8674)."""

    name = "dynamo"
    fields = ("reasoning_content",)
    own_finish = True

    def broken(self, wire: Wire, message: str) -> bytes:
        """Name the event and put the message in a comment; nothing follows."""
        return b"event: error\n: " + message.encode() + b"\n\n"
