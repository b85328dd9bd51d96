"""Carry out one shard of a schedule: open-loop arrivals, closed sessions, and the turns of their conversations."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from r1perf.backoff import Backoff
from r1perf.budget import Budget
from r1perf.client import Client, Ticket
from r1perf.conversations import Conversations, Ready, Source
from r1perf.dispatch import Gate, dispatch
from r1perf.loop import Event, Loop, Task
from r1perf.recorder import Recorder
from r1perf.result import Result
from r1perf.schedule import Arrival, Plan, Sessions
from r1perf.schedule.closed import UNKNOWN
from r1perf.seats import Seat, Seats


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

    `on_scheduled`, `on_result` and `on_limit` are those of `Conversations`; nothing is started any more once a limit was told. With
    `seats` a session of the main arrivals goes on while its seat is taken, and more seats than planned are more sessions.
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
        on_scheduled: Callable[[Ticket], None] = lambda ticket: None,
        seats: Seats | None = None,
    ) -> None:
        self._loop, self._plan, self._recorder, self._seed, self._on_limit = loop, plan, recorder, seed, on_limit
        self.gate = Gate(loop, max_in_flight)
        self._origins: dict[int | None, int] = {None: t0_ns}
        self._halt = loop.event()
        self._conversations = Conversations(
            loop, sources, client, recorder, self.gate, budget, self._halt, on_scheduled, on_result, self._limit
        )
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
            dispatch(self._loop, arrivals, self._origins[None], self._conversations.ready, self._start, self._turn)
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

    def _limit(self, sentence: str) -> None:
        if not self.halted:
            self.halt()
            self._on_limit(sentence)

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
                seats = self._seats if group.workload is None else None  # a workload's own sessions are as planned
                for n, session in enumerate(range(group.first, group.count, group.step)):
                    seat = None if seats is None else seats.seat(n)
                    sessions.append(self._spawn(self._session, group, session, origin_ns, _Sender(self), seat))
                if seats is not None and group.conversations is None:
                    seats.follow(partial(self._sit_down, group, origin_ns))
        arrivals = (arrival for arrival in self._plan if stages[arrival.stage].follows == follows)
        dispatch(self._loop, arrivals, origin_ns, self._conversations.ready, self._start, self._turn)
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

    def _start(self, arrival: Arrival, scheduled_ns: int, ready: Ready) -> None:
        if self._coming and scheduled_ns >= self._coming[0][0]:
            return  # another rate has taken over
        self._spawn(self._conversations.hold, arrival, arrival.stage, scheduled_ns, ready, _Sender(self).ends)

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
        backoff, stage, n = Backoff(self._recorder, f"{self._seed}/backoff/{group.stage}/{session}"), group.stage, 0
        arrival = self._plan.conversation(group, session, n)
        while arrival is not None and not left.is_set():
            ready = self._conversations.ready(arrival)
            # What waits for an answer is due when it is ready: rendering the next prompt is not the server's delay.
            due_ns = max(due_ns, self._loop.now_ns()) if n else due_ns
            if end_ns is not None and due_ns >= end_ns:
                sender.ends()  # nobody waits for a session that will start nothing more
                if backoff.pauses:
                    self._wait(backoff, stage, left, end_ns)
                return
            if self._wait(backoff, stage, left, due_ns):
                return
            stage = self._recorder.timeline.at(due_ns)
            n += 1
            coming = self._plan.conversation(group, session, n)
            result = self._conversations.hold(arrival, stage, due_ns, ready, sender.ends if coming is None else None)
            arrival = coming
            if result is None:
                return
            due_ns = max(result.done_ns + group.think_time_ns, backoff.after(result))

    def _wait(self, backoff: Backoff, stage: int, cut: Event, until_ns: int) -> bool:
        """Wait until then; return whether it was cut short. A pause counts when it is over: nobody knows before how long it lasts."""
        try:
            return cut.wait(until_ns)
        finally:
            backoff.over(min(self._loop.now_ns(), until_ns), stage)
