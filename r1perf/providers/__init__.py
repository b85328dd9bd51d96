"""Wire dialects: how each server family is spoken to, and what its stream means. One file a dialect."""

from enum import IntEnum
from typing import Any, NamedTuple, Protocol

import msgspec

from r1perf.result import Outcome, Usage
from r1perf.target import Call, Target


class Kind(IntEnum):
    """What an output chunk carries."""

    REASONING = 1
    ANSWER = 2
    TOOL = 3


class Chunk(NamedTuple):
    """One output chunk: an event that carries text, in content, in one reasoning field or in a tool call."""

    kind: Kind
    text: str  # of the answer or tool call; "" for reasoning, which is never kept


class Facts(msgspec.Struct):
    """What a response said beside its text; the last word wins, and None is not a word."""

    finish_reason: str | None = None
    usage: Usage | None = None
    error: str | None = None  # the text of an error object or event inside a 200
    error_code: str | None = None
    request_id: str | None = None
    model: str | None = None
    upstream: str | None = None
    done: bool = False  # [DONE] was seen
    reasoning_tag_open: bool = False  # the stream ended inside an inline <think>
    comments: int = 0  # SSE comments: keep-alives


class Decoder(Protocol):
    """The reading of one response."""

    facts: Facts

    def feed(self, data: bytes) -> list[Chunk]:
        """Decode the body bytes of one read; any split of the bytes gives the same chunks in the same order."""

    def end(self) -> list[Chunk]:
        """Take note that the body has ended; return what was still held back."""


class Dialect(Protocol):
    """One server family. Values come from `facts/providers.md`-style sources, cited where they are used."""

    name: str

    def path(self, target: Target) -> str:
        """Return what is appended to the target's URL."""

    def headers(self, target: Target, key: str | None) -> dict[str, str]:
        """Return the headers of every request, the key's among them."""

    def body(self, target: Target, call: Call) -> dict[str, Any]:
        """Build the request body."""

    def decoder(self, target: Target) -> Decoder:
        """Begin to read one response (`target.stream` tells whether it is an event stream or one JSON object)."""

    def refusal(self, status: int, headers: dict[str, str], body: bytes) -> tuple[Outcome, str | None, str | None]:
        """Read an HTTP status other than 200: outcome, reason word, and the server's message, shortened."""
