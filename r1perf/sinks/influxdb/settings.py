"""Find out which InfluxDB is meant: from the scenario's table, then from the environment, under the client's own names."""

from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

import msgspec

from r1perf.errors import UsageError
from r1perf.scenario import InfluxDb
from r1perf.transport.request import header_fault, path_fault

URL, ORG, BUCKET, TOKEN = "INFLUXDB_V2_URL", "INFLUXDB_V2_ORG", "INFLUXDB_V2_BUCKET", "INFLUXDB_V2_TOKEN"
VERIFY, AUTHORITY = "INFLUXDB_V2_VERIFY_SSL", "INFLUXDB_V2_SSL_CA_CERT"

QUERY_NS = 120_000_000_000
"""How long a server may take to answer a query: a whole run is read at once."""


class Token(str):
    """A secret that does not show itself in a representation."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Show nothing of it."""
        return "Token(...)"


class Access(msgspec.Struct, frozen=True):
    """What lets us in."""

    token: Token
    verify_tls: bool = True
    authority: str | None = None  # a file of certificates, where it is not one that the system knows


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A server, a bucket in it, and how to write there."""

    url: str
    org: str = "-"
    bucket: str
    access: Access
    interval_ns: int = 10_000_000_000
    timeout_ns: int = 5_000_000_000
    deadline_ns: int = 10_000_000_000
    spool_bytes: int = 1024 << 20

    @property
    def caution(self) -> str | None:
        """What people are to be told once."""
        if self.url.startswith("https:") and not self.access.verify_tls:
            return f"the certificate of InfluxDB is not verified, as {VERIFY} says: anybody in between can read the token"
        return None


def settings(table: InfluxDb | None, environ: Mapping[str, str]) -> Settings | None:
    """Return where a run is to be written; None where neither the scenario nor the environment names a server.

    Raises UsageError for what is missing, in one sentence.
    """
    if table is None and not environ.get(URL):
        return None
    given = table or InfluxDb()
    return Settings(
        url=_needed(given.url, environ, URL, "sinks.influxdb.url"),
        org=given.org or environ.get(ORG) or "-",
        bucket=_needed(given.bucket, environ, BUCKET, "sinks.influxdb.bucket"),
        interval_ns=int(given.interval),
        timeout_ns=int(given.timeout),
        deadline_ns=int(given.deadline),
        spool_bytes=given.spool_mb << 20,
        access=_access(environ, given.token_env),
    )


def server(environ: Mapping[str, str], bucket: str) -> Settings:
    """Return where to read a bucket, from the environment alone; raises UsageError for what is missing."""
    return Settings(
        url=_needed(None, environ, URL, None),
        org=environ.get(ORG) or "-",
        bucket=bucket,
        timeout_ns=QUERY_NS,
        access=_access(environ, TOKEN),
    )


def _needed(given: str | None, environ: Mapping[str, str], name: str, path: str | None) -> str:
    value = given or environ.get(name, "").strip()
    if not value:
        raise UsageError(
            f"`{path}`: is missing, and {name} is not set in the environment" if path else f"{name} is not set in the environment"
        )
    if name == URL:
        check_url(value, f"`{path}`" if given else name)
    return value.rstrip("/") if name == URL else value


def check_url(url: str, where: str) -> None:
    """Raise UsageError where `where` holds no URL, or one with more than the server's address in it: it is written down and shown."""
    if "@" in url:  # never shown: it may hold a password
        raise UsageError(f"{where}: must not carry a user or password; the token has a variable of its own, {TOKEN}")
    if "?" in url or "#" in url:
        raise UsageError(f"{where}: must not carry a query or a fragment, only the server's address")
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != -1
    except ValueError:  # brackets that do not match, a port that is none
        good = False
    if not good or path_fault(url) is not None:
        raise UsageError(f'{where}: "{url}" is not a url such as "http://127.0.0.1:8086"')


def _access(environ: Mapping[str, str], token_env: str) -> Access:
    token = environ.get(token_env, "").strip()
    if not token:
        raise UsageError(f"the environment variable {token_env} is not set; it is to hold the token for InfluxDB")
    if header_fault("Authorization", token) is not None:
        raise UsageError(
            f"the token for InfluxDB in the environment variable {token_env} holds a line break or a character that is not ASCII"
        )
    authority = environ.get(AUTHORITY) or None
    if authority is not None:
        from r1perf.transport.tls import authority_fault  # and ssl: where gevent patches, that must come later

        if (fault := authority_fault(authority)) is not None:
            raise UsageError(f'{AUTHORITY}: "{authority}" {fault}')
    if find_spec("influxdb_client") is None:
        raise UsageError("InfluxDB needs the package influxdb-client; install it with: pip install 'r1perf[influxdb]'")
    verify = environ.get(VERIFY, "").strip().lower() not in ("false", "0", "no")
    return Access(Token(token), verify, authority)
