"""What every arrival process has."""

from typing import Annotated

import msgspec

from r1perf.target import Name
from r1perf.units import Duration

Count = Annotated[int, msgspec.Meta(gt=0)]


class Process(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind"):
    """One arrival process; among `stages` each is a stage of its own.

    `duration` or `requests`, whichever comes first, ends it; where neither is given, the run's own end it. `judged` is
    left out for the default: everything is judged except a ramp that another stage follows.
    """

    name: Name | None = None
    duration: Duration | None = None
    requests: Count | None = None
    judged: bool | None = None
