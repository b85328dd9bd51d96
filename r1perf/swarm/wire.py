"""What travels in Locust's custom messages: frames around the messages of `r1perf.messages`, and a few of the swarm's own."""

import msgspec

from r1perf import messages

DOWN, UP = "r1perf.down", "r1perf.up"
"""Locust's names of the two custom messages: master to worker, worker to master."""


class Frame(msgspec.Struct, frozen=True, array_like=True):
    """One custom message.

    `number` counts the messages of one direction of one run from 1 on; 0 is a message that has its own acknowledgement, or
    none. `seen` says that all numbers up to it have come here. An empty body only says that.
    """

    run: str  # "" outside of a run
    number: int
    seen: int
    body: bytes


class Hello(msgspec.Struct, frozen=True, tag=True):
    """Tell the master that a worker can be spoken to; said once a second until there is a Welcome."""

    host: str
    pid: int
    place: str  # equal for processes that see each other's process ids
    version: str  # of r1perf
    users: tuple[str, ...] = ()  # the user classes that Locust can start there


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """Answer a Hello."""

    pid: int
    place: str
    waits: bool = False  # a run goes on that the worker has no part in


class Ping(msgspec.Struct, frozen=True, tag=True):
    """Ask for the worker's wall clock."""

    sent_ns: int  # the master's wall clock


class Pong(msgspec.Struct, frozen=True, tag=True):
    """Answer a Ping."""

    sent_ns: int  # as in the Ping
    wall_ns: int  # the worker's wall clock


class Over(msgspec.Struct, frozen=True, tag=True):
    """Say that a run is over for the master: a worker that still measures ends at once, its files complete."""


class Broken(msgspec.Struct, frozen=True, tag=True):
    """Say that the worker has failed at its part of the run (a fault of ours), and how."""

    how: str


class Fetch(msgspec.Struct, frozen=True, tag=True):
    """Ask for a part of one of the worker's own files."""

    name: str
    offset: int


class Piece(msgspec.Struct, frozen=True, tag=True):
    """Answer a Fetch: what stands at `offset`; `size` is the whole file's."""

    name: str
    offset: int
    size: int
    data: bytes


ToMember = messages.ToWorker | Welcome | Ping | Over | Fetch
ToMaster = messages.ToCollector | Hello | Pong | Broken | Piece

UNNUMBERED = (messages.Report, messages.Ack, Hello, Welcome, Ping, Pong, Over, Fetch, Piece)
"""These are repeated by whoever needs them, or answered; taking one twice changes nothing."""

encode = msgspec.msgpack.Encoder().encode
decode_frame = msgspec.msgpack.Decoder(Frame).decode
decode_to_member = msgspec.msgpack.Decoder(ToMember).decode
decode_to_master = msgspec.msgpack.Decoder(ToMaster).decode
