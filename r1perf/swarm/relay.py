"""One run on the master: `r1perf.collector.Collector`, spoken to by the workers' frames."""

import os
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from r1perf import clock, messages
from r1perf.arrivals import Closed
from r1perf.collector import Collector, Order, Verdict, View
from r1perf.launch.run import sinks
from r1perf.loop import Loop
from r1perf.sinks import Sink
from r1perf.summary import Summary
from r1perf.swarm import wire
from r1perf.swarm.fetch import Fetching
from r1perf.swarm.numbered import Numbered
from r1perf.swarm.roster import Mate
from r1perf.swarm.sessions import Held, Sessions

TICK_NS = 200_000_000
"""How often the collector looks up while no message comes."""

REPEAT_NS = 1_000_000_000
"""How often what was lost is repeated, and the workers' processes are looked at."""

ABSENT_NS = 3_000_000_000
"""A worker that has left Locust's list for so long is lost; messages that it sent before may still be on their way."""

TURN_NS = 20_000_000
"""How long messages are merged before others on this loop (heartbeats, the web UI) have their turn."""


class Relay:
    """Carries one run out. `transmit(client_id, frame)` sends, perhaps; `present(mate)` tells whether Locust still lists a
    worker, `dead(mate)` whether its process is known to have ended, and `drop(mate)` is told that it was given up.

    `watching` are sinks of whoever looks on in this process, after the run's own.
    """

    def __init__(
        self,
        loop: Loop,
        order: Order,
        crew: list[Mate],
        transmit: Callable[[str, wire.Frame], None],
        view: View,
        *,
        watching: Sequence[Sink] = (),
        present: Callable[[Mate], bool],
        dead: Callable[[Mate], bool],
        drop: Callable[[Mate], None],
    ) -> None:
        self._loop, self._order, self._transmit = loop, order, transmit
        self._present, self._dead, self._drop = present, dead, drop
        self._crew = {mate.name: mate for mate in crew}
        self._names = {mate.client_id: mate.name for mate in crew}
        self._channels = {mate.name: Numbered(order.run_id, partial(transmit, mate.client_id), loop.now_ns) for mate in crew}
        self._fenced: set[str] = set()
        self._absent_ns: dict[str, int] = {}
        self._folders: dict[str, str] = {}  # of workers that write elsewhere
        self._fetching: dict[str, Fetching] = {}
        self._inbox: deque[Callable[[], object]] = deque()
        self._came = loop.event()
        self._interrupts = 0
        closed = order.scenario.arrivals
        self._sessions = Sessions(closed) if order.users and isinstance(closed, Closed) else None
        self.begun = loop.event()  # t0 is announced, or the run will never begin
        self._collector = Collector(
            order, list(self._crew), self._send, [*sinks(order, view, lambda: self._interrupts), *watching], view
        )

    @property
    def summary(self) -> Summary | None:
        """Return the merged snapshots; None before t0 is announced."""
        return self._collector.summary

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self._order.run_id

    @property
    def folder(self) -> Path:
        """Return the run's archive."""
        return self._order.folder

    def take(self, client_id: str, frame: wire.Frame) -> None:
        """Take a frame of this run."""
        self._later(partial(self._take, client_id, frame))

    def interrupt(self) -> None:
        """Take a Ctrl-C: the first drains for a bounded time, the second cuts."""
        self._interrupts += 1
        self._later(self._collector.interrupt)

    def stop(self, reason: str, *, asked: bool = True) -> None:
        """End the run in order, because people `asked` for it or for another reason; one that has not begun never does."""

        def end() -> None:
            if self.summary is None:
                self._collector.interrupt()
            else:
                self._collector.stop(reason, asked=asked)

        self._later(end)

    def set_rate(self, rate: float) -> None:
        """Change the rate of an open loop; nothing happens where the run has not begun, or is draining."""
        self._later(partial(self._collector.set_rate, rate))

    def set_sessions(self, held: Held) -> None:
        """Let the run say how many sessions Locust's users hold from now on; nothing where they hold none."""
        self._later(partial(self._take_sessions, held))

    def run(self) -> Verdict:
        """Carry the run out to its end."""
        try:
            self._collector.begin()
            self._loop_until_verdict()
            assert self._collector.verdict is not None
            return self._collector.verdict
        finally:
            self.begun.set()
            for name in self._crew:
                self._channels[name].post(wire.encode(wire.Over()))

    def _loop_until_verdict(self) -> None:
        repeat_ns = self._loop.now_ns()
        while self._collector.verdict is None:
            self._came.clear()
            if not self._inbox:
                self._came.wait(self._loop.now_ns() + TICK_NS)
            now_ns = self._loop.now_ns()
            self._work()
            if self.summary is not None:
                self.begun.set()
            if now_ns - repeat_ns >= REPEAT_NS:
                repeat_ns = now_ns
                self._repeat()
            self._collector.tick()

    def _later(self, work: Callable[[], object]) -> None:
        self._inbox.append(work)
        self._came.set()

    def _work(self) -> None:
        began_ns = self._loop.now_ns()
        while self._inbox:
            self._inbox.popleft()()
            if self._loop.now_ns() - began_ns > TURN_NS:
                self._loop.sleep_until(0)
                began_ns = self._loop.now_ns()

    # --- Messages ---

    def _send(self, worker: str, message: messages.ToWorker) -> None:
        mate = self._crew[worker]
        if isinstance(message, messages.Go):
            # One moment for all: what the worker's own wall clock shows at t0. In one place there is only one clock.
            skew_ns = 0 if mate.here else mate.clock_offset_ns or 0
            message = msgspec.structs.replace(message, t0_wall_ns=message.t0_wall_ns + skew_ns)
        channel, body = self._channels[worker], wire.encode(message)
        if isinstance(message, wire.UNNUMBERED):
            channel.post(body)
        else:
            channel.send(body)

    def _take(self, client_id: str, frame: wire.Frame) -> None:
        name = self._names.get(client_id)
        if name is None or name in self._fenced:
            over = wire.Frame(self._order.run_id, 0, 0, wire.encode(wire.Over()))
            self._transmit(client_id, over)
            return
        self._collector.heard(name)
        for body in self._channels[name].take(frame):
            self._handle(name, wire.decode_to_master(body))

    def _handle(self, name: str, message: wire.ToMaster) -> None:
        if isinstance(message, wire.Broken):
            self._lose(name, message.how)
        elif isinstance(message, wire.Piece):
            if name in self._fetching:
                self._fetching[name].take(message)
                self._fetch(name)
        elif isinstance(message, messages.Done) and name in self._folders:
            self._fetching[name] = Fetching(self._order.folder, name, self._loop.now_ns, message, self._order.scenario.collect)
            self._fetch(name)
        elif isinstance(message, messages.ToCollector):
            if isinstance(message, messages.Ready):
                message = self._ready(name, message)
            elif isinstance(message, messages.Refused) and self._crew[name].pid != os.getpid():
                message = messages.Refused(f"worker {name} ({self._crew[name].host}): {message.sentence}")
            self._collector.receive(name, message)

    def _ready(self, name: str, ready: messages.Ready) -> messages.Ready:
        if ready.folder is not None:
            self._folders[name] = ready.folder
        return msgspec.structs.replace(ready, clock_offset_ns=self._crew[name].clock_offset_ns)

    def _fetch(self, name: str) -> None:
        """Ask for the next piece of a worker's files; where all are here, the worker is done."""
        fetching = self._fetching[name]
        asked = fetching.ask()
        if asked is not None:
            self._channels[name].post(wire.encode(asked))
        elif fetching.ended:
            del self._fetching[name]
            self._collector.add_fact(name, "collected", fetching.whole)
            self._collector.receive(name, fetching.done)

    def _take_sessions(self, held: Held) -> None:
        if self._sessions is None or self.summary is None:
            return
        at_ns = clock.wall_ns() - self.summary.run.started_ns
        self._collector.restate(*self._sessions.take(held, at_ns, self.summary.stages, self.summary.ended))

    # --- Workers that do not answer ---

    def _repeat(self) -> None:
        now_ns = self._loop.now_ns()
        for name, mate in self._crew.items():
            if name in self._fenced:
                continue
            self._channels[name].tick()
            if name in self._fetching:
                self._fetch(name)
            if self._present(mate):
                self._absent_ns.pop(name, None)
            else:
                self._absent_ns.setdefault(name, now_ns)
            if self._dead(mate):
                self._lose(name, "its process has ended")
            elif now_ns - self._absent_ns.get(name, now_ns) > ABSENT_NS:
                self._lose(name, "it has left the swarm")
        for name in self._collector.silent():
            self._lose(name, f"it has said nothing for {self._collector.silence_ns // 10**9} s")

    def _lose(self, name: str, how: str) -> None:
        """Give a worker up; whatever it says from now on is not heard."""
        if not self._collector.expects(name):
            return
        self._fenced.add(name)
        self._drop(self._crew[name])
        where = self._folders.get(name)
        left = f"; its files are on {self._crew[name].host}, in {where}" if where is not None else ""
        self._collector.gone(name, how + left)
