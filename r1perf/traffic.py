"""Carry out one shard of a schedule: open-loop arrivals, closed sessions, and the turns of their conversations."""

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import msgspec

from r1perf.budget import Budget, Hold
from r1perf.client import Client, Reply, Ticket
from r1perf.datasets import Conversation, Items, Turn
from r1perf.dispatch import Gate, dispatch
from r1perf.grading import Graded
from r1perf.loop import Cancelled, Event, Loop, Task
from r1perf.recorder import Recorder
from r1perf.result import CENSORED, FAILED, Outcome, Result
from r1perf.schedule import Arrival, Plan, Sessions
from r1perf.schedule.closed import UNKNOWN
from r1perf.seats import Seat, Seats
from r1perf.target import Call, Message

BACKOFF_NS = 1_000_000_000
"""A closed session pauses so long, jittered and doubled with each failure in a row, where the server names no time."""

BACKOFF_MOST_NS = 60_000_000_000

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


class _Ready(msgspec.Struct, frozen=True):
    """A conversation whose first call is rendered."""

    conversation: Conversation
    call: Call
    prepared: Any


class _Sender:
    """Somebody who may still schedule a request, until `ends`; ending twice is ending once."""

    def __init__(self, traffic: "Traffic") -> None:
        self._traffic: Traffic | None = traffic
        traffic.sender_begins()

    @property
    def ended(self) -> bool:
        """Tell whether it schedules no more."""
        return self._traffic is None

    def ends(self) -> None:
        """Schedule no more."""
        traffic, self._traffic = self._traffic, None
        if traffic is not None:
            traffic.sender_ends()


