"""Hold conversations: each turn when it is due and may be sent, its history, its grade; one outcome for every scheduled request."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from r1perf.budget import Budget, Hold
from r1perf.client import Client, Reply, Ticket
from r1perf.datasets import Conversation, Items, Turn
from r1perf.dispatch import Gate
from r1perf.grading import Graded
from r1perf.loop import Cancelled, Event, Loop
from r1perf.recorder import Recorder
from r1perf.result import CENSORED, FAILED, Outcome, Result
from r1perf.schedule import Arrival
from r1perf.target import Call, Message

GRADED_HERE = 2_000
"""Characters of an answer that is graded at once, in 0.1 ms; a longer one (up to 20 ms) on a thread, while all else goes on."""


class Source(Protocol):
    """One workload, ready to be asked for."""

    @property
    def items(self) -> Items:
        """Return the loaded dataset."""

    def call(self, conversation: Conversation, turn: Turn, messages: tuple[Message, ...]) -> Call:
        """Render one turn with everything that was said before it."""

    def grade(self, turn: Turn, reply: Reply) -> Graded | None:
        """Return the grade of an answer, where it has one; never raises."""


class Ready(msgspec.Struct, frozen=True):
    """A conversation whose first call is rendered."""

    conversation: Conversation
    call: Call
    prepared: Any


class Conversations:
    """Holds a shard's conversations; nothing more is scheduled once `halt` is set.

    `on_scheduled` is told every request when it becomes due, `on_result` every result, in the order in which they were entered in
    the recorder; `on_limit` the sentence of the hard limit that the next request could have passed.
    """

    def __init__(
        self,
        loop: Loop,
        sources: Mapping[str, Source],
        client: Client[Any],
        recorder: Recorder,
        gate: Gate,
        budget: Budget,
        halt: Event,
        on_scheduled: Callable[[Ticket], None],
        on_result: Callable[[Result], None],
        on_limit: Callable[[str], None],
    ) -> None:
        self._loop, self._sources, self._client, self._recorder = loop, sources, client, recorder
        self._gate, self._budget, self._halt = gate, budget, halt
        self._on_scheduled, self._on_result, self._on_limit = on_scheduled, on_result, on_limit

    def ready(self, arrival: Arrival) -> Ready:
        """Choose an arrival's conversation and render its first call."""
        source = self._sources[arrival.workload]
        conversation = source.items.conversation(arrival.item)
        call = source.call(conversation, conversation.turns[0], conversation.before)
        return Ready(conversation, call, self._client.prepare(call))

    def hold(
        self, arrival: Arrival, stage: int, scheduled_ns: int, ready: Ready, on_last: Callable[[], None] | None
    ) -> Result | None:
        """Hold one conversation; return its last result, or None where nothing of it was scheduled or something else ended it.

        That is the window's end, behind which its next turn would be due, a limit or a halt: nobody begins another one then.

        `on_last` is called, once or more, when it schedules no more; None where nobody waits for that.
        """
        source, turns = self._sources[arrival.workload], ready.conversation.turns
        messages = list(ready.conversation.before)
        call, prepared, due_ns = ready.call, ready.prepared, scheduled_ns
        scheduled, well = 0, False
        result: Result | None = None
        try:
            for number, turn in enumerate(turns):
                if result is not None:
                    call = source.call(ready.conversation, turn, tuple(messages))
                    prepared = self._client.prepare(call)
                    due_ns = result.done_ns + turn.think_time_ns
                    if self._may_start(due_ns):
                        self._halt.wait(due_ns)  # or until halted: nobody is waited for who only rests
                    if not self._may_start(due_ns):
                        return None
                    stage = self._recorder.timeline.at(due_ns)
                if self._halt.is_set():  # between an arrival's start and its conversation's: it was never scheduled
                    return None
                hold = self._budget.reserve(call)
                if isinstance(hold, str):
                    self._on_limit(hold)
                    return None
                if not scheduled:
                    self._recorder.count("conversations", arrival.workload, stage)
                scheduled += 1
                if on_last is not None and scheduled == len(turns):
                    on_last()
                ticket = Ticket(
                    id=f"{arrival.index}.{number}", arrival=arrival.index, turn=number, workload=arrival.workload,
                    stage=stage, item=arrival.item, scheduled_ns=due_ns,
                )  # fmt: skip
                reply = self._request(ticket, call, prepared, hold, source, turn)
                result = reply.result
                if result.outcome in FAILED or result.outcome in CENSORED:
                    return result
                answer = turn.recorded_answer if turn.recorded_answer is not None else reply.answer or ""
                messages += [Message("user", turn.text), Message("assistant", answer)]
            well = True
            return result
        finally:
            if on_last is not None:
                on_last()
            self._recorder.conversation_over(arrival.index)
            if well:
                self._recorder.count("conversations_done", arrival.workload, stage)
            elif scheduled and scheduled < len(turns):
                self._recorder.count("abandoned_turns", arrival.workload, stage, len(turns) - scheduled)

    def _may_start(self, due_ns: int) -> bool:
        """Tell whether a turn may still be scheduled: none after the window's end."""
        return not self._halt.is_set() and self._recorder.timeline.at(due_ns) != self._recorder.drain

    def _request(self, ticket: Ticket, call: Call, prepared: Any, hold: Hold, source: Source, turn: Turn) -> Reply:
        """Send one scheduled request when there is a place in flight; it has exactly one outcome, whatever happens."""
        recorder = self._recorder
        recorder.count("scheduled", ticket.workload, ticket.stage)
        self._on_scheduled(ticket)
        try:
            entered = self._gate.enter()
        except Cancelled:
            entered = False
        if not entered:
            result = recorder.add(self._dropped(ticket), None)
            self._budget.settle(hold, result)
            self._on_result(result)
            return Reply(result)
        stream = recorder.open(ticket.workload, ticket.stage, ticket.scheduled_ns)
        try:
            reply = self._client.send(ticket, prepared, stream)
        finally:
            self._gate.leave()
        result = self._bounded(self._graded(source, turn, reply), call)
        result = recorder.add(result, stream, result.grade)
        self._budget.settle(hold, result)
        self._on_result(result)
        return Reply(result, reply.answer)

    def _graded(self, source: Source, turn: Turn, reply: Reply) -> Result:
        """Return the result with its answer's grade."""
        try:
            long = len(reply.answer or "") > GRADED_HERE
            found = self._loop.offload(source.grade, turn, reply) if long else source.grade(turn, reply)
        except Cancelled:  # the run's end cuts what is in flight; this has ended, and is only read
            found = source.grade(turn, reply)
        if found is None:
            return reply.result
        return msgspec.structs.replace(reply.result, grade=str(found.grade), answer=found.answer)

    def _bounded(self, result: Result, call: Call) -> Result:
        """Return the result with the most tokens that it can have had, where nobody told how many or the run's end cut it."""
        if not result.untold and result.outcome not in CENSORED:
            return result
        bound = None if result.length_ordered is not None else call.max_tokens or call.output_tokens
        output = None if bound is None else int(bound)  # a `Tokens` cannot be written down
        return msgspec.structs.replace(result, input_most=self._budget.input_most(call), output_most=output)

    def _dropped(self, ticket: Ticket) -> Result:
        return Result(
            id=ticket.id, arrival=ticket.arrival, turn=ticket.turn, workload=ticket.workload, stage=ticket.stage,
            item=ticket.item, scheduled_ns=ticket.scheduled_ns, outcome=Outcome.DROPPED, done_ns=self._loop.now_ns(),
        )  # fmt: skip
