"""The master of the bench, in a process of its own: `python -m bench.conductor PORT WORKERS IDLE_S`; prints what it took."""

import json
import sys
import tempfile
from pathlib import Path

import gevent
from locust.env import Environment
from locust.event import Events

from r1perf import clock
from r1perf.health import rss_bytes
from r1perf.scenario import load
from r1perf.summary import Summary
from r1perf.swarm.master import Master
from r1perf.swarm.user import R1User

SCENARIO = {
    "name": "bench", "duration": "1h", "target": {"url": "http://127.0.0.1:1/v1", "model": "m"},
    "workload": {name: {"dataset": {"kind": "prompts", "prompts": ["x"]}} for name in ("aime", "chat")},
    "arrivals": {"kind": "poisson", "rate": "1/s"},
}  # fmt: skip


class Quiet:
    """Nobody watches."""

    def note(self, sentence: str) -> None:
        """Say it on standard error: there should be nothing."""
        sys.stderr.write(f"{sentence}\n")

    def show(self, summary: Summary, phase: str) -> None:
        """Show nothing."""


def main(port: int, workers: int, idle_s: int) -> None:
    """Wait for the crowd, idle a while, carry one run out."""
    environment = Environment(events=Events(), user_classes=[R1User])
    runner = environment.create_master_runner("127.0.0.1", port)
    master = Master(environment)
    while len(master.workers) < workers:
        gevent.sleep(0.1)
    gevent.sleep(3)
    idle = _measured(lambda: gevent.sleep(idle_s))
    rss_before, began = rss_bytes(), {}

    sizes: list[int] = []

    def begun() -> None:
        began.update(cpu=clock.cpu_ns(), wall=clock.monotonic_ns())

    def weigh() -> None:
        while True:
            gevent.sleep(1)
            sizes.append(rss_bytes())

    gevent.spawn(weigh)
    with tempfile.TemporaryDirectory() as folder:
        ran = master.carry(load(SCENARIO), base=Path(folder), runs=Path(folder), view=Quiet(), begun=lambda: began or begun())
        cpu_s, wall_s = (clock.cpu_ns() - began["cpu"]) / 1e9, (clock.monotonic_ns() - began["wall"]) / 1e9
    document = ran.verdict.document
    told = {
        "idle": idle, "cpu_s": cpu_s, "wall_s": wall_s, "rss_before": rss_before, "rss": sizes,
        "sentence": ran.verdict.sentence, "counts": document.counts if document else {},
        "interval_s": document.interval_ns / 1e9 if document else 0,
    }  # fmt: skip
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    runner.quit()


def _measured(run: "object") -> float:
    """Return the share of a core that something took."""
    assert callable(run)
    cpu, wall = clock.cpu_ns(), clock.monotonic_ns()
    run()
    return (clock.cpu_ns() - cpu) / (clock.monotonic_ns() - wall)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
