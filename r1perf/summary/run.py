"""What is known of a run before it begins: all that a summary needs beside the snapshots."""

from typing import Any

import msgspec

from r1perf.datasets.facts import Prompting
from r1perf.schedule import Stage
from r1perf.target import Price, System


class PlannedRequests(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many requests of a workload are planned, at most, in a stage (by index; None: in any); `requests` None: not known."""

    workload: str
    stage: int | None = None
    requests: int | None = None


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One execution of a scenario. `started_ns` is t0 on the wall clock; stage offsets count from it.

    `tightest_limit_ns` is the tightest stated limit on ttft, ttfo or e2e: it says how late the generator may be.
    """

    run_id: str
    name: str  # of the scenario
    target: str
    url: str = ""
    model: str = ""
    engine: str = "fast"
    started_ns: int
    interval_ns: int
    stages: tuple[Stage, ...]
    workloads: tuple[str, ...] = ()  # in the scenario's order
    workers: tuple[str, ...] = ()
    planned: tuple[PlannedRequests, ...] = ()  # where clauses are to be judged
    prompting: dict[str, Prompting] = {}  # by workload
    price: Price = Price()
    system: System = System()
    tightest_limit_ns: int | None = None
    scenario: dict[str, Any] = {}  # as resolved
    labels: dict[str, str] = {}
    environment: dict[str, Any] = {}
