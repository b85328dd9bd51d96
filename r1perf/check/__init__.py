"""`r1perf check`: the plan of a run, before anything is sent."""

from r1perf.check.expect import Needs, Speed
from r1perf.check.plan import Check, Money, Row, check
from r1perf.check.render import render

__all__ = ["Check", "Money", "Needs", "Row", "Speed", "check", "render"]
