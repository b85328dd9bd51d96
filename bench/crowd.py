"""A crowd of simulated workers in one process: real sockets and real messages to a master, and no load.

`python -m bench.crowd PORT WORKERS INTERVALS`. Each says what a Locust worker of ours says: heartbeats and statistics of two rows as
often as Locust's own, hello, ready, a report at each flip, done.
"""

import itertools
import json
import os
import resource
import sys

import numpy as np
import zmq
from locust.rpc.protocol import Message
from locust.stats import RequestStats

from r1perf import __version__, clock, messages, snapshot
from r1perf.histogram import Counts
from r1perf.metrics import METRICS
from r1perf.schedule import Stage
from r1perf.snapshot import Counter, Health, Series, Snapshot
from r1perf.swarm import wire

WORKLOADS = ("aime", "chat")
STREAMS, CHUNKS_PER_S, REQUESTS_PER_S = 100, 50, 5
"""What a worker carries: its series are as full as these make them."""

HEARTBEAT_S, STATS_S = 1.0, 3.0
STAGES = (Stage(0, "steady", 0, None, True, "poisson"), Stage(1, "drain", 0, None, False, "what is left", 0))
VARIANTS = 16


def series(interval_s: float, random: np.random.Generator) -> list[Series]:
    """Make one interval's series: lognormal times, one value a request, ITL one a chunk."""
    made = []
    for workload in WORKLOADS:
        for metric in METRICS.values():
            share = int(interval_s / len(WORKLOADS) * (STREAMS * CHUNKS_PER_S if metric.name == "itl" else REQUESTS_PER_S))
            middle = {"itl": 20_000, "schedule_delay": 300, "connect": 500}.get(
                metric.name, 200_000 if metric.unit == "us" else 500
            )
            counts = Counts.of(np.maximum(random.lognormal(np.log(middle), 0.4, share), 1).astype(np.int64))
            at, n = counts.sparse()
            made.append(Series(metric.name, workload, 0, at, n, counts.count, counts.total, counts.least or 0, counts.most or 0))
    return made


def counters(interval_s: float) -> list[Counter]:
    """Make the counters of requests that all end well."""
    n = int(interval_s * REQUESTS_PER_S / len(WORKLOADS))
    names = ("scheduled", "sent", "conversations", "conversations_done", "completed", "outcome.ok", "input_tokens", "output_tokens",
             "window_input_tokens", "window_output_tokens", "chunks", "counted_chunks", "tokens_from_server", "busy_ns")  # fmt: skip
    return [Counter(name, workload, 0, n) for name in names for workload in WORKLOADS]


def statistics() -> dict[str, object]:
    """Return what Locust itself reports every three seconds, for two rows."""
    stats = RequestStats()
    random = np.random.default_rng(1)
    for workload in WORKLOADS:
        for value in random.lognormal(np.log(8000), 0.4, int(STATS_S * REQUESTS_PER_S / 2)):
            stats.log_request(workload, "127.0.0.1:8000/deepseek-r1", float(value), 0)
    users = {"user_classes_count": {"R1User": 0}, "user_count": 0}
    return {"stats": stats.serialize_stats(), "stats_total": stats.total.get_stripped_report(), "errors": {}, **users}


