"""Where else a run's intervals go, beside its archive: one struct a sink, named as its table is."""

from typing import Annotated

import msgspec

from r1perf.units import Duration

Megabytes = Annotated[int, msgspec.Meta(gt=0)]


class InfluxDb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Write to InfluxDB 2, or to InfluxDB 1.8 and later through its v2 API.

    What is left out is read from the environment, under the names of InfluxDB's own client: `INFLUXDB_V2_URL`,
    `INFLUXDB_V2_ORG`, `INFLUXDB_V2_BUCKET`. The token is only ever read from there, from the variable `token_env`.
    """

    url: str | None = None
    org: str | None = None  # InfluxDB 1: "-", the default
    bucket: str | None = None  # InfluxDB 1: "database/retention policy"
    token_env: str = "INFLUXDB_V2_TOKEN"
    interval: Duration = Duration.parse("10s")  # how much of the run one point holds
    timeout: Duration = Duration.parse("5s")  # of one write
    deadline: Duration = Duration.parse("10s")  # how long the run's end waits for points that are not written yet
    spool_mb: Megabytes = 1024  # so much waits for a server that is away; what comes then is counted as lost


class Sinks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sinks of a scenario."""

    influxdb: InfluxDb | None = None
