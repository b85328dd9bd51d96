"""Write an answer as vLLM does; every other family is told by how it differs."""

from typing import Any, ClassVar, Literal

import msgspec

from r1perf.simulator.dialects.wire import DONE, HOLE, THINKING, Counts, Wire

_encode = msgspec.json.encode


class Dialect:
    """vLLM 0.33 with a reasoning parser: `delta.reasoning`, the finish on the last token, usage in a `choices: []` chunk."""

    name: ClassVar[str] = "vllm"
    fields: ClassVar[tuple[str, ...]] = ("reasoning",)
    inline: ClassVar[Literal["", "tags", "prefilled"]] = ""
    thinks: ClassVar[bool] = True
    own_finish: ClassVar[bool] = False  # finish_reason comes in a chunk without text
    counts_reasoning: ClassVar[bool] = True
    holds_bytes: ClassVar[bool] = False  # now and then a token has no text yet, and the next one has both
    request_fields: ClassVar[frozenset[str] | None] = None  # where unknown ones are refused
    keep_alive_s: ClassVar[float | None] = None  # how often a comment is sent while a request waits for its first token

    # What each part of an event holds.

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Return the response headers that this family adds."""
        return []

    def role(self) -> dict[str, Any] | None:
        """Return the delta of the first chunk, or None where there is no such chunk."""
        return {"role": "assistant", "content": ""}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token; an inline family writes its thinking as content."""
        if kind == THINKING and not self.inline:
            return {field: text for field in self.fields}
        return {"content": text}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return choice if finish is None else {**choice, "stop_reason": None}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Wrap choices into a chunk."""
        kind = "chat.completion.chunk" if wire.chat else "text_completion"
        return {"id": wire.id, "object": kind, "created": wire.created, "model": wire.model, "choices": choices, **more}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Return the usage object."""
        usage: dict[str, Any] = {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt + counts.output,
            "completion_tokens": counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
        }
        if self.counts_reasoning:
            usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
        return usage

    def continuous(self, wire: Wire) -> bool:
        """Say whether every chunk carries usage."""
        return wire.usage and wire.continuous

    def extra(self, wire: Wire, counts: Counts | None) -> dict[str, Any]:
        """Return what a chunk carries beside its choices."""
        return {"usage": self.usage(counts)} if counts is not None and self.continuous(wire) else {}

    # The events of a stream.

    def event(self, payload: dict[str, Any]) -> bytes:
        """Frame one payload."""
        return b"data: " + _encode(payload) + b"\n\n"

    def at_once(self, wire: Wire) -> bytes:
        """Return what follows the head, before the engine has done anything."""
        return b""

    def keep_alive(self) -> bytes:
        """Return the comment that this family sends while a request waits."""
        return b": keep-alive\n\n"

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """Return what comes with, and before, the first token."""
        role = self.role()
        if role is None or not wire.chat:
            return b""
        return self.event(self.chunk(wire, [self.choice(role, None)], **self.extra(wire, counts)))

    def token(self, wire: Wire, kind: int, text: str, finish: str | None, counts: Counts | None) -> bytes:
        """Write one token; `finish` is given with the last one, where this family lets it carry the finish."""
        if not wire.chat:
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
        else:
            choice = self.choice(self.delta(kind, text), finish)
        return self.event(self.chunk(wire, [choice], **self.extra(wire, counts)))

    def parts(self, wire: Wire, kind: int) -> list[bytes]:
        """Cut a token's event at its text: `text.join(parts)` is the event, for JSON-escaped text."""
        return self.token(wire, kind, HOLE, None, None).split(b"\\u0001")

    def finish(self, wire: Wire, finish: str, counts: Counts) -> bytes:
        """Write the chunk that carries only the finish."""
        if not wire.chat:
            return self.event(self.chunk(wire, [{"index": 0, "text": "", "logprobs": None, "finish_reason": finish}]))
        return self.event(self.chunk(wire, [self.choice(self.finish_delta(), finish)], **self.extra(wire, counts)))

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of a chunk that carries only the finish."""
        return {}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Return what follows the finish, but for [DONE]."""
        return self.event(self.chunk(wire, [], usage=self.usage(counts))) if wire.usage else b""

    # Answers that are not streamed, and errors.

    def whole(self, wire: Wire, reasoning: str, answer: str, finish: str | None, counts: Counts | None) -> dict[str, Any]:
        """Write a response in one piece; `counts` is None where usage is left out."""
        if wire.chat:
            message: dict[str, Any] = {"role": "assistant", "content": answer}
            if self.thinks and not self.inline:
                message |= {field: reasoning for field in self.fields}
            else:
                message["content"] = reasoning + answer
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        else:
            choice = {"index": 0, "text": reasoning + answer, "logprobs": None, "finish_reason": finish}
        kind = "chat.completion" if wire.chat else "text_completion"
        body = {"id": wire.id, "object": kind, "created": wire.created, "model": wire.model, "choices": [choice]}
        return body if counts is None else {**body, "usage": self.usage(counts)}

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Write the body of a refusal."""
        return {"error": {"message": message, "type": kind, "param": param, "code": status}}

    def broken(self, wire: Wire, message: str) -> bytes:
        """Write an error in the middle of a stream, as far as the stream then goes on."""
        return self.event(self.error(500, message, "InternalServerError")) + DONE
