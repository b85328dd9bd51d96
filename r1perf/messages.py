"""What collector and worker say to each other, whatever carries it: a pipe here, Locust's messages in a swarm.

collector                       worker
    Assign  ->                          load, plan, connect
            <-  Loading ...             how far large files are
            <-  Ready | Refused         the first shard's worker has calibrated made texts meanwhile
    Go      ->                          t0 has been announced; all take these calibrations
            <-  Report ...              one outstanding at a time, with the first of what is not yet acknowledged
    Ack     ->
    Live    ->                          another rate from a moment on (open loop, from the web UI)
    Halt    ->                          no new arrivals; drain
            <-  Done                    every request has ended, every snapshot is acknowledged
"""

from typing import Any

import msgspec

from r1perf.datasets.facts import Prompting
from r1perf.datasets.tokens import Calibration
from r1perf.schedule import Stage


class Assign(msgspec.Struct, frozen=True, tag=True):
    """Give a worker its shard of a run."""

    run_id: str
    worker: str  # its name in the run: "0", "1", ...
    shard: int
    shards: int
    scenario: dict[str, Any]  # as resolved
    base: str  # relative paths of the scenario are relative to this folder
    folder: str  # where the worker writes its own files
    interval_ns: int
    simulated: bool = False  # the target is the embedded simulated endpoint
    users: bool = False  # closed loop: sessions are started and ended from outside, by seats


class Ready(msgspec.Struct, frozen=True, tag=True):
    """Say that a worker has loaded, planned and reached the target."""

    digest: str  # of schedule, data files and versions: equal on every worker, or the run is refused
    wall_offset_ns: int  # wall - monotonic
    pid: int
    host: str
    stages: tuple[Stage, ...]  # of the whole schedule
    notes: tuple[str, ...]  # warnings for people
    prompting: dict[str, Prompting] = {}  # by workload; the first shard's worker alone tells
    clock_offset_ns: int | None = None  # its wall clock - the collector's, where that was measured
    folder: str | None = None  # where its files are, if not in the collector's folder
    planned: tuple[tuple[str, int, int | None], ...] = ()  # `sla.planned` of its shard, where clauses are to be judged


class Loading(msgspec.Struct, frozen=True, tag=True):
    """Tell people, before the run, how far the loading is."""

    sentence: str


class Refused(msgspec.Struct, frozen=True, tag=True):
    """Say in one sentence why the run cannot begin."""

    sentence: str


class Go(msgspec.Struct, frozen=True, tag=True):
    """Announce when interval 0 begins, on the wall clock."""

    t0_wall_ns: int
    calibrations: dict[str, Calibration] = {}  # by workload: how this server counts its words


class Live(msgspec.Struct, frozen=True, tag=True):
    """Leave the schedule: from `start_ns` after t0 on, arrivals come at this rate, in the stage `live-<number>`, until the end."""

    number: int
    rate: float  # conversations/s of all workers together
    start_ns: int


class Report(msgspec.Struct, frozen=True, tag=True):
    """Hand over the first snapshots (encoded) that are not yet acknowledged, in order."""

    snapshots: list[bytes]


class Ack(msgspec.Struct, frozen=True, tag=True):
    """Say that all snapshots up to and with interval k are merged."""

    k: int


class Halt(msgspec.Struct, frozen=True, tag=True):
    """Ask for the end: no new arrivals, then wait `drain_ns` (None: as the scenario says) and cancel what is left.

    What waits for a place in flight is dropped, or with `waiting` sent when there is one.
    """

    drain_ns: int | None = None
    waiting: bool = False


class Stopping(msgspec.Struct, frozen=True, tag=True):
    """Say that a worker begins to end before its schedule does, and why.

    With `wrong_target` it goes on, and only suspects: the collector ends the run, with exit code 2, if nothing has succeeded elsewhere.
    """

    reason: str
    wrong_target: bool = False
    failed: bool = False  # the worker itself cannot go on (disk full)


class Done(msgspec.Struct, frozen=True, tag=True):
    """Say that a worker has ended: all its requests have an outcome, all its snapshots are acknowledged."""

    snapshots: int


ToWorker = Assign | Go | Live | Ack | Halt
ToCollector = Loading | Ready | Refused | Report | Stopping | Done

encode = msgspec.msgpack.Encoder().encode
decode_to_worker = msgspec.msgpack.Decoder(ToWorker).decode
decode_to_collector = msgspec.msgpack.Decoder(ToCollector).decode
