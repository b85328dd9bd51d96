"""Send one request and say truthfully what came of it. Two engines: `fast` (ours) and `openai` (the SDK, unmodified)."""

from typing import Protocol, TypeVar

import msgspec

from r1perf.result import Result, Stream
from r1perf.target import Call


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Which scheduled request a call is."""

    id: str
    arrival: int
    turn: int
    workload: str
    stage: int
    item: int
    scheduled_ns: int


class Reply(msgspec.Struct, frozen=True):
    """The result of a request, and its answer text where the call asked to keep some."""

    result: Result
    answer: str | None = None


P = TypeVar("P")
"""A call rendered ahead of time, each engine's own kind, so that sending it only writes bytes."""


class Client(Protocol[P]):
    """One engine, bound to one target and one loop."""

    def prepare(self, call: Call) -> P:
        """Render a call; never called by the dispatcher at the moment of sending."""

    def send(self, ticket: Ticket, prepared: P, stream: Stream) -> Reply:
        """Send once, wait for the end, and return; never raises for what a server or network does.

        `stream` is written on every read. Where the calling task is cancelled, the connection is closed and the reply's
        outcome is `cancelled` (the reply is returned, not raised). The result's `chunks`, `coalesced`, `chunks_by_stage`,
        `itl_max_ns` and `stamps_ns` are left for the recorder, which folds the stream.
        """

    def close(self) -> None:
        """Close every connection."""
