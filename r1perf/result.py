"""One request: what was asked for, what is still streaming, what came of it."""

from enum import StrEnum
from typing import Literal

import msgspec


class Outcome(StrEnum):
    """What became of a scheduled request; the classes are in `FAILED`, `CENSORED` and the rest (ok)."""

    OK = "ok"
    TRUNCATED = "truncated"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    CLIENT_ERROR = "client_error"
    SERVER_ERROR = "server_error"
    TIMEOUT = "timeout"
    CONNECT_ERROR = "connect_error"
    STREAM_ERROR = "stream_error"
    STREAM_BROKEN = "stream_broken"
    FILTERED = "filtered"
    REROUTED = "rerouted"
    CANCELLED = "cancelled"
    DROPPED = "dropped"
    LOST = "lost"


FAILED = frozenset({
    Outcome.RATE_LIMITED, Outcome.OVERLOADED, Outcome.CLIENT_ERROR, Outcome.SERVER_ERROR, Outcome.TIMEOUT, Outcome.CONNECT_ERROR,
    Outcome.STREAM_ERROR, Outcome.STREAM_BROKEN, Outcome.FILTERED, Outcome.REROUTED,
})  # fmt: skip
"""Outcomes that count in error_rate and lie over every latency limit."""

CENSORED = frozenset({Outcome.CANCELLED, Outcome.DROPPED, Outcome.LOST})
"""Outcomes that the end of the run, not the target, gave; bounded both ways."""


class Usage(msgspec.Struct, frozen=True):
    """Token counts of one request, as the server (or a local count) has them; None where it said nothing."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None

    @property
    def warmth(self) -> Literal["cold", "warm", "partly"] | None:
        """Say how much of the prompt came from the cache: under 5 % is cold, half and more is warm; None where nobody said."""
        if not self.input_tokens or self.cached_tokens is None:
            return None
        if 2 * self.cached_tokens >= self.input_tokens:
            return "warm"
        return "cold" if 20 * self.cached_tokens < self.input_tokens else "partly"


class Result(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Everything that is known of one request when it has ended: one line of `requests.<worker>.jsonl`.

    All `*_ns` are monotonic stamps of the worker's loop; None where the thing did not happen. No prompt or answer text, but for what
    was read of a graded answer.
    `chunks` counts output chunks; of these `coalesced` shared the read of the chunk before them.
    `chunks_by_stage` says in which stage (by index) the output chunks happened; it adds up to `chunks`.
    """

    id: str  # unique in the run: "<arrival index>.<turn>"
    arrival: int  # index in the whole schedule
    turn: int
    workload: str
    stage: int  # index of the stage in which the request was scheduled
    item: int  # index of the conversation in the workload's dataset
    outcome: Outcome
    reason: str | None = None  # a short stable word, see TransportError and the providers
    message: str | None = None  # the server's error text, shortened
    status: int | None = None  # HTTP status
    finish_reason: str | None = None
    retry_after_ns: int | None = None
    scheduled_ns: int
    sent_ns: int | None = None
    connect_ns: int | None = None  # how long DNS + TCP + TLS took; None when a connection was reused
    head_ns: int | None = None  # response head complete
    first_ns: int | None = None  # first output chunk of any kind
    first_reasoning_ns: int | None = None
    first_answer_ns: int | None = None  # first non-blank answer chunk after the last reasoning chunk
    last_ns: int | None = None  # last output chunk; not streamed: body complete
    done_ns: int  # the request was over for the client
    streamed: bool = True
    chunks: int = 0
    coalesced: int = 0
    answer_chunks: int = 0
    chunks_by_stage: dict[int, int] = msgspec.field(default_factory=dict)
    itl_max_ns: int | None = None
    usage: Usage = Usage()
    token_source: str | None = None  # server | tokenizer | chunks
    length_ordered: int | None = None  # output tokens that were ordered exactly (ignore_eos)
    length_mismatch: bool = False
    input_most: int | None = None  # the most input tokens that its prompt can have, and
    output_most: int | None = None  # the bound on its answer: of requests that are `untold` or that the run's end cut
    reasoning_hidden: bool = False  # reasoning was counted but not streamed
    stray_events: int = 0  # events that were neither JSON nor [DONE]: ignored, with the text that they may have held
    request_id: str | None = None
    upstream: str | None = None
    model: str | None = None  # as the server named it
    local_port: int | None = None
    grade: str | None = None  # what its answer is worth (grading.Grade), where it was graded
    answer: str | None = None  # what was read as the answer for that, shortened
    stamps_ns: list[int] | None = None  # every output chunk's stamp, only with record_chunks

    @property
    def unconnected(self) -> bool:
        """Tell whether it failed since no connection came about."""
        if self.outcome is Outcome.CONNECT_ERROR:
            return self.connect_ns is None and self.reason != "stale_connection"
        return self.outcome is Outcome.TIMEOUT and self.reason == "connect"

    @property
    def untold(self) -> bool:
        """Tell whether the target may have read its prompt, and billed it, and nobody told how many tokens that were."""
        unread = self.unconnected or self.outcome is Outcome.CONNECT_ERROR or (self.status is not None and self.status >= 400)
        return self.usage.input_tokens is None and self.sent_ns is not None and not unread


class Stream:
    """One request in flight: what the client writes on every read and the recorder folds at every flip.

    The client appends to `pending` the stamp of each output chunk, one entry a chunk, so chunks of one read repeat a
    stamp. The recorder takes them away at each flip, so memory does not grow with the answer. Nothing else is kept.
    """

    __slots__ = (
        "answer_chunks", "chunks_by_stage", "coalesced", "first_answer_ns", "first_ns", "first_reasoning_ns", "folded_ns", "itl_max_ns",
        "last_ns", "pending", "scheduled_ns", "sent_ns", "stage", "stamps_ns", "workload",
    )  # fmt: skip

    def __init__(self, workload: str, stage: int, scheduled_ns: int, *, record_chunks: bool = False) -> None:
        self.workload = workload
        self.stage = stage
        self.scheduled_ns = scheduled_ns
        # Written by the client.
        self.sent_ns = 0
        self.pending: list[int] = []
        self.first_ns = 0
        self.first_reasoning_ns = 0
        self.first_answer_ns = 0  # lowered again by a later reasoning chunk
        self.last_ns = 0
        self.answer_chunks = 0
        # Written by the recorder.
        self.folded_ns = 0  # the last stamp that was folded; 0 before the first
        self.coalesced = 0
        self.itl_max_ns = 0
        self.chunks_by_stage: dict[int, int] = {}
        self.stamps_ns: list[int] | None = [] if record_chunks else None
