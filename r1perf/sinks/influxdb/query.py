"""Ask for a run's points: in Flux, and where a server has none in InfluxQL."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from r1perf import clock
from r1perf.errors import DatabaseError
from r1perf.sinks.influxdb.server import Row, Server

TAGS = frozenset({"run_id", "scenario", "target", "model", "workload", "stage", "part", "kind"})

NO_FLUX = (403, 404, 405, 501)
"""What servers without Flux answer: InfluxDB 1 where it is off, InfluxDB 3 always."""

SHOWN = "_p[0-9]+(_ms)?$|_le_[0-9]+_ms$"
"""Fields for charts alone, which nobody reads back: half of all."""

COUNTS = "_count$"
"""Fields that say how many values a metric had: without the histograms beside them, which are nearly all of a point's bytes."""

FIRST_MS, LAST_MS = 0, 4_102_444_800_000
"""1970 to 2100."""


class Bucket:
    """Reads points of one bucket; raises DatabaseError."""

    def __init__(self, server: Server, name: str) -> None:
        self._server, self._name = server, name
        self._flux = True

    def points(
        self,
        measurement: str,
        run_id: str | None = None,
        begin_ms: int = FIRST_MS,
        end_ms: int = LAST_MS,
        fields: str | None = None,
    ) -> list[Row]:
        """Return the points of a measurement in [begin, end), of one run or of all, in order of time; of their fields some, or all.

        `fields` is a regular expression.
        """
        rows: list[Row] | None = None
        if self._flux:
            try:
                rows = list(self._by_flux(measurement, run_id, begin_ms, end_ms, fields))
            except DatabaseError as error:
                if error.status not in NO_FLUX:
                    raise
                rows = self._without_flux(error, measurement, run_id, begin_ms, end_ms, fields)
        if rows is None:
            rows = list(self._by_influxql(measurement, run_id, begin_ms, end_ms, fields))
        # The Flux of InfluxDB 1.8 gives what lies at `stop` as well, against its own documentation.
        return sorted((row for row in rows if begin_ms <= row.time_ms < end_ms), key=lambda row: row.time_ms)

    def _without_flux(self, error: DatabaseError, *asked: Any) -> list[Row]:
        """Ask in InfluxQL; where that is refused too, the better of both answers is the one that is not about Flux."""
        try:
            rows = list(self._by_influxql(*asked))
        except DatabaseError as second:
            about_flux = "flux" in error.says.lower() or "page not found" in error.says.lower()
            raise (second if about_flux else error) from error
        self._flux = False
        return rows

    def _by_flux(self, measurement: str, run_id: str | None, begin_ms: int, end_ms: int, fields: str | None) -> Iterator[Row]:
        only = f' and r.run_id == "{run_id}"' if run_id is not None else ""
        wanted = f"!~ /{SHOWN}/" if fields is None else f"=~ /{fields}/"
        query = (
            f'from(bucket: "{self._name}")'
            f" |> range(start: {_rfc3339(begin_ms)}, stop: {_rfc3339(end_ms)})"
            f' |> filter(fn: (r) => r._measurement == "{measurement}"{only})'
            f" |> filter(fn: (r) => r._field {wanted})"
            ' |> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
        )
        for values in self._server.flux(query):
            at: datetime = values["_time"]
            yield Row(
                round(at.timestamp() * 1000),
                {key: str(value) for key, value in values.items() if key in TAGS and value},
                {
                    key: value
                    for key, value in values.items()
                    if key not in TAGS and not key.startswith("_") and key not in ("result", "table") and value is not None
                },
            )

    def _by_influxql(self, measurement: str, run_id: str | None, begin_ms: int, end_ms: int, fields: str | None) -> Iterator[Row]:
        only = f" AND run_id = '{run_id}'" if run_id is not None else ""
        wanted = "*" if fields is None else f"/{fields}/"
        query = f'SELECT {wanted} FROM "{measurement}" WHERE time >= {begin_ms}ms AND time < {end_ms}ms{only} GROUP BY *'
        yield from self._server.influxql(query)


def _rfc3339(ms: int) -> str:
    return clock.utc(ms * 1_000_000).isoformat(timespec="milliseconds").replace("+00:00", "Z")
