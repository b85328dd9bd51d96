"""Run a scenario with workers on this machine: what `r1perf run` does, without its terminal."""

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

import msgspec

from r1perf import clock
from r1perf.collector import Collector, Order, Verdict, View
from r1perf.launch.processes import Gone, Workers
from r1perf.launch.simulated import simulator
from r1perf.providers.registry import choose
from r1perf.scenario import Scenario, resolved, simulated
from r1perf.sinks import Sink
from r1perf.sinks.archive import ArchiveSink, create
from r1perf.sinks.environment import environment
from r1perf.sinks.influxdb import InfluxSink, settings

TICK_S = 0.2
"""How often the collector looks up while no message comes."""


class Ran(msgspec.Struct, frozen=True):
    """What came of a run; `folder` is its archive, None where it never began."""

    verdict: Verdict
    folder: Path | None


def run(scenario: Scenario, *, base: Path, runs: Path, view: View, workers: int = 1) -> Ran:
    """Run a scenario to its end; SIGINT and SIGTERM end it in order. Raises an R1perfError for what is wrong before it begins."""
    with ordered(scenario, base=base, runs=runs) as order:
        verdict = _collect(order, workers, view)
    return ran(order, verdict, runs)


@contextmanager
def ordered(scenario: Scenario, *, base: Path, runs: Path) -> Iterator[Order]:
    """Make a run's folder and order; a simulated target runs meanwhile."""
    settings(scenario.sinks.influxdb, os.environ)  # what is missing is said before there is a folder
    kind = simulated(scenario.target.url)
    with nullcontext((scenario.target.url, None)) if kind is None else simulator(*kind) as (url, lives):
        reached = scenario
        if kind is not None:
            name = scenario.target.title
            provider = choose(scenario.target).name  # its address does not tell
            target = msgspec.structs.replace(scenario.target, url=url, name=name, provider=provider)
            reached = msgspec.structs.replace(scenario, target=target)
        folder = create(runs, scenario.name, clock.wall_ns())
        yield Order(
            scenario=reached,
            resolved=resolved(scenario),
            base=base,
            folder=folder.resolve(),
            run_id=f"{folder.name}-{secrets.token_hex(3)}",
            environment=environment(Path.cwd()),
            simulated=kind is not None,
            lives=lives,
        )


def sinks(order: Order, view: View, interrupts: Callable[[], int]) -> list[Sink]:
    """Make the sinks of a run; the archive comes first, so that it is complete before the others are waited for.

    `interrupts` counts the Ctrl-C so far, also while a sink ends.
    """
    made: list[Sink] = [ArchiveSink(order.folder)]
    influxdb = settings(order.scenario.sinks.influxdb, os.environ)
    if influxdb is not None:
        made.append(InfluxSink(influxdb, order.folder, view.note, interrupts=interrupts))
    return made


def ran(order: Order, verdict: Verdict, runs: Path) -> Ran:
    """Say what came of a run; the folder of one that never began is removed."""
    if verdict.document is None:
        _remove(order.folder)
        return Ran(verdict, None)
    return Ran(verdict, runs / order.folder.name)


def _collect(order: Order, count: int, view: View) -> Verdict:
    with Workers(count, order.folder) as workers, _interrupts() as interrupts:
        collector = Collector(order, workers.names, workers.send, sinks(order, view, lambda: len(interrupts)), view)
        collector.begin()
        taken = 0
        while collector.verdict is None:
            for worker, message in workers.receive(TICK_S):
                if isinstance(message, Gone):
                    collector.gone(worker, _says(message, workers.log(worker)))
                else:
                    collector.receive(worker, message)
            while taken < len(interrupts):
                taken += 1
                collector.interrupt()
            for worker in collector.silent():
                workers.kill(worker)
            if order.lives is not None and not order.lives():
                collector.stop("the simulated endpoint has ended")
            collector.tick()
        return collector.verdict


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect SIGINT, SIGTERM and SIGHUP (a closed terminal) instead of dying of them."""
    came: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield came
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _says(gone: Gone, log: Path) -> str:
    """Say how a process ended, and where it wrote why."""
    how = f"killed by {signal.Signals(-gone.code).name}" if gone.code < 0 else f"its process ended with exit code {gone.code}"
    written = log.exists() and log.stat().st_size > 0
    return how + (f"; its last words are in {log}" if written else "")


def _remove(folder: Path) -> None:
    """Remove the folder of a run that never began; a worker's log stays, and so does its folder."""
    for path in folder.iterdir():
        if path.name.startswith(("requests.", "snapshots.", "scheduled.")) and path.stat().st_size == 0:
            path.unlink()
    if not any(folder.iterdir()):
        folder.rmdir()
