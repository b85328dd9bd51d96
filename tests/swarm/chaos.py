"""A swarm on virtual time: the real relay and the real parts, with a way between them that loses, repeats and reorders."""

import random
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
from fake_traffic import MS, FakeClient, S, Silent, Talks

from r1perf import clock
from r1perf.arrivals import Poisson
from r1perf.budget import Budget, Limits
from r1perf.collector import Order
from r1perf.datasets.prompts import Prompts
from r1perf.loop.sim import SimLoop
from r1perf.scenario import load, resolved
from r1perf.schedule import Share, plan
from r1perf.setup import Setup
from r1perf.source import WorkloadSource
from r1perf.swarm import wire
from r1perf.swarm.part import Part
from r1perf.swarm.relay import Relay
from r1perf.swarm.roster import Mate
from r1perf.target import Price, Target
from r1perf.units import Duration, Rate
from r1perf.workload import Workload

TARGET = {"url": "http://127.0.0.1:1/v1", "model": "m"}


class Faults(msgspec.Struct, frozen=True):
    """What the way does to each message, by chance."""

    seed: int = 0
    lost: float = 0.0
    twice: float = 0.0
    delay_ms: int = 0  # at most: messages overtake each other


class Chaos:
    """One run with `workers` parts; `meanwhile(chaos)` is a task beside it. `away` workers keep their files elsewhere."""

    def __init__(
        self, folder: Path, workers=2, faults=Faults(), *, seconds=3.0, rate=10.0, service_ms=100, meanwhile=None, away=(),
        offsets_ns=(0,) * 8, collect=True,
    ):  # fmt: skip
        self.loop = loop = SimLoop(start_ns=1_000 * S)
        self.faults, self.random = faults, random.Random(faults.seed)
        self.folder, self.view = folder, Silent()
        self.frames = []  # (to, frame) as sent
        self.cut = set()  # client ids that nothing reaches, and nothing comes from
        self.gone, self.absent, self.dropped = set(), set(), []  # processes that have ended; left Locust's list; given up
        scenario = load({
            "name": "t", "collect": collect, "duration": f"{seconds}s", "target": TARGET, "arrivals": {"kind": "poisson", "rate": f"{rate}/s"},
            "workload": {"w": {"dataset": {"kind": "prompts", "prompts": ["x"]}}},
        })  # fmt: skip
        self.plan = plan({"w": Share(1.0, None, 1.0)}, Poisson(rate=Rate(rate)), seed=1, duration=Duration.seconds(seconds))
        self.clients = [FakeClient(loop, service_ms) for _ in range(workers)]
        order = Order(
            scenario=scenario, resolved=resolved(scenario), base=folder, folder=folder / "run", run_id="r", environment={}
        )
        order.folder.mkdir()
        mates = [Mate(str(n), f"c{n}", "h", 1, str(n) not in away, offsets_ns[n]) for n in range(workers)]
        self.parts = {}
        for n in range(workers):
            self.parts[f"c{n}"] = Part(
                "r", loop, lambda frame, n=n: self.carry(f"c{n}", frame, up=True), lambda path, n=n: str(n) not in away,
                folder / f"elsewhere-{n}", lambda assign: lambda result: None,
            )  # fmt: skip
        with ExitStack() as stack:
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            patch.setattr(clock, "wall_ns", loop.now_ns)
            patch.setattr(clock, "monotonic_ns", loop.now_ns)
            patch.setattr(clock, "wall_offset_ns", lambda: 0)
            patch.setattr("r1perf.worker.set_up", self.set_up)
            self.relay = Relay(
                loop, order, mates, lambda client_id, frame: self.carry(client_id, frame, up=False), self.view,
                present=lambda mate: mate.client_id not in self.absent, dead=lambda mate: mate.client_id in self.gone,
                drop=lambda mate: self.dropped.append(mate.client_id),
            )  # fmt: skip
            self.verdict = loop.run(self.main, meanwhile)

    def set_up(self, loop, assign, told):
        source = WorkloadSource(Workload(dataset=Prompts(prompts=("x",))), Talks(), Target(url="http://x", model="m"))
        return Setup(
            plan=self.plan.shard(assign.shard, assign.shards), sources={"w": source}, client=self.clients[assign.shard],
            digest="d", notes=(), seed=1, record_chunks=False, max_in_flight=1000, budget=Budget(Limits(), Price()),
            drain_ns=None, stop_errors=None,
        )  # fmt: skip

    def main(self, meanwhile):
        for client_id, part in self.parts.items():
            self.loop.spawn(part.measure)
            self.loop.spawn(self.tick, client_id, part)
        if meanwhile is not None:
            self.loop.spawn(meanwhile, self)
        verdict = self.relay.run()
        self.loop.sleep_until(self.loop.now_ns() + 10 * S)
        return verdict

    def tick(self, client_id, part):
        while not part.over or not part.channel.settled:
            self.loop.sleep_until(self.loop.now_ns() + S)
            part.channel.tick()

    def carry(self, client_id, frame, *, up):
        """Carry a frame as the faults will have it."""
        self.frames.append((client_id, frame))
        if client_id in self.cut or self.random.random() < self.faults.lost:
            return
        for _ in range(2 if self.random.random() < self.faults.twice else 1):
            self.loop.spawn(self.deliver, client_id, wire.encode(frame), up, self.random.randint(0, self.faults.delay_ms))

    def deliver(self, client_id, data, up, delay_ms):
        self.loop.sleep_until(self.loop.now_ns() + delay_ms * MS)
        frame = wire.decode_frame(data)
        if client_id in self.cut:
            return
        if up:
            self.relay.take(client_id, frame)
        else:
            self.parts[client_id].take(frame)

    def sleep(self, ms):
        """Sleep until so long after t0, which is the same for all in these runs."""
        while self.relay.summary is None:
            self.loop.sleep_until(self.loop.now_ns() + MS)
        self.loop.sleep_until(self.relay.summary.run.started_ns + ms * MS)

    def pause(self, ms):
        """Let so much time pass without the relay: a master that was stopped."""
        self.loop.sleep_until(self.loop.now_ns() + ms * MS)

    @property
    def sent(self):
        """All ids that were sent, in the order of their numbers."""
        return sorted(
            (request for client in self.clients for request, _ in client.sent), key=lambda text: int(text.split(".")[0])
        )


def messages_of(chaos, kind):
    """Return the messages of a kind that were sent, by client id."""
    found = []
    for client_id, frame in chaos.frames:
        if not frame.body:
            continue
        for decode in (wire.decode_to_master, wire.decode_to_member):
            try:
                message = decode(frame.body)
            except msgspec.ValidationError:
                continue
            if isinstance(message, kind):
                found.append((client_id, message))
            break
    return found
