"""`r1perf check`: the plan of a run, before anything is sent."""

from r1perf.check.expect import Needs, Speed
from r1perf.check.plan import Check, Money, check
from r1perf.check.render import render
from r1perf.check.rows import Row

__all__ = ["Check", "Money", "Needs", "Row", "Speed", "check", "render"]
