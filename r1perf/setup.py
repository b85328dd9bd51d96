"""Everything a worker does between its assignment and t0: load, plan, reach the target."""

import gc
import hashlib
import math
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from r1perf import __version__
from r1perf.budget import Budget, Limits, carried
from r1perf.calibrate import Estimated, Failed, calibrate
from r1perf.client import Client
from r1perf.client.fast import FastClient
from r1perf.datasets import Items, Told, silent
from r1perf.datasets.facts import Prompting
from r1perf.datasets.repeats import PROMPTS, repeats
from r1perf.datasets.tokens import Calibration
from r1perf.errors import UsageError
from r1perf.loop import Loop
from r1perf.messages import Assign
from r1perf.preflight import api_key, preflight
from r1perf.providers.registry import check_length, choose
from r1perf.recorder import Tallies
from r1perf.scenario import Scenario, load
from r1perf.schedule import Plan
from r1perf.sla import Tallier, Watch, terms
from r1perf.sla.planned import Row, planned
from r1perf.source import WorkloadSource
from r1perf.target import Target
from r1perf.transport.http import HttpTransport

PROGRESS_NS = 200_000_000
"""How often the loading is looked at."""


class Setup(msgspec.Struct, frozen=True):
    """A worker's shard, ready to begin."""

    plan: Plan
    sources: Mapping[str, WorkloadSource]
    client: Client[Any]
    digest: str
    notes: tuple[str, ...]
    seed: int
    record_chunks: bool
    max_in_flight: int
    budget: Budget
    drain_ns: int | None
    stop_errors: int | None
    tallies: Tallies | None = None  # counts for the clauses of the SLA
    planned: tuple[Row, ...] = ()
    prompting: Mapping[str, Prompting] = {}  # the first shard's alone

    def calibrated(self, calibrations: Mapping[str, Calibration]) -> "Setup":
        """Return it with texts that are counted as the server counts them; every worker is given the same."""
        sources = dict(self.sources)
        for name, calibration in calibrations.items():
            items = sources[name].items
            if isinstance(items, Estimated):
                sources[name] = sources[name].of(items.calibrated(calibration))
        return msgspec.structs.replace(self, sources=sources)


def set_up(loop: Loop, assign: Assign, told: Told = silent) -> Setup:
    """Load datasets, plan and shard, make the client, reach the target; raises an R1perfError that says what is wrong.

    `told` hears how far large files are, of the first shard's worker.
    """
    scenario = load(assign.scenario)
    target = scenario.target
    key = api_key(target)
    items = _loaded(loop, scenario, assign, silent if assign.shard else told)
    plan = loop.offload(scenario.plan, items, Path(assign.base))
    if assign.shards > 1 and (waits := next((stage for stage in plan.stages[:-1] if stage.follows is not None), None)):
        raise UsageError(
            f"stage `{waits.name}` begins when the last session of stage `{plan.stages[waits.follows or 0].name}` has ended, which several "
            "workers do not know of one another: give the stages durations, or run with one worker"
        )
    if target.max_in_flight < assign.shards:
        raise UsageError(
            f"`target.max_in_flight` ({target.max_in_flight}) is shared out among the workers, and {assign.shards} are more than that: "
            "raise it, or run with fewer workers"
        )
    promised = terms(scenario, [(stage.name, stage.judged) for stage in plan.stages], items)
    sources = {
        name: WorkloadSource(workload, items[name], target, simulated=assign.simulated)
        for name, workload in scenario.workload.items()
    }
    for source in sources.values():
        check_length(target, source.items.conversation(0).turns[0].output_tokens)
    dialect = choose(target)
    transport = HttpTransport.of(loop, target)
    try:
        served = preflight(loop, target, dialect, transport, key)
    except BaseException:
        transport.close()
        raise
    if target.engine == "fast":
        client: Client[Any] = FastClient(loop, target, dialect, transport, key)
    else:
        transport.close()
        client = _openai(loop, target, key)
    limits = Limits(scenario.stop.cost, scenario.stop.output_tokens, scenario.stop.requests).share(assign.shards)
    budget, notes, prompting = Budget(limits, target.price, carried(target)), served.notes, dict[str, Prompting]()
    if not assign.shard:  # one worker finds out for all
        notes = notes if plan.short is None else (*notes, plan.short)
        prompting = loop.offload(_prompting, scenario, plan, items)
        for name, source in sources.items():
            found = calibrate(loop, name, source, client, budget, assign.run_id)
            if isinstance(found, Failed):
                notes = (*notes, found.why)
            elif found is not None:
                fitted = _lengthened(plan, name, source.items, found)
                prompting[name] = msgspec.structs.replace(prompting[name], calibration=found, lengthened=fitted)
    digest = hashlib.sha256()
    for part in (plan.digest(), *(f"{name}={items[name].digest}" for name in sorted(items)), __version__, sys.version):
        digest.update(part.encode() + b"\0")
    # What has been loaded lives to the end of the run: the collector of cycles need not walk through it.
    gc.collect()
    gc.freeze()
    shard = plan.shard(assign.shard, assign.shards)
    watches = promised.watches(plan.stages)
    return Setup(
        plan=shard,
        sources=sources,
        client=client,
        digest=digest.hexdigest()[:16],
        notes=notes,
        seed=scenario.seed,
        record_chunks=scenario.record_chunks,
        max_in_flight=target.max_in_flight // assign.shards,
        budget=budget,
        drain_ns=scenario.drain.limit_ns,
        stop_errors=scenario.stop.errors,
        tallies=_tallier(scenario, plan, watches) if watches else None,
        planned=loop.offload(planned, shard, items) if watches and not assign.users else (),
        prompting=prompting,
    )


