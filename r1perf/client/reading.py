"""The part that both engines share: from decoded chunks, facts and an ending to the Stream, the Result and the Reply.

An engine makes one `Reading` a request, calls `take` with the chunks of each read and the stamp of that read, and at the end
`reply` with the `Ending` that it saw and the decoder's `Facts`. Everything that the two engines could disagree on is here.
"""

import msgspec

from r1perf.client import Reply, Ticket
from r1perf.client.ending import Ending, judge, retry_after_ns
from r1perf.providers import Chunk, Facts, Kind
from r1perf.result import Result, Stream, Usage

_REASONING, _ANSWER = Kind.REASONING, Kind.ANSWER


COUNT_MOST = 2**53
"""More tokens than this no server can have counted: it has told nonsense."""


class Order(msgspec.Struct, frozen=True):
    """What a call asked for, as far as it decides what its response means."""

    streamed: bool = True
    keep_answer: int = 0  # characters
    length: int | None = None  # output tokens that were ordered exactly


class Reading:
    """One response while it is read; writes the `Stream` of its request.

    A tool call counts as answer (it is what the caller waited for) but its text is not kept. Where the response is not
    streamed its chunks have no times of their own: the stream then has only `last_ns` (body complete) and `answer_chunks`.
    """

    __slots__ = ("_kept", "_notes", "_room", "chunks", "order", "reasoning", "stream")

    def __init__(self, stream: Stream, order: Order) -> None:
        self.stream = stream
        self.order = order
        self.chunks = 0
        self.reasoning = False  # a reasoning chunk was seen
        self._notes = stream
        self._kept: list[str] = []
        self._room = order.keep_answer
        if not order.streamed:
            self.whole()

    @property
    def streamed(self) -> bool:
        """Tell whether the chunks' times mean anything."""
        return self._notes is self.stream

    def whole(self) -> None:
        """Take what follows for one whole object, whatever was ordered; call it before its chunks are taken."""
        self._notes = Stream("", 0, 0)

    def take(self, now_ns: int, chunks: list[Chunk]) -> None:
        """Enter the output chunks of one read, stamped `now_ns`."""
        if not chunks:
            return
        notes = self._notes
        if not notes.first_ns:
            notes.first_ns = now_ns
        notes.last_ns = now_ns
        pending = notes.pending  # read anew each time: the recorder takes the list away
        for kind, text, thought, rethink in chunks:
            if rethink and self.chunks:
                self._rethink()
            self.chunks += 1
            pending.append(now_ns)
            if kind is _REASONING or thought:
                if not self.reasoning:
                    self.reasoning = True
                    notes.first_reasoning_ns = now_ns
                notes.first_answer_ns = 0
            if kind is not _REASONING:
                notes.answer_chunks += 1
                if not notes.first_answer_ns and not text.isspace():
                    notes.first_answer_ns = now_ns
                if self._room and kind is _ANSWER:
                    self._keep(text)

    def _rethink(self) -> None:
        """Take every chunk so far for reasoning."""
        self.reasoning = True
        notes = self._notes
        notes.first_reasoning_ns = notes.first_ns
        notes.first_answer_ns = notes.answer_chunks = 0
        self._kept.clear()
        self._room = self.order.keep_answer

    def _keep(self, text: str) -> None:
        self._kept.append(text[: self._room])
        self._room -= len(self._kept[-1])

    def reply(self, ticket: Ticket, ending: Ending, facts: Facts, rerouted: str | None = None) -> Reply:
        """Make the result; `chunks`, `coalesced` and the like are left for the recorder. `rerouted` is the dialect's word."""
        stream, order, streamed = self.stream, self.order, self.streamed
        if not streamed:
            stream.answer_chunks = self._notes.answer_chunks
            if ending.outcome is None:
                stream.last_ns = ending.done_ns
        usage, source = _usage(facts.usage, self.chunks if streamed else 0)
        outcome, reason, message = judge(ending, facts, order.length, rerouted)
        result = Result(
            id=ticket.id,
            arrival=ticket.arrival,
            turn=ticket.turn,
            workload=ticket.workload,
            stage=ticket.stage,
            item=ticket.item,
            scheduled_ns=ticket.scheduled_ns,
            outcome=outcome,
            reason=reason,
            message=message,
            status=ending.status,
            finish_reason=facts.finish_reason,
            retry_after_ns=retry_after_ns(ending.headers),
            sent_ns=stream.sent_ns or None,
            connect_ns=ending.connect_ns,
            head_ns=ending.head_ns,
            first_ns=stream.first_ns or None,
            first_reasoning_ns=stream.first_reasoning_ns or None,
            first_answer_ns=stream.first_answer_ns or None,
            last_ns=stream.last_ns or None,
            done_ns=ending.done_ns,
            streamed=streamed,
            answer_chunks=stream.answer_chunks,
            usage=usage,
            token_source=source,
            length_ordered=order.length,
            length_mismatch=bool(order.length and source == "server" and usage.output_tokens != order.length),
            reasoning_hidden=bool(usage.reasoning_tokens) and not self.reasoning,
            stray_events=facts.stray,
            request_id=facts.request_id or ending.headers.get("x-request-id"),
            upstream=facts.upstream,
            model=facts.model,
            local_port=ending.local_port,
        )
        return Reply(result, "".join(self._kept) if order.keep_answer else None)


def _usage(said: Usage | None, chunks: int) -> tuple[Usage, str | None]:
    """Prefer the server's counts; without its count of output tokens take each streamed chunk for one token.

    A count that cannot be (negative, or beyond what a snapshot carries) is taken as not told: one odd answer must not end a run.
    """
    if said is not None:
        told = msgspec.structs.asdict(said)
        said = Usage(**{name: n if n is not None and 0 <= n <= COUNT_MOST else None for name, n in told.items()})
    if said is not None and said.output_tokens is not None:
        return said, "server"
    if not chunks:
        return said or Usage(), None
    return msgspec.structs.replace(said or Usage(), output_tokens=chunks), "chunks"
