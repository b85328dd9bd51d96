"""Scenarios: TOML -> frozen structs, checked before anything starts."""

from r1perf.scenario.load import folder, kinds, load, shipped
from r1perf.scenario.model import Drain, ErrorRate, Scenario, Sla, Stop, simulated
from r1perf.scenario.resolve import resolved
from r1perf.scenario.schema import schema
from r1perf.scenario.shorthands import Shorthands
from r1perf.scenario.sinks import InfluxDb, Sinks
from r1perf.target import SIMULATED

__all__ = [
    "SIMULATED",
    "Drain",
    "ErrorRate",
    "InfluxDb",
    "Scenario",
    "Shorthands",
    "Sinks",
    "Sla",
    "Stop",
    "folder",
    "kinds",
    "load",
    "resolved",
    "schema",
    "shipped",
    "simulated",
]