class Traffic:
    """One worker's traffic. `run()` starts everything that is planned; `halt()` ends the starting, `cancel()` what runs.

    `on_result` is told every result, in the order in which they were entered in the recorder; `on_limit` the sentence of
    the hard limit that the next request could have passed (nothing is started any more then). With `seats` a session goes on
    while its seat is taken, and more seats than planned are more sessions.
    """

    def __init__(
        self,
        loop: Loop,
        plan: Plan,
        t0_ns: int,
        sources: Mapping[str, Source],
        client: Client[Any],
        recorder: Recorder,
        *,
        seed: int,
        max_in_flight: int,
        budget: Budget,
        on_result: Callable[[Result], None],
        on_limit: Callable[[str], None],
        seats: Seats | None = None,
    ) -> None:
        self._loop, self._plan, self._sources, self._client, self._recorder = loop, plan, sources, client, recorder
        self._seed, self._budget, self._on_result, self._on_limit = seed, budget, on_result, on_limit
        self.gate = Gate(loop, max_in_flight)
        self._origins: dict[int | None, int] = {None: t0_ns}
        self._halt = loop.event()
        self._turn = loop.event()  # the arrivals that are started now are to end: those of another rate begin, or none
        self._coming: deque[tuple[int, Iterator[Arrival]]] = deque()  # what comes after them, and when
        self._seats = seats
        self._free_ns = t0_ns  # when the next session that has a seat may begin
        self._tasks: dict[Task, None] = {}
        self._senders = 0  # who may still schedule a request: the dispatcher, sessions, conversations with turns left
        self._dispatcher = _Sender(self)

    @property
    def halted(self) -> bool:
        """Tell whether nothing new is started any more."""
        return self._halt.is_set()

    def run(self) -> None:
        """Start all arrivals and sessions at their times; return when the drain begins: what is in flight then goes on."""
        self._run_plan()
        while self._coming and not self.halted:
            self._turn = self._loop.event()
            _, arrivals = self._coming.popleft()
            if self._coming and self._coming[0][0] <= self._loop.now_ns():
                continue  # the next change has come as well
            dispatch(self._loop, arrivals, self._origins[None], self._ready, self._start, self._turn)
        self._dispatcher.ends()

    def _run_plan(self) -> None:
        """Start what is planned, until another rate takes over."""
        chapters = list(self._chapters())
        for follows in chapters:
            if follows is not None:
                self._open_chapter(follows)
            sessions = self._chapter(follows, self._origins[follows])
            if follows != chapters[-1]:
                for session in sessions:
                    session.join()
            if self._turn.is_set():
                return
        last = self._plan.stages[-1]
        if last.follows is None:
            self._turn.wait(self._origins[None] + last.start_ns)
            return
        if not self._coming:
            self._dispatcher.ends()
        self._turn.wait()  # for the last one who may schedule a request

    def live(self, number: int, rate: float, start_ns: int) -> None:
        """Start arrivals at another rate from `start_ns` after t0 on, and none of those planned for then; until `halt`.

        Where all that was planned has been started already, it changes nothing.
        """
        if self._dispatcher.ended:
            return
        stage, arrivals = self._plan.live(number, rate, start_ns)
        at_ns = self._origins[None] + start_ns
        self._coming.append((at_ns, arrivals))
        self._recorder.begin(stage.index, at_ns)
        self._recorder.judge(stage.index)
        self._loop.spawn(self._turn_at, at_ns)

    def _turn_at(self, at_ns: int) -> None:
        self._loop.sleep_until(at_ns)
        if self._coming and self._coming[0][0] <= self._loop.now_ns():  # it may have been taken up with one before it
            self._turn.set()

    def halt(self, *, waiting: bool = False) -> None:
        """Start nothing more; requests that were sent go on, those that wait for a place in flight only if `waiting` may."""
        if not self.halted:
            self._halt.set()
            self._turn.set()
            if self._seats is not None:
                self._seats.close()
            self._recorder.begin(self._recorder.drain, self._loop.now_ns())
        if not waiting:
            self.gate.close()

    def cancel(self) -> None:
        """Cut whatever still runs."""
        self.halt()
        for task in list(self._tasks):
            task.cancel()

    def drained(self, until_ns: int | None = None) -> bool:
        """Wait until every conversation has ended, or until then; return whether all have."""
        for task in list(self._tasks):
            if not task.join(until_ns):
                return False
        return not self._tasks or all(task.done for task in self._tasks)

    def _chapters(self) -> Iterator[int | None]:
        """Go through the parts of the plan: one that counts from t0, then one after each stage whose end shows itself."""
        yield None
        for stage in self._plan.stages:
            if any(later.follows == stage.index for later in self._plan.stages[:-1]):
                yield stage.index

    def _open_chapter(self, follows: int) -> None:
        """Let the stages after one that has just ended count from now."""
        now_ns = self._origins[follows] = max(self._loop.now_ns(), self._origins[None])
        first = next(stage for stage in self._plan.stages if stage.follows == follows)
        self._recorder.begin(first.index, now_ns + first.start_ns)

    def _chapter(self, follows: int | None, origin_ns: int) -> list[Task]:
        """Start the sessions and arrivals of one part; return its sessions when all its arrivals are started."""
        stages = self._plan.stages
        sessions = []
        for group in self._plan.sessions:
            if stages[group.stage].follows == follows:
                for n, session in enumerate(range(group.first, group.count, group.step)):
                    seat = None if self._seats is None else self._seats.seat(n)
                    sessions.append(self._spawn(self._session, group, session, origin_ns, _Sender(self), seat))
                if self._seats is not None and group.conversations is None:
                    self._seats.follow(partial(self._sit_down, group, origin_ns))
        arrivals = (arrival for arrival in self._plan if stages[arrival.stage].follows == follows)
        dispatch(self._loop, arrivals, origin_ns, self._ready, self._start, self._turn)
        return sessions

    def sender_begins(self) -> None:
        """Count somebody who may schedule requests."""
        self._senders += 1

    def sender_ends(self) -> None:
        """Note that somebody schedules no more; where nobody is left and the plan could not say when, the drain begins."""
        self._senders -= 1
        if not self._senders and self._plan.stages[-1].follows is not None:
            self._recorder.begin(self._recorder.drain, self._loop.now_ns())
            self._turn.set()

    def _spawn(self, run: Callable[..., object], *args: object) -> Task:
        def tracked() -> None:
            try:
                run(*args)
            finally:
                del self._tasks[task]

        task = self._loop.spawn(tracked)
        self._tasks[task] = None
        return task

    # --- Arrivals and sessions ---

    def _ready(self, arrival: Arrival) -> _Ready:
        source = self._sources[arrival.workload]
        conversation = source.items.conversation(arrival.item)
        call = source.call(conversation, conversation.turns[0], conversation.before)
        return _Ready(conversation, call, self._client.prepare(call))

    def _start(self, arrival: Arrival, scheduled_ns: int, ready: _Ready) -> None:
        if self._coming and scheduled_ns >= self._coming[0][0]:
            return  # another rate has taken over
        self._spawn(self._converse, arrival, arrival.stage, scheduled_ns, ready, _Sender(self))

    def _sit_down(self, group: Sessions, origin_ns: int, n: int, seat: Seat) -> None:
        """Start a session behind the planned ones: with items of its own, and arrival indexes that no other has."""
        session = group.first + n * group.step
        if session >= group.count and not self.halted:
            rows, place = divmod(session, group.count)
            beyond = msgspec.structs.replace(group, base=group.base + rows * UNKNOWN)
            self._spawn(self._session, beyond, place, origin_ns, _Sender(self), seat)

    def _session(self, group: Sessions, session: int, origin_ns: int, sender: "_Sender", seat: Seat | None) -> None:
        try:
            due_ns = origin_ns + group.start_ns + session * group.ramp_up_ns
            if seat is not None:
                if not seat.taken.wait(None if group.end_ns is None else origin_ns + group.end_ns):
                    return
                due_ns = max(due_ns, self._free_ns, self._loop.now_ns())
                self._free_ns = due_ns + group.ramp_up_ns
            self._hold(group, session, origin_ns, due_ns, sender, self._halt if seat is None else seat.left)
        finally:
            sender.ends()

    def _hold(self, group: Sessions, session: int, origin_ns: int, due_ns: int, sender: "_Sender", left: Event) -> None:
        """Hold one conversation after the other until the session's share or time is used up, or it is left."""
        end_ns = None if group.end_ns is None else origin_ns + group.end_ns
        jitter = random.Random(f"{self._seed}/backoff/{group.stage}/{session}")
        failures, n = 0, 0
        arrival = self._plan.conversation(group, session, n)
        while arrival is not None and not left.is_set():
            ready = self._ready(arrival)
            # What waits for an answer is due when it is ready: rendering the next prompt is not the server's delay.
            due_ns = max(due_ns, self._loop.now_ns()) if n else due_ns
            if end_ns is not None and due_ns >= end_ns:
                return
            if left.wait(due_ns):
                return
            stage = self._recorder.timeline.at(due_ns)
            n += 1
            coming = self._plan.conversation(group, session, n)
            result = self._converse(arrival, stage, due_ns, ready, sender if coming is None else None)
            arrival = coming
            if result is None:
                return
            due_ns = result.done_ns + group.think_time_ns
            failures = failures + 1 if result.outcome in FAILED else 0
            if failures and coming is not None:
                pause_ns = result.retry_after_ns or self._backoff(failures, jitter)
                self._recorder.count("backoff_ns", result.workload, stage, pause_ns)
                due_ns = max(due_ns, result.done_ns + pause_ns)

    def _backoff(self, failures: int, jitter: random.Random) -> int:
        pause_ns = min(BACKOFF_NS << min(failures - 1, 10), BACKOFF_MOST_NS)
        return int(pause_ns * jitter.uniform(0.5, 1.5))

    def _sleep(self, until_ns: int) -> None:
        """Sleep until then, or until halted: nobody is waited for who only rests."""
        self._halt.wait(until_ns)

    # --- Conversations ---

    def _converse(
        self, arrival: Arrival, stage: int, scheduled_ns: int, ready: _Ready, sender: "_Sender | None"
    ) -> Result | None:
        """Hold one conversation; return its last result, or None where nothing of it was scheduled or a limit ended it.

        `sender` ends when the last turn is scheduled; None where its session goes on.
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
                    if not self._may_start(due_ns):
                        break
                    self._sleep(due_ns)
                    if not self._may_start(due_ns):
                        break
                    stage = self._recorder.timeline.at(due_ns)
                if self.halted:  # between an arrival's start and its conversation's: it was never scheduled
                    break
                hold = self._budget.reserve(call)
                if isinstance(hold, str):
                    self._limit(hold)
                    return None
                if not scheduled:
                    self._recorder.count("conversations", arrival.workload, stage)
                scheduled += 1
                if sender is not None and scheduled == len(turns):
                    sender.ends()
                ticket = Ticket(
                    id=f"{arrival.index}.{number}", arrival=arrival.index, turn=number, workload=arrival.workload,
                    stage=stage, item=arrival.item, scheduled_ns=due_ns,
                )  # fmt: skip
                reply = self._request(ticket, prepared, hold, source, turn)
                result = reply.result
                if result.outcome in FAILED or result.outcome in CENSORED:
                    return result
                answer = turn.recorded_answer if turn.recorded_answer is not None else reply.answer or ""
                messages += [Message("user", turn.text), Message("assistant", answer)]
            else:
                well = True
            return result
        finally:
            if sender is not None:
                sender.ends()
            self._recorder.conversation_over(arrival.index)
            if well:
                self._recorder.count("conversations_done", arrival.workload, stage)
            elif scheduled and scheduled < len(turns):
                self._recorder.count("abandoned_turns", arrival.workload, stage, len(turns) - scheduled)

    def _may_start(self, due_ns: int) -> bool:
        """Tell whether a turn may still be scheduled: none after the window's end."""
        return not self.halted and self._recorder.timeline.at(due_ns) != self._recorder.drain

    def _limit(self, sentence: str) -> None:
        if not self.halted:
            self.halt()
            self._on_limit(sentence)

    def _request(self, ticket: Ticket, prepared: Any, hold: Hold, source: Source, turn: Turn) -> Reply:
        """Send one scheduled request when there is a place in flight; it has exactly one outcome, whatever happens."""
        recorder = self._recorder
        recorder.count("scheduled", ticket.workload, ticket.stage)
        try:
            entered = self.gate.enter()
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
            self.gate.leave()
        result = self._graded(source, turn, reply)
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

    def _dropped(self, ticket: Ticket) -> Result:
        return Result(
            id=ticket.id, arrival=ticket.arrival, turn=ticket.turn, workload=ticket.workload, stage=ticket.stage,
            item=ticket.item, scheduled_ns=ticket.scheduled_ns, outcome=Outcome.DROPPED, done_ns=self._loop.now_ns(),
        )  # fmt: skip
