"""Read a response: bytes -> events -> output chunks and facts. One tolerant reading serves every OpenAI-like dialect.

What is an output chunk: an event with text in content, in one reasoning field or in a tool call. What is none: a role alone,
an empty delta, comments, usage, a finish reason, filter results. TensorRT-LLM sends tokens whose text is still held
back by its detokeniser as chunks with empty text: by this definition they are none either; `usage` counts them.
"""

from typing import Any

import msgspec

from r1perf.errors import TransportError
from r1perf.providers import Chunk, Facts, Kind
from r1perf.providers.says import bare_error, error_of, unread
from r1perf.providers.think import THOUGHT, Think
from r1perf.providers.wire import (
    Choice,
    Delta,
    Event,
    decode,
    details_text,
    event_of,
    timings_usage,
    told_usage,
    tolerant,
    tool_text,
    usage_of,
)
from r1perf.sse import Splitter

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The longest answer that is taken where it is not streamed."""

_BLANK = b"\xef\xbb\xbf \t\r\n"  # a byte order mark is no text either

FAILURES = frozenset({"error", "abort", "insufficient_system_resource"})
"""Finish reasons that report a failure (OpenRouter and vLLM; SGLang and vLLM; DeepSeek)."""


class Reading:
    """Turn events into chunks and facts."""

    __slots__ = ("_think", "facts")

    def __init__(self, reasoning: str, facts: Facts | None = None) -> None:
        self.facts = facts or Facts()
        self._think = Think(reasoning, self.facts)

    def read(self, event: dict[str, Any]) -> list[Chunk]:
        """Read one event that somebody else has parsed already; none or one chunk."""
        chunk = self._take(event_of(event), event)
        return [] if chunk is None else [chunk]

    def _payload(self, data: bytes) -> Chunk | None:
        """Read the data of one event."""
        try:
            return self._take(decode(data), data)
        except (msgspec.MsgspecError, RecursionError):
            pass
        data = data.strip()
        if data == b"[DONE]":
            self.facts.done = True
            return None
        if not data:
            return None
        try:
            raw = tolerant(data)
        except ValueError:
            raw = None
        if not isinstance(raw, dict):
            # A gateway that sends a comment on as data, a ping: nothing that could be told from noise.
            self._stray(data)
            return None
        return self._take(event_of(raw), raw)

    def _take(self, event: Event, raw: bytes | dict[str, Any]) -> Chunk | None:
        """Write the facts of an event and return its chunk, if it is one."""
        facts = self.facts
        if facts.model is None or facts.request_id is None or event.provider is not None:
            facts.model = event.model or facts.model
            facts.request_id = facts.request_id or event.id or None
            facts.upstream = event.provider or facts.upstream
        if event.usage is not None:
            facts.usage = usage_of(event.usage, facts.usage)
        if event.timings is not None:
            facts.usage = timings_usage(event.timings, facts.usage)
        if event.perf_metrics is not None:
            facts.usage = told_usage(event.perf_metrics, facts.usage)
        if event.error:
            self._fail(event.error)
        if not event.choices:
            if event.usage is None and not event.error:
                self._bare(raw)
            return None
        chunk = self._choice(event.choices[0])
        for choice in event.choices[1:]:  # only where a body of the user's own asked for n > 1
            other = self._choice(choice)
            chunk = other if chunk is None else chunk
        return chunk

    def _choice(self, choice: Choice) -> Chunk | None:
        if choice.finish_reason:
            self._finish(choice.finish_reason)
        if choice.error:
            self._fail(choice.error)
        delta = choice.delta
        if delta is None:
            return self._think.take(choice.text) if choice.text else None
        return self._delta(delta)

    def _delta(self, delta: Delta) -> Chunk | None:
        """Classify a delta: one reasoning field, whichever has text first; its aliases say the same once more."""
        text = delta.content
        thought = False
        if delta.reasoning:
            thought, field = True, "reasoning"
        elif delta.reasoning_content:
            thought, field = True, "reasoning_content"
        elif delta.reasoning_details and details_text(delta.reasoning_details):
            thought, field = True, "reasoning_details"
        if thought:
            if self.facts.reasoning_field != field:
                self.facts.reasoning_field = field
                self._think.over()
            if not text and not delta.tool_calls:
                return THOUGHT
        if text:
            if thought:
                return Chunk(Kind.ANSWER, text, thought=True)
            return self._think.take(text)
        if delta.tool_calls and (text := tool_text(delta.tool_calls)):
            return Chunk(Kind.TOOL, text, thought)
        return THOUGHT if thought else None

    def _finish(self, reason: str) -> None:
        self.facts.finish_reason = reason
        if reason in FAILURES and self.facts.error is None:
            self.facts.error = f'the stream ended with finish_reason "{reason}"'
            self.facts.error_code = reason

    def _fail(self, error: Any) -> None:
        self.facts.error, code = error_of(error)
        self.facts.error_code = code or self.facts.error_code

    def _stray(self, data: bytes) -> None:
        self.facts.stray += 1
        self.facts.stray_text = unread(data)

    def _bare(self, raw: bytes | dict[str, Any]) -> None:
        """Look for an error in an object that has neither choices nor usage nor `error`."""
        if isinstance(raw, bytes):
            raw = tolerant(raw)
        if isinstance(raw, dict) and (error := bare_error(raw)) is not None:
            self._fail(error)


class WholeDecoder(Reading):
    """Read an answer that comes as one JSON object."""

    __slots__ = ("_body", "_size")

    def __init__(self, reasoning: str, facts: Facts | None = None) -> None:
        super().__init__(reasoning, facts)
        self._body: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> list[Chunk]:
        """Keep the bytes of one read; raises TransportError where the answer is too long."""
        self._body.append(data)
        self._size += len(data)
        if self._size > MAX_BODY_BYTES:
            raise TransportError("stream_broken", "body_too_large", f"the answer is longer than {MAX_BODY_BYTES >> 20} MiB")
        return []

    def end(self) -> list[Chunk]:
        """Read the whole answer: none or one chunk."""
        body, self._body = b"".join(self._body).strip(_BLANK), []
        try:
            raw = tolerant(body)
        except ValueError:
            if body.startswith((b"{", b"[")):  # a broken answer, not another page in its place
                self._stray(body)
                return []
            raw = None
        if isinstance(raw, dict):
            return self.read(raw)
        if body:
            says = f"not JSON: {unread(body)}" if raw is None else "JSON, but not an object"
            self.facts.error, self.facts.error_code = f"the answer is {says}", "not_json"
        return []

    def _choice(self, choice: Choice) -> Chunk | None:
        if choice.delta is None:
            choice.delta = choice.message
        return super()._choice(choice)


class StreamDecoder(Reading):
    """Read an answer that comes as an event stream, or as one JSON object though a stream was ordered."""

    __slots__ = ("_fresh", "_reasoning", "_splitter", "_whole")

    def __init__(self, reasoning: str) -> None:
        super().__init__(reasoning)
        self._reasoning = reasoning
        self._splitter = Splitter()
        self._fresh = True
        self._whole: WholeDecoder | None = None

    def feed(self, data: bytes) -> list[Chunk]:
        """Decode the body bytes of one read; raises TransportError on an event without end."""
        if self._fresh:
            self._look(data)
        if self._whole is not None:
            return self._whole.feed(data)
        return self._chunks(data)

    def end(self) -> list[Chunk]:
        """Read the event that the end of the body left without its blank line; half an event is none."""
        if self._whole is not None:
            return self._whole.end()
        stray = self.facts.stray, self.facts.stray_text
        chunks = [chunk for data, name in self._splitter.end() if (chunk := self._named(data, name)) is not None]
        self.facts.stray, self.facts.stray_text = stray
        self.facts.comments = self._splitter.comments
        return chunks

    def _chunks(self, data: bytes) -> list[Chunk]:
        chunks = []
        for payload, name in self._splitter.feed(data):
            chunk = self._named(payload, name) if name else self._payload(payload)
            if chunk is not None:
                chunks.append(chunk)
        self.facts.comments = self._splitter.comments
        return chunks

    def _named(self, data: bytes, name: str) -> Chunk | None:
        """Read an event that may have a name; only `error` means anything, the others are read by their data."""
        if name != "error":
            return self._payload(data)
        try:
            raw = tolerant(data)
        except ValueError:
            raw = data.decode("utf-8", "replace")
        self._fail(raw or "an error event without a message")
        return None

    def _look(self, data: bytes) -> None:
        """See by the first byte that is no blank whether this is an event stream at all."""
        begun = data.lstrip(_BLANK)
        if begun:
            self._fresh = False
        if begun.startswith((b"{", b"[", b"<")):
            self._whole = WholeDecoder(self._reasoning, self.facts)
            self.facts.whole = True
