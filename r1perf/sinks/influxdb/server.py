"""Speak to one InfluxDB: the only module that knows its client.

Of the client only the synchronous calls are used, with bytes that are finished: its batching mode loses what waits at exit,
blocks for ever where gevent patches after its import, and drops points on any 4xx. It is imported at the first use: in a
process that gevent patches, that must come later.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from r1perf.client.ending import retry_after_ns
from r1perf.errors import DatabaseError
from r1perf.providers.says import concealed, printable, shorten
from r1perf.sinks.influxdb.bounded import Connections
from r1perf.sinks.influxdb.settings import Settings

CONNECT_MS = 2_000


class Row(msgspec.Struct, frozen=True):
    """One point as it was read back; what it has not is absent."""

    time_ms: int
    tags: dict[str, str]
    fields: dict[str, Any]


class Server:
    """A bucket on a server. Every call may raise DatabaseError, whose sentence names the server and never the token, whoever quotes it."""

    def __init__(self, settings: Settings) -> None:
        from influxdb_client.client.influxdb_client import InfluxDBClient
        from urllib3 import disable_warnings
        from urllib3.exceptions import InsecureRequestWarning

        if not settings.access.verify_tls:
            disable_warnings(InsecureRequestWarning)  # one at every request; `Settings.caution` says it once
        self._settings = settings
        token = str(settings.access.token)
        self._secrets = (token, token.partition(":")[2])  # of InfluxDB 1.8 it is USER:PASSWORD
        connect_ms = min(CONNECT_MS, max(settings.timeout_ns // 1_000_000, 1))
        self._client: Any = InfluxDBClient(
            settings.url,
            token=token,
            org=settings.org,
            timeout=(connect_ms, max(settings.timeout_ns // 1_000_000, 1)),
            verify_ssl=settings.access.verify_tls,
            ssl_ca_cert=settings.access.authority,
        )
        self._connections = Connections(self._client.api_client.rest_client.pool_manager)

    def write(self, lines: bytes) -> None:
        """Write points, in line protocol with times in ms; it takes no longer than `timeout_ns`."""
        from influxdb_client.service import write_service

        def post() -> int:
            # The plain call below the client's WriteApi: it tells the status.
            service: Any = write_service
            made = service.WriteService(self._client.api_client).post_write_with_http_info(
                self._settings.org, self._settings.bucket, lines, precision="ms", content_type="text/plain; charset=utf-8"
            )
            return int(made[1])

        def bounded() -> int:
            with self._connections.bounded(self._settings.timeout_ns / 1e9):
                return post()

        status = self._asked(bounded)
        if status != 204:
            raise self._error(f"answered HTTP {status} to a write, as no InfluxDB does: is the url right?", status=status)

    def flux(self, query: str) -> Iterator[dict[str, Any]]:
        """Go through the records of a Flux query; raises DatabaseError with status 403 or 404 where there is no Flux."""
        yield from self._asked(lambda: [record.values for record in self._client.query_api().query_stream(query)])

    def influxql(self, query: str) -> Iterator[Row]:
        """Go through the points of an InfluxQL query."""
        database, _, policy = self._settings.bucket.partition("/")
        parameters = [("db", database), ("q", query), ("epoch", "ms"), *([("rp", policy)] if policy else [])]
        headers = {"Accept": "application/json", **self._client.api_client.default_headers}
        answer = self._asked(
            lambda: json.loads(
                self._client.api_client.rest_client.GET(
                    f"{self._settings.url}/query", headers=headers, query_params=parameters
                ).data
            )
        )
        for result in answer.get("results", ()):
            if "error" in result:
                says = self._shown(str(result["error"]))
                raise self._error(f"refused a query: {says}", says=says)
            for series in result.get("series", ()):
                columns, tags = series["columns"], series.get("tags", {})
                for values in series.get("values", ()):
                    fields = {name: value for name, value in zip(columns, values, strict=True) if value is not None}
                    yield Row(fields.pop("time"), {key: value for key, value in tags.items() if value}, fields)

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()

    def _asked(self, ask: Any) -> Any:
        """Ask, and turn every way in which the client says no into a DatabaseError."""
        from influxdb_client.client.flux_csv_parser import FluxCsvParserException, FluxQueryException
        from influxdb_client.rest import ApiException
        from urllib3.exceptions import HTTPError

        try:
            return ask()
        except ApiException as error:
            if not error.status:
                raise self._error(f"cannot be reached: {''.join(str(error.reason).splitlines()[-1:])}") from error
            says = self._shown(_says(error.body) or str(error.reason))
            raise self._error(
                f"answered HTTP {error.status}: {says}",
                says=says,
                status=error.status,
                retry_after_s=_retry_after_s(error.headers),
            ) from error
        except FluxQueryException as error:
            says = self._shown(str(error.message))
            raise self._error(f"refused a query: {says}", says=says) from error
        except (HTTPError, OSError) as error:
            raise self._error(_why(error)) from error
        except (ValueError, LookupError, FluxCsvParserException) as error:
            # What it says may quote a header, and so the token: neither the sentence nor a traceback may show it.
            raise self._error(f"cannot be asked, or its answer not be read ({type(error).__name__})") from None

    def _error(self, what: str, **facts: Any) -> DatabaseError:
        return DatabaseError(f"InfluxDB at {self._settings.url} {printable(concealed(what, self._secrets))}", **facts)

    def _shown(self, text: str) -> str:
        """Make one line of what the server says: the token is taken out before the line is cut."""
        return shorten(concealed(text, self._secrets))


def _says(body: object) -> str:
    """Return the message of an error's body: InfluxDB 2 and 3 have `message`, 1 has `error`."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body or "")
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if isinstance(found, dict):
        text = str(found.get("message") or found.get("error") or "")
    return text


def _retry_after_s(headers: Any) -> float | None:
    ns = retry_after_ns({str(name).lower(): str(value) for name, value in (headers or {}).items()})
    return None if ns is None else ns / 1e9


def _why(error: BaseException) -> str:
    """Say in few words why there was no answer."""
    name = type(error).__name__
    if "Timeout" in name:
        return "cannot be reached: it did not answer in time" if "Connect" in name else "did not answer in time"
    deepest: BaseException = error
    while deepest.__cause__ is not None or deepest.__context__ is not None:
        deepest = deepest.__cause__ or deepest.__context__ or deepest
    strerror = getattr(deepest, "strerror", None)
    return f"cannot be reached: {str(strerror or deepest).strip() or name}"
