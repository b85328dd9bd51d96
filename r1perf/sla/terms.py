"""Read a scenario's clauses against what its run has: workloads, stages, timeouts, prices."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from r1perf.arrivals import Closed, Ramp, Stages
from r1perf.datasets import Items
from r1perf.scenario import Scenario
from r1perf.schedule import Stage
from r1perf.schedule.layout import processes_of, stage_names
from r1perf.schedule.model import RESERVED
from r1perf.sla.clauses import Clause
from r1perf.sla.compile import limits, watch
from r1perf.sla.limits import Watch
from r1perf.sla.validate import Scope, parse

_SAMPLE = 20
"""So many conversations say whether a dataset has answers."""

_LATENESS = ("ttft", "ttfo", "e2e")
"""Metrics that count from when a request was scheduled, so that a late generator is in them."""


class Terms(msgspec.Struct, frozen=True):
    """The clauses of a run in order, each once, and the confidence at which they are judged."""

    clauses: tuple[Clause, ...] = ()
    confidence: float = 0.95

    def watches(self, stages: Sequence[Stage]) -> list[Watch]:
        """Return what a worker counts; a watch's `clause` is the place in `clauses`."""
        by_name: dict[str, list[int]] = {}
        for stage in stages:
            by_name.setdefault(stage.name, []).append(stage.index)
        made = (watch(clause, index, by_name) for index, clause in enumerate(self.clauses))
        return [one for one in made if one is not None]

    @property
    def tightest_limit_ns(self) -> int | None:
        """Return the tightest upper limit on ttft, ttfo or e2e: it says how late the generator may be."""
        stated = [limit for clause in self.clauses for limit in limits(clause)]
        return min((int(limit.value) for limit in stated if limit.metric in _LATENESS and limit.op in ("<", "<=")), default=None)


def terms(scenario: Scenario, stages: Iterable[tuple[str, bool]], items: Mapping[str, Items] | None = None) -> Terms:
    """Read and check every clause of a scenario; raises ClauseError.

    `stages` are the run's stages by name, and whether each is judged; `items`, where they are loaded, say whose answers have grades.
    """
    ungraded = [name for name, loaded in (items or {}).items() if not _graded(loaded)]
    scope = scope_of(scenario, stages, ungraded=ungraded)
    return Terms(unique(parse(text, scope) for text in scenario.sla.clauses), scenario.sla.confidence)


def _graded(items: Items) -> bool:
    """Say whether answers have grades, by the first conversations."""
    some = range(min(_SAMPLE, items.size or _SAMPLE))
    return any(turn.expected is not None for item in some for turn in items.conversation(item).turns)


def unique(clauses: Iterable[Clause]) -> tuple[Clause, ...]:
    """Leave out what says the same as an earlier clause."""
    return tuple({str(clause): clause for clause in clauses}.values())


def scope_of(scenario: Scenario, stages: Iterable[tuple[str, bool]], *, ungraded: Iterable[str] = ()) -> Scope:
    """Return what the clauses of a scenario's run may name."""
    known, target = list(stages), scenario.target
    price = target.price
    by_tokens = price.input_per_1m is not None or price.output_per_1m is not None
    return Scope(
        workloads=tuple(scenario.workload),
        stages=tuple(name for name, judged in known if judged),
        unjudged=(*(name for name, judged in known if not judged), *RESERVED),
        target=target.title,
        timeouts=target.timeouts,
        streamed=target.stream,
        ungraded=tuple(ungraded),
        priced=by_tokens or price.gpu_hour is not None,
        by_tokens=by_tokens,
    )


def outline(scenario: Scenario) -> list[tuple[str, bool]]:
    """Return the stages that a plan of the scenario will have, and whether each is judged; nothing is loaded or drawn."""
    processes = processes_of(scenario.arrivals, scenario.duration)
    if not processes:
        return [("main", True)]
    last = len(processes) - 1
    return [
        (name, process.judged if process.judged is not None else number == last or not isinstance(process, Ramp))
        for number, (name, process) in enumerate(zip(stage_names(processes), processes, strict=True))
    ]


def closed(scenario: Scenario) -> bool:
    """Say whether sessions wait for answers, so that a slow target is asked less."""
    processes = scenario.arrivals.stages if isinstance(scenario.arrivals, Stages) else (scenario.arrivals,)
    return any(isinstance(one, Closed) for one in (*processes, *(w.arrivals for w in scenario.workload.values())))