class Worker:
    """One simulated worker: its socket, and where it is in its run."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", port: int, number: int) -> None:
        self.id = f"crowd_{number:06}"
        self.socket = context.socket(zmq.DEALER)
        self.socket.setsockopt(zmq.IDENTITY, self.id.encode())
        self.socket.connect(f"tcp://127.0.0.1:{port}")
        self.assign: messages.Assign | None = None
        self.numbers = itertools.count(1)
        self.seen = 0
        self.t0_ns = 0
        self.k = 0
        self.acknowledged = -1
        self.done = self.over = False
        self.sent_bytes = 0

    def tell(self, kind: str, data: object) -> None:
        """Send one of Locust's messages."""
        self.socket.send(Message(kind, data, self.id).serialize())

    def say(self, message: wire.ToMaster) -> None:
        """Send one of ours."""
        numbered = self.assign is not None and not isinstance(message, wire.UNNUMBERED)
        run = self.assign.run_id if self.assign is not None and not isinstance(message, wire.Hello | wire.Pong) else ""
        body = wire.encode(message)
        self.sent_bytes += len(body)
        self.tell(wire.UP, wire.encode(wire.Frame(run, next(self.numbers) if numbered else 0, self.seen, body)))

    def hear(self) -> None:
        """Answer all that has come."""
        while True:
            try:
                said = Message.unserialize(self.socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                return
            if said.type == wire.DOWN:
                self.take(wire.decode_frame(said.data))

    def take(self, frame: wire.Frame) -> None:
        """Answer a message of ours."""
        self.seen = max(self.seen, frame.number) if frame.run else self.seen
        if not frame.body:
            return
        message = wire.decode_to_member(frame.body)
        if isinstance(message, wire.Ping):
            self.say(wire.Pong(message.sent_ns, clock.wall_ns()))
        elif isinstance(message, messages.Assign) and self.assign is None:
            self.assign = message
            self.say(messages.Ready(digest="d", wall_offset_ns=0, pid=os.getpid(), host="crowd", stages=STAGES, notes=()))
        elif isinstance(message, messages.Go):
            self.t0_ns = message.t0_wall_ns
        elif isinstance(message, messages.Ack):
            self.acknowledged = max(self.acknowledged, message.k)
        elif isinstance(message, wire.Over):
            self.over = True

    def report(self, intervals: int, variants: list[list[Series]], now_ns: int) -> None:
        """Report the intervals that have ended, and in the end that all is done."""
        assign = self.assign
        if assign is None or not self.t0_ns or self.done:
            return
        interval_s = assign.interval_ns / 1e9
        while self.k < intervals and now_ns >= self.t0_ns + (self.k + 1) * assign.interval_ns:
            health = Health(STREAMS, 0, 10**8, assign.interval_ns, 10**6, 10**6, 10**8)
            made = variants[(self.k + int(assign.worker)) % VARIANTS]
            levels = [(workload, STREAMS // 2) for workload in WORKLOADS]
            one = Snapshot(
                assign.worker, self.k, made, counters(interval_s), health, levels if self.k < intervals - 1 else [], []
            )
            self.k += 1
            self.say(messages.Report([snapshot.encode(one)]))
        if self.k == intervals == self.acknowledged + 1:
            self.done = True
            self.say(messages.Done(intervals))


def main(port: int, count: int, intervals: int) -> None:
    """Be so many workers until the run is over for all."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    context = zmq.Context[zmq.Socket[bytes]](4)
    context.set(zmq.MAX_SOCKETS, count + 16)
    workers = [Worker(context, port, number) for number in range(count)]
    poller = zmq.Poller()
    by_socket = {worker.socket: worker for worker in workers}
    for worker in workers:
        poller.register(worker.socket, zmq.POLLIN)
        worker.tell("client_ready", "2.47.0")
        worker.say(wire.Hello("crowd", os.getpid(), "elsewhere", __version__, ("R1User",)))
    stats = statistics()
    variants: list[list[Series]] = []
    due = [(clock.monotonic_ns() / 1e9 + number / count, STATS_S * number / count) for number in range(count)]
    beat_s = [at for at, _ in due]
    stats_s = [at + offset for at, offset in due]
    while not all(worker.over for worker in workers):
        for socket, _ in poller.poll(20):
            by_socket[socket].hear()
        now_s, now_ns = clock.monotonic_ns() / 1e9, clock.wall_ns()
        if not variants and workers[0].assign is not None:
            random = np.random.default_rng(7)
            variants = [series(workers[0].assign.interval_ns / 1e9, random) for _ in range(VARIANTS)]
        for number, worker in enumerate(workers):
            if now_s >= beat_s[number]:
                beat_s[number] += HEARTBEAT_S
                worker.tell("heartbeat", {"state": "ready", "current_cpu_usage": 10.0, "current_memory_usage": 10**8})
            if now_s >= stats_s[number]:
                stats_s[number] += max(STATS_S, 0 if worker.assign is None else worker.assign.interval_ns / 1e9)
                worker.tell("stats", stats)
            worker.report(intervals, variants, now_ns)
    reports = sum(worker.k for worker in workers)
    told = {"reports": reports, "bytes": sum(worker.sent_bytes for worker in workers), "series": len(variants[0])}
    sys.stdout.write(json.dumps(told) + "\n")
    for worker in workers:
        worker.socket.close(0)
    context.term()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