def _tallier(scenario: Scenario, plan: Plan, watches: Sequence[Watch]) -> Tallier:
    judged = [stage.index for stage in plan.stages if stage.judged]
    return Tallier(watches, judged, ahead=scenario.sla.fail_fast, streamed=scenario.target.stream)


def _prompting(scenario: Scenario, plan: Plan, items: Mapping[str, Items]) -> dict[str, Prompting]:
    """Look through the first prompts of each workload."""
    facts = {}
    for name, workload in scenario.workload.items():
        made = (items[name].conversation(item) for item in range(min(_planned(scenario, plan, name), PROMPTS)))
        facts[name] = Prompting(
            cache=workload.dataset.cache,
            cache_control=getattr(workload.dataset, "cache_control", False),
            repeats=repeats(made),
            lengthened=_lengthened(plan, name, items[name]),
        )
    return facts


def _lengthened(plan: Plan, name: str, items: Items, calibration: Calibration | None = None) -> float:
    """Return the share of a workload's planned prompts that become longer than asked."""
    if not isinstance(items, Estimated):
        return 0.0
    fitted = items if calibration is None else items.calibrated(calibration)
    return fitted.lengthened(plan.items[plan.workload_of == plan.workloads.index(name)]) if isinstance(fitted, Estimated) else 0.0


def _planned(scenario: Scenario, plan: Plan, name: str) -> int:
    """Return how many conversations of a workload are planned, about so many where sessions choose by weight; PROMPTS where nobody knows."""
    shares = {each: workload.share or 0.0 for each, workload in scenario.workload.items()}
    planned = float((plan.workload_of == plan.workloads.index(name)).sum())
    for group in plan.sessions:
        if group.workload in (None, name):
            part = 1.0 if group.workload == name else shares[name] / (sum(shares.values()) or 1.0)
            planned += PROMPTS if group.conversations is None else math.ceil(group.conversations * part)
    return int(planned) or PROMPTS


def _loaded(loop: Loop, scenario: Scenario, assign: Assign, told: Told) -> dict[str, Items]:
    """Load on a thread; what it says is passed on from the loop, which messages are sent on."""
    said: deque[str] = deque()

    def pass_on() -> None:
        while True:
            while said:
                told(said.popleft())
            loop.sleep_until(loop.now_ns() + PROGRESS_NS)

    passing = loop.spawn(pass_on)
    try:
        return loop.offload(scenario.items, Path(assign.base), assign.run_id, said.append)
    finally:
        passing.cancel()
        while said:
            told(said.popleft())


def _openai(loop: Loop, target: Target, key: str | None) -> Client[Any]:
    from r1perf.client.openai import open_openai  # an extra, and half a second of imports

    return open_openai(loop, target, choose(target), key)
