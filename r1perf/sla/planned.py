"""Count the requests that a worker's shard plans: what a clause is held against when its run ends early."""

from collections.abc import Iterable, Mapping
from itertools import count

import numpy as np

from r1perf.datasets import Items
from r1perf.schedule import Plan, Sessions
from r1perf.summary.run import PlannedRequests

ANY = -1
"""Stands for any stage: later turns, and sessions, may drift into another one than they began in."""

MOST = 20_000
"""Conversations of several turns beyond this are not counted one by one, and their number is not known."""

Row = tuple[str, int, int | None]
"""Workload, stage (or ANY), and how many requests are planned at most; None where nobody knows."""


def planned(plan: Plan, items: Mapping[str, Items]) -> tuple[Row, ...]:
    """Return the most requests that a shard can have, by workload and stage; failures only make them fewer."""
    found: dict[tuple[str, int], int | None] = {}
    for which, workload in enumerate(plan.workloads):
        mine = plan.workload_of == which
        if items[workload].expected.turns == 1:
            stages, counts = np.unique(plan.stage_of[mine], return_counts=True)
            for stage, n in zip(stages.tolist(), counts.tolist(), strict=True):
                _add(found, workload, stage, n)
        elif mine.any():
            known = int(mine.sum()) <= MOST
            _add(found, workload, ANY, sum(_turns(items[workload], i) for i in plan.items[mine].tolist()) if known else None)
    for group in plan.sessions:
        _sessions(found, plan, items, group)
    return tuple((workload, stage, n) for (workload, stage), n in found.items())


def together(rows: Iterable[Row]) -> tuple[PlannedRequests, ...]:
    """Add up what the workers plan, as a run's archive keeps it."""
    found: dict[tuple[str, int], int | None] = {}
    for workload, stage, n in rows:
        _add(found, workload, stage, n)
    return tuple(PlannedRequests(workload, None if stage == ANY else stage, n) for (workload, stage), n in found.items())


def _sessions(found: dict[tuple[str, int], int | None], plan: Plan, items: Mapping[str, Items], group: Sessions) -> None:
    """Go through the conversations of closed sessions, where requests end them."""
    if group.conversations is None or group.conversations > MOST:
        for workload in plan.workloads if group.workload is None else (group.workload,):
            _add(found, workload, ANY, None)
        return
    for session in range(group.first, group.count, group.step):
        for n in count():
            arrival = plan.conversation(group, session, n)
            if arrival is None:
                break
            _add(found, arrival.workload, ANY, _turns(items[arrival.workload], arrival.item))


def _turns(items: Items, item: int) -> int:
    return 1 if items.expected.turns == 1 else len(items.conversation(item).turns)


def _add(found: dict[tuple[str, int], int | None], workload: str, stage: int, n: int | None) -> None:
    before = found.get((workload, stage), 0)
    found[workload, stage] = None if before is None or n is None else before + n
