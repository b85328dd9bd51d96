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
    """One output chunk: an event that carries text, in content, in one reasoning field or in a tool call.

    One event is one chunk, so chunks count what came over the wire. An event with reasoning and answer text (both fields, or
    `...</think>answer`) is an ANSWER with `thought`: note a reasoning chunk first, then the answer, with one stamp.
    `rethink` takes back what was said before: all chunks of this response up to here were reasoning (a `</think>` that nothing
    had opened, since R1's template pre-fills the tag; or a `<think>` split over events). Then the first reasoning chunk is
    the first output chunk, and what was kept or counted as answer is void.
    """

    kind: Kind
    text: str  # of the answer or tool call; "" for reasoning, which is never kept
    thought: bool = False  # the event also carried reasoning, before its answer text
    rethink: bool = False  # every chunk before this one was reasoning too


class Facts(msgspec.Struct):
    """What a response said beside its text; the last word wins, and None is not a word.

    A `finish_reason` that reports a failure (`error`, `abort`, `insufficient_system_resource`) sets `error` as well.
    """

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
    reasoning_field: str | None = None  # the field in which reasoning came; "content" where it came as inline tags
    prefilled: bool = False  # a `</think>` came that nothing had opened
    stray: int = 0  # events whose data was neither JSON nor [DONE]: ignored
    stray_text: str | None = None  # the last of them, shortened
    whole: bool = False  # one JSON object came where an event stream was ordered
    fallbacks: int = 0  # how many other deployments a gateway tried (LiteLLM)


class Decoder(Protocol):
    """The reading of one response."""

    facts: Facts

    def feed(self, data: bytes) -> list[Chunk]:
        """Decode the body bytes of one read; any split of the bytes gives the same chunks in the same order."""

    def end(self) -> list[Chunk]:
        """Take note that the body has ended; return what was still held back."""

    def read(self, event: dict[str, Any]) -> list[Chunk]:
        """Read one event that somebody else has parsed already (the openai engine); none or one chunk."""


class Dialect(Protocol):
    """One server family. Values come from `facts/providers.md`-style sources, cited where they are used."""

    @property
    def name(self) -> str:
        """Return the name by which a scenario's `provider` chooses it."""

    @property
    def orders_length(self) -> bool:
        """Tell whether the server can be ordered to an exact length; where not, `Call.output_tokens` is an error before the run."""

    @property
    def takes_cache_control(self) -> bool:
        """Tell whether the server, or one behind it, takes `cache_control` marks in messages."""

    def path(self, target: Target) -> str:
        """Return what is appended to the target's URL."""

    def headers(self, target: Target, key: str | None) -> dict[str, str]:
        """Return the headers of every request, the key's among them."""

    def body(self, target: Target, call: Call) -> dict[str, Any]:
        """Build the request body."""

    def decoder(self, target: Target) -> Decoder:
        """Begin to read one response (`target.stream` tells whether it is an event stream or one JSON object)."""

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take what a response's head says (request id, upstream) into the facts; header names are lower case."""

    def rerouted(self, target: Target, call: Call, facts: Facts) -> str | None:
        """Return why the response did not come from the upstream or model that was pinned; None where it did."""

    def refusal(self, status: int, headers: dict[str, str], body: bytes) -> tuple[Outcome, str | None, str | None]:
        """Read an HTTP status other than 200: outcome, reason word, and the server's message, shortened."""
