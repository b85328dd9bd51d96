"""What a collector is to carry out: a shard of it for each worker, and the run that comes of it once all are ready."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from r1perf import messages
from r1perf.scenario import Scenario, resolved
from r1perf.sla.planned import together
from r1perf.summary import Run

LEAD_NS = 200_000_000
"""How long before interval 0 its time is announced: every worker must have it by then."""


class Order(msgspec.Struct, frozen=True):
    """What a collector is to carry out."""

    scenario: Scenario  # as the workers get it: a simulated target has its real address
    resolved: dict[str, Any]  # as the archive keeps it
    base: Path
    folder: Path
    run_id: str
    environment: dict[str, Any]
    simulated: bool = False  # the target is the embedded simulated endpoint
    lives: Callable[[], bool] | None = None  # tells whether that endpoint still runs
    lead_ns: int = LEAD_NS
    users: bool = False  # closed loop: sessions are started and ended by the workers' users, not by the plan

    def assign(self, worker: str, shard: int, shards: int) -> messages.Assign:
        """Return one worker's assignment."""
        return messages.Assign(
            run_id=self.run_id,
            worker=worker,
            shard=shard,
            shards=shards,
            scenario=resolved(self.scenario),
            base=str(self.base),
            folder=str(self.folder),
            interval_ns=int(self.scenario.interval),
            simulated=self.simulated,
            users=self.users,
        )

    def run(self, ready: Mapping[str, messages.Ready], t0_ns: int, tightest_limit_ns: int | None) -> Run:
        """Return the run that begins at `t0_ns` with workers that are ready, in their order."""
        scenario, target = self.scenario, self.scenario.target
        return Run(
            run_id=self.run_id,
            name=scenario.name,
            target=target.title,
            url=target.url,
            model=target.model,
            engine=target.engine,
            started_ns=t0_ns,
            interval_ns=int(scenario.interval),
            stages=next(iter(ready.values())).stages,
            workloads=tuple(scenario.workload),
            workers=tuple(ready),
            planned=together(row for said in ready.values() for row in said.planned),
            prompting={name: facts for said in ready.values() for name, facts in said.prompting.items()},
            price=target.price,
            system=target.system,
            tightest_limit_ns=tightest_limit_ns,
            scenario=self.resolved,
            labels=scenario.labels,
            environment=self.environment | {"workers": {worker: _facts(said) for worker, said in ready.items()}},
        )


def _facts(ready: messages.Ready) -> dict[str, Any]:
    """Return what `run.json` says of a worker."""
    facts = {"host": ready.host, "pid": ready.pid, "wall_offset_ns": ready.wall_offset_ns}
    more = {"clock_offset_ns": ready.clock_offset_ns, "folder": ready.folder}
    return facts | {name: value for name, value in more.items() if value is not None}


def differing(ready: Mapping[str, messages.Ready]) -> str | None:
    """Say which worker plans a different run than the first; None where all plan the same."""
    first = min(ready)
    for worker, said in ready.items():
        if said.digest != ready[first].digest:
            return (
                f"worker {worker} ({said.host}) plans a different run ({said.digest}) than worker {first} "
                f"({ready[first].host}, {ready[first].digest}): their versions of r1perf, Python or the data files differ"
            )
    return None
