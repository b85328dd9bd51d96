"""Older vLLM, and vLLM (or any server like it) without a reasoning parser."""

from typing import Any, ClassVar, Literal

from r1perf.simulator.dialects.dialect import Dialect


class VllmOld(Dialect):
    """vLLM before 0.12: `delta.reasoning_content`; errors in the stream without the `error` key around them."""

    name = "vllm-old"
    fields = ("reasoning_content",)

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Write the body of a refusal."""
        return {"object": "error", "message": message, "type": kind, "param": param, "code": status}


class Tags(Dialect):
    """A server without a reasoning parser whose output opens with `<think>`."""

    name = "tags"
    fields = ()
    inline: ClassVar[Literal["", "tags", "prefilled"]] = "tags"
    counts_reasoning = False


class Prefilled(Tags):
    """A server without a reasoning parser whose template opens `<think>` itself: only `</think>` is streamed."""

    name = "prefilled"
    inline = "prefilled"


class Plain(Dialect):
    """A model that does not reason."""

    name = "none"
    fields = ()
    thinks = False
    counts_reasoning = False
