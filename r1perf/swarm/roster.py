"""Who is in the swarm: the workers that have said hello, in Locust's own order, and how their clocks differ."""

from collections import Counter
from collections.abc import Callable, Iterable

import msgspec

from r1perf import clock
from r1perf.loop import Loop
from r1perf.swarm import wire
from r1perf.swarm.place import alive, place

PINGS = 5
PING_NS = 1_000_000_000
"""How long the answers to one round of pings are waited for."""


class Mate(msgspec.Struct, frozen=True):
    """One worker of a run."""

    name: str  # in the run: "0", "1", ...
    client_id: str  # Locust's
    host: str
    pid: int
    here: bool  # its processes can be seen from the master's, and its files too
    clock_offset_ns: int | None  # its wall clock - the master's; None where no ping was answered


class Roster:
    """Keeps who said hello. `tell` sends a message outside of any run."""

    def __init__(self, loop: Loop, tell: Callable[[str, wire.ToMember], None]) -> None:
        self._loop, self._tell = loop, tell
        self._place = place()
        self._known: dict[str, wire.Hello] = {}
        self._offsets: dict[str, tuple[int, int]] = {}  # (round trip, offset), the shortest round trip's
        self._heard = loop.event()

    def take(self, client_id: str, message: "wire.Hello | wire.Pong") -> bool:
        """Take what a worker says of itself; return whether it is new here."""
        if isinstance(message, wire.Pong):
            now_ns = clock.wall_ns()
            trip_ns = now_ns - message.sent_ns
            known = self._offsets.get(client_id)
            if known is None or trip_ns < known[0]:
                self._offsets[client_id] = trip_ns, message.wall_ns - (message.sent_ns + now_ns) // 2
            self._heard.set()
            return False
        new = client_id not in self._known
        self._known[client_id] = message
        self._heard.set()
        return new

    def wait(self, client_ids: Iterable[str], until_ns: int) -> list[str]:
        """Wait until these workers have said hello, or until then; return those that have not."""
        wanted = set(client_ids)
        while wanted - self._known.keys() and self._loop.now_ns() < until_ns:
            self._heard.clear()
            self._heard.wait(until_ns)
        return sorted(wanted - self._known.keys())

    def hello(self, client_id: str) -> wire.Hello:
        """Return what a worker said of itself."""
        return self._known[client_id]

    def crew(self, client_ids: Iterable[str]) -> list[Mate]:
        """Name the workers of a run, and measure their clocks against this one."""
        ordered = in_locusts_order(client_ids)
        self._measure(ordered)
        mates = []
        for shard, client_id in enumerate(ordered):
            hello = self._known[client_id]
            offset = self._offsets.get(client_id)
            here = bool(self._place) and hello.place == self._place
            mates.append(Mate(str(shard), client_id, hello.host, hello.pid, here, None if offset is None else offset[1]))
        return mates

    def dead(self, mate: Mate) -> bool:
        """Tell whether a worker's process is known to have ended."""
        return mate.here and not alive(mate.pid)

    def _measure(self, client_ids: list[str]) -> None:
        """Ping each worker a few times; the shortest round trip bounds the error of its offset by half of itself."""
        self._offsets = {}
        for _ in range(PINGS):
            for client_id in client_ids:
                self._tell(client_id, wire.Ping(clock.wall_ns()))
            until_ns = self._loop.now_ns() + PING_NS
            answered = self._offsets.keys()
            while set(client_ids) - answered and self._loop.now_ns() < until_ns:
                self._heard.clear()
                self._heard.wait(until_ns)
            self._loop.sleep_until(self._loop.now_ns() + 5_000_000)


def in_locusts_order(client_ids: Iterable[str]) -> list[str]:
    """Sort workers as Locust does when it hands out users one by one: shard i then has users i, i + n, i + 2n, ...

    Locust sorts by a worker's place among those of its host, then by id; an id begins with the host's name and "_".
    """
    seen: Counter[str] = Counter()
    keys = []
    for client_id in sorted(client_ids):
        host = client_id.split("_")[0]
        keys.append((seen[host], client_id))
        seen[host] += 1
    return [client_id for _, client_id in sorted(keys)]
