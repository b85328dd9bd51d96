"""The collector's side in a Locust process: who is in the swarm, and the run that goes on."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gevent
import msgspec
from locust.env import Environment
from locust.exception import RPCError
from locust.runners import MasterRunner

from r1perf import __version__
from r1perf.arrivals import Closed, Stages
from r1perf.collector import LEAD_NS, Order, Verdict, View
from r1perf.errors import R1perfError, UsageError
from r1perf.launch.run import Ran, ordered, ran
from r1perf.loop.gevent import GeventLoop
from r1perf.scenario import Scenario, simulated
from r1perf.scenario.validate import MOST_INTERVAL
from r1perf.sinks import Sink
from r1perf.summary import Summary
from r1perf.swarm import wire
from r1perf.swarm.dispatcher import dispatcher
from r1perf.swarm.place import place
from r1perf.swarm.relay import Relay
from r1perf.swarm.roster import Mate, Roster
from r1perf.swarm.sessions import Held
from r1perf.units import Duration, Rate

HELLO_NS = 15_000_000_000
"""How long a worker that Locust lists may take to say hello: it may still be importing."""

PER_WORKER_NS = 10_000_000
"""What each worker adds to the interval, which is `MOST_INTERVAL` at most: 100 workers report once a second, 1,000 every ten."""

LEAD_PER_WORKER_NS = 1_000_000
"""What each worker adds to the time between announcing a moment and that moment."""


class Master:
    """The runs of one Locust process, one after the other. What people see of the run is in its properties."""

    def __init__(self, environment: Environment) -> None:
        assert environment.runner is not None
        self._environment, self._runner = environment, environment.runner
        self._loop = GeventLoop()
        self._view: View | None = None  # of the run that goes on
        self._ended: str | None = None  # why the run that goes on was ended before it had begun
        self._relay: Relay | None = None
        self._roster = Roster(self._loop, lambda client_id, message: self._tell(client_id, "", message))
        self._place = place()
        self.scenario: Scenario | None = None  # of the run that goes on, or went on last
        self.asked: str | None = None  # why people ended that run
        self.ran: Ran | None = None  # how the last run ended; None while one goes on
        environment.dispatcher_class = dispatcher(lambda: self.running, self._set_sessions)
        self._runner.register_message(wire.UP, self._receive, concurrent=True)

    # --- What is seen ---

    @property
    def running(self) -> bool:
        """Tell whether a run goes on, from its preparation to its verdict."""
        return self._view is not None

    @property
    def summary(self) -> Summary | None:
        """Return the merged snapshots of the run that goes on, or went on last; None before its t0."""
        return None if self._relay is None else self._relay.summary

    @property
    def folder(self) -> Path | None:
        """Return the archive of the run that goes on, or went on last."""
        return None if self._relay is None else self._relay.folder

    @property
    def verdict(self) -> Verdict | None:
        """Return how the last run ended; None while one goes on."""
        return None if self.ran is None else self.ran.verdict

    @property
    def workers(self) -> list[str]:
        """List the workers that could take part in a run: Locust has them on its list, and they know r1perf."""
        client_ids = self._listed()
        silent = self._roster.wait(client_ids, 0)
        return [client_id for client_id in client_ids if client_id not in silent]

    # --- What is asked for ---

    def carry(
        self,
        scenario: Scenario,
        *,
        base: Path,
        runs: Path,
        view: View,
        watching: Sequence[Sink] = (),
        users: bool = False,
        begun: Callable[[], None] = lambda: None,
    ) -> Ran:
        """Carry one run out with the workers that are there; `begun` is called once t0 is announced, or never will be.

        With `users` the sessions of a closed loop are those of Locust's users. What is wrong before the run is a verdict.
        """
        self.scenario, self.ran, self.asked, self._relay, self._ended, self._view = scenario, None, None, None, None, view
        came = Ran(Verdict(3, "the run was broken off", None), None)
        try:
            crew = self._crew()
            self._check(scenario, crew)
            scenario = scaled(scenario, len(crew))
            with ordered(scenario, base=base, runs=runs) as order:
                order = msgspec.structs.replace(order, lead_ns=LEAD_NS + len(crew) * LEAD_PER_WORKER_NS, users=users)
                came = ran(order, self._collect(order, crew, view, watching, begun), runs)
        except R1perfError as error:
            came = Ran(Verdict(2, str(error), None), None)
        finally:
            self.ran, self._view = came, None
            begun()
        return came

    def interrupt(self) -> None:
        """Take a Ctrl-C: the first drains for a bounded time, the second cuts what is in flight."""
        if self._relay is not None and self.running:
            self._relay.interrupt()
        elif self.running:
            self._ended = "interrupted before the run began"

    def stop(self, reason: str, *, asked: bool = True) -> None:
        """End the run in order: nothing new, then wait as the scenario says. One that people `asked` for is no fault of the run."""
        self.asked = self.asked or (reason if asked else None)
        if self._relay is not None and self.running:
            self._relay.stop(reason, asked=asked)
        elif self.running:
            self._ended = f"ended before the run began: {reason}"

    def set_rate(self, rate: Rate) -> None:
        """Let arrivals come at another rate from now on, in a stage of its own (`live-1`, ...) that ends with the run.

        Raises UsageError for a rate at which nothing would come, where no run goes on, and in a closed loop.
        """
        if not rate.runs:
            raise UsageError("the rate must be greater than 0")
        if self._relay is None or self.scenario is None or self.summary is None or not self.running:
            raise UsageError("no run goes on whose rate could be changed")
        if not _open(self.scenario):
            raise UsageError("a closed loop has no rate: change its sessions, which are Locust's users")
        self._relay.set_rate(float(rate))

    def _set_sessions(self, held: Held) -> None:
        """Take note of how many of Locust's users are sessions now; nothing happens where they are none, or no run goes on."""
        if self._relay is not None and self.running:
            self._relay.set_sessions(held)

    # --- Workers ---

    def _crew(self) -> list[Mate]:
        """Take everybody who is there; raises R1perfError where nobody is, or somebody cannot do what the master does."""
        client_ids = self.client_ids()
        missing = self._roster.wait(client_ids, self._loop.now_ns() + HELLO_NS)
        if missing:
            raise R1perfError(f"worker {missing[0]} has not said hello: does its locustfile use r1perf.swarm?")
        for client_id in client_ids:
            theirs = self._roster.hello(client_id)
            if theirs.version != __version__:
                raise R1perfError(f"the worker on {theirs.host} runs r1perf {theirs.version}, and the master {__version__}")
            lacking = sorted({user.__name__ for user in self._environment.user_classes} - set(theirs.users))
            if lacking:
                raise R1perfError(
                    f"the worker on {theirs.host} does not know the master's user {lacking[0]}: "
                    "start it with the master's locustfile, as `locust -f FILE --worker`"
                )
        return self._roster.crew(client_ids)

    def client_ids(self) -> list[str]:
        """Name the workers on Locust's list; raises R1perfError where nobody is on it."""
        listed = self._listed()
        if not listed:
            raise R1perfError("no worker is there; start one with `r1perf worker` or `locust --worker`")
        return listed

    def _listed(self) -> list[str]:
        if not isinstance(self._runner, MasterRunner):
            return ["local"]
        clients = self._runner.clients
        return [client.id for client in (*clients.ready, *clients.spawning, *clients.running)]

    def _check(self, scenario: Scenario, crew: list[Mate]) -> None:
        away = next((mate for mate in crew if not mate.here), None)
        if away is not None and simulated(scenario.target.url) is not None:
            raise R1perfError(
                f"the simulated endpoint would run here, and worker {away.name} is on {away.host}: "
                "start `r1perf simulate --host` where all can reach it, and give its URL"
            )

    def _present(self, mate: Mate) -> bool:
        return not isinstance(self._runner, MasterRunner) or mate.client_id in self._runner.clients

    def _drop(self, mate: Mate) -> None:
        """Take a lost worker off Locust's list: a minute later Locust would start its users on others, and kill theirs."""
        if isinstance(self._runner, MasterRunner):
            self._runner.clients.pop(mate.client_id, None)

    # --- Messages ---

    def _collect(
        self, order: Order, crew: list[Mate], view: View, watching: Sequence[Sink], begun: Callable[[], None]
    ) -> Verdict:
        if self._ended is not None:
            return Verdict(130, self._ended, None)
        self._relay = relay = Relay(
            self._loop, order, crew, self._transmit, view, watching=watching,
            present=self._present, dead=self._roster.dead, drop=self._drop,
        )  # fmt: skip
        gevent.spawn(relay.begun.wait).link(lambda _: begun())
        return relay.run()

    def _receive(self, environment: Environment, msg: Any, **_: Any) -> None:
        frame = wire.decode_frame(msg.data)
        client_id = str(msg.node_id)
        if not frame.run:
            message = wire.decode_to_master(frame.body)
            if isinstance(message, wire.Hello | wire.Pong):
                new = self._roster.take(client_id, message)
                if isinstance(message, wire.Hello):
                    waits = new and self._view is not None and self._relay is not None  # whose crew is complete
                    self._tell(client_id, "", wire.Welcome(os.getpid(), self._place, waits))
                    if waits and self._view is not None:
                        self._view.note(f"a worker on {message.host} has joined: it waits for the next run, this one has begun")
        elif self._relay is not None and self.running and frame.run == self._relay.run_id:
            self._relay.take(client_id, frame)
        else:
            self._tell(client_id, frame.run, wire.Over())

    def _tell(self, client_id: str, run: str, message: wire.ToMember) -> None:
        self._transmit(client_id, wire.Frame(run, 0, 0, wire.encode(message)))

    def _transmit(self, client_id: str, frame: wire.Frame) -> None:
        try:
            self._runner.send_message(wire.DOWN, wire.encode(frame), client_id)
        except RPCError:
            return  # whoever needs the message repeats it


def _open(scenario: Scenario) -> bool:
    """Tell whether all arrivals come by a rate."""
    main = scenario.arrivals
    processes = [*(main.stages if isinstance(main, Stages) else (main,)), *(w.arrivals for w in scenario.workload.values())]
    return not any(isinstance(process, Closed) for process in processes)


def scaled(scenario: Scenario, workers: int) -> Scenario:
    """Return the scenario with an interval that lets the master keep up with so many workers; a sink's is never shorter."""
    least = Duration(min(workers * PER_WORKER_NS, MOST_INTERVAL))
    if scenario.interval >= least:
        return scenario
    sinks, influxdb = scenario.sinks, scenario.sinks.influxdb
    if influxdb is not None and influxdb.interval < least:
        sinks = msgspec.structs.replace(sinks, influxdb=msgspec.structs.replace(influxdb, interval=least))
    return msgspec.structs.replace(scenario, interval=least, sinks=sinks)
