"""The planned run: every arrival's time, workload and item, from the seed; `plan()` makes it, `shard()` parts it."""

from r1perf.schedule.draft import Share
from r1perf.schedule.model import RESERVED, Arrival, Sessions, Stage, begins_ns, drain_index, live_stage, stage_name
from r1perf.schedule.plan import plan
from r1perf.schedule.planned import Plan

__all__ = [
    "RESERVED",
    "Arrival",
    "Plan",
    "Sessions",
    "Share",
    "Stage",
    "begins_ns",
    "drain_index",
    "live_stage",
    "plan",
    "stage_name",
]
