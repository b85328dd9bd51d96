"""Read what `r1_run` tells of runs: which there are, what was known before each began, and how it ended."""

from collections.abc import Mapping
from typing import Any

import msgspec

from r1perf.errors import DatabaseError, UsageError
from r1perf.schedule import Stage, drain_index
from r1perf.sinks.influxdb.line import joined
from r1perf.sinks.influxdb.points import RUN
from r1perf.sinks.influxdb.query import Bucket
from r1perf.sinks.influxdb.server import Row
from r1perf.summary import Run
from r1perf.summary.listed import Listed


class Found(msgspec.Struct, frozen=True):
    """A run as its `r1_run` point tells it; of `stages`, those that were not planned are known once it has ended."""

    run: Run
    fields: dict[str, Any]
    stages: tuple[Stage, ...]

    @property
    def ended(self) -> bool:
        """Whether its end was written."""
        return bool(self.fields["status"] != "running")

    def stage(self, name: str) -> int:
        """Return the index of a stage by its name."""
        index = next((stage.index for stage in self.stages if stage.name == name), None)
        if index is not None:
            return index
        return drain_index(self.run.stages) + int(name.removeprefix("live-"))  # as the web UI's stages are numbered


def runs(bucket: Bucket) -> list[Listed]:
    """List the runs of a bucket, the newest first."""
    found = [_listed(row) for row in bucket.points(RUN) if "status" in row.fields]
    return sorted(found, key=lambda each: each.started_ns, reverse=True)


def find(bucket: Bucket, run_id: str) -> Found:
    """Find a run; raises UsageError where the bucket has none of that name."""
    for row in bucket.points(RUN, run_id):
        if "status" in row.fields:
            run = _run(row)
            stages = decoded(row.fields, "stages", tuple[Stage, ...]) if "stages" in row.fields else run.stages
            return Found(run, row.fields, stages)
    raise UsageError(f"there is no run {run_id} in this bucket; `r1perf runs influx://BUCKET` lists those that are")


def decoded(fields: Mapping[str, Any], name: str, kind: Any) -> Any:
    """Read a field that is JSON; raises DatabaseError where it is damaged."""
    text = joined(name, fields)
    try:
        return msgspec.json.decode(text or "", type=kind)
    except msgspec.MsgspecError as error:
        raise DatabaseError(f"`{name}` of a run cannot be read from InfluxDB: {error}") from error


def _run(row: Row) -> Run:
    """Read what was known before the run."""
    rest: Run = decoded(row.fields, "run", Run)
    return msgspec.structs.replace(
        rest,
        scenario=decoded(row.fields, "scenario_json", dict[str, Any]),
        labels=decoded(row.fields, "labels", dict[str, str]),
        environment=decoded(row.fields, "environment", dict[str, Any]),
    )


def _listed(row: Row) -> Listed:
    ended = row.fields["status"] != "running"
    fields = row.fields if ended else {}
    run: Run = decoded(row.fields, "run", Run)  # exact: a point's time is in ms, and a tag cannot hold every character
    return Listed(
        run_id=run.run_id,
        started_ns=run.started_ns,
        scenario=run.name,
        target=run.target,
        model=run.model,
        status=str(row.fields["status"]),
        verdict=fields.get("verdict"),
        elapsed_s=fields.get("elapsed_s"),
        requests=fields.get("requests"),
        failed=fields.get("failed"),
    )
