"""The merged snapshots of a run, and all that can be said from them: rates, cost, stationarity, validity, run.json."""

from r1perf.summary.accuracy import Accuracy, accuracy
from r1perf.summary.archived import load, read_document, rebuilt, recover
from r1perf.summary.caching import Caching, caching
from r1perf.summary.censoring import Between, Bounds, bounds
from r1perf.summary.document import Document, SeriesRow, StageRow, WorkloadRow, document
from r1perf.summary.interval import Interval
from r1perf.summary.merged import ALL, Summary
from r1perf.summary.rates import Cost, Little, Rates, cost, little, rates
from r1perf.summary.recent import Recent, recent
from r1perf.summary.run import Run
from r1perf.summary.stationarity import Stationarity, stationarity
from r1perf.summary.validity import Validity, validity

__all__ = [
    "ALL",
    "Accuracy",
    "Between",
    "Bounds",
    "Caching",
    "Cost",
    "Document",
    "Interval",
    "Little",
    "Rates",
    "Recent",
    "Run",
    "SeriesRow",
    "StageRow",
    "Stationarity",
    "Summary",
    "Validity",
    "WorkloadRow",
    "accuracy",
    "bounds",
    "caching",
    "cost",
    "document",
    "little",
    "load",
    "rates",
    "read_document",
    "rebuilt",
    "recent",
    "recover",
    "stationarity",
    "validity",
]
