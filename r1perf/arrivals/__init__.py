"""Arrival processes: the laws of when conversations start. One file a process; the union is the registry."""

from r1perf.arrivals.closed import Closed
from r1perf.arrivals.constant import Constant
from r1perf.arrivals.gamma import Gamma
from r1perf.arrivals.gaps import GammaGaps, Gaps, Stream
from r1perf.arrivals.open import Open
from r1perf.arrivals.poisson import Poisson
from r1perf.arrivals.process import Process
from r1perf.arrivals.ramp import Ramp
from r1perf.arrivals.stages import AnyOpen, AnyStage, Stages
from r1perf.arrivals.trace import Trace

AnyArrivals = AnyStage | Stages

__all__ = [
    "AnyArrivals",
    "AnyOpen",
    "AnyStage",
    "Closed",
    "Constant",
    "Gamma",
    "GammaGaps",
    "Gaps",
    "Open",
    "Poisson",
    "Process",
    "Ramp",
    "Stages",
    "Stream",
    "Trace",
]
