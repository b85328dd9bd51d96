"""Arrival processes one after the other."""

from typing import Annotated

import msgspec

from r1perf.arrivals.closed import Closed
from r1perf.arrivals.constant import Constant
from r1perf.arrivals.gamma import Gamma
from r1perf.arrivals.poisson import Poisson
from r1perf.arrivals.ramp import Ramp
from r1perf.arrivals.trace import Trace

AnyOpen = Constant | Poisson | Gamma | Ramp | Trace
AnyStage = AnyOpen | Closed


class Stages(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="stages"):
    """Go through several processes in order; each becomes a stage with a name."""

    stages: Annotated[tuple[AnyStage, ...], msgspec.Meta(min_length=1)]
