"""Keep other people's web pages from Locust's web UI: a WSGI layer around the whole of it.

Locust's own answers allow every origin, so any page that somebody has open could start load or read results. Here the browser's
same-origin rule holds again: what allows other origins is taken out of every answer, and what acts is refused to them.
"""

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
App = Callable[[Environ, StartResponse], Iterable[bytes]]

ACTS = ("/swarm", "/stop", "/stats/reset", "/user")
"""Paths that change something, whatever the method: in some versions of Locust a GET stops the test."""

READS = frozenset({"GET", "HEAD", "OPTIONS"})

HEADERS = (("X-Content-Type-Options", "nosniff"), ("X-Frame-Options", "SAMEORIGIN"), ("Referrer-Policy", "same-origin"))


class Guard:
    """Let browsers use the web UI from its own pages alone, and from those of `origins` ("https://lab.example:8443").

    Where the UI listens on this machine only (`loopback`), a request must also be addressed to this machine or to one of the
    origins: a name of somebody else's that points to 127.0.0.1 is another way around the same-origin rule. Programs that are no
    browsers send neither Origin nor Sec-Fetch-Site, and are let through.
    """

    def __init__(self, app: App, origins: Iterable[str] = (), *, loopback: bool = False) -> None:
        self._app = app
        self._origins = {origin.rstrip("/").lower() for origin in origins}
        self._hosts = {urlsplit(origin).netloc for origin in self._origins}
        self._loopback = loopback

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request."""
        origin = str(environ.get("HTTP_ORIGIN", "")).lower()
        refusal = self._refusal(environ, origin)

        def start(status: str, headers: list[tuple[str, str]], *rest: object) -> object:
            kept = [(name, value) for name, value in headers if not name.lower().startswith("access-control-")]
            present = {name.lower() for name, _ in kept}
            kept += [(name, value) for name, value in HEADERS if name.lower() not in present]
            if origin in self._origins:
                kept += [
                    ("Access-Control-Allow-Origin", origin),
                    ("Access-Control-Allow-Credentials", "true"),
                    ("Access-Control-Allow-Methods", "GET, POST"),
                    ("Access-Control-Allow-Headers", "content-type"),
                    ("Vary", "Origin"),
                ]
            return start_response(status, kept, *rest)

        if refusal is not None:
            start("403 Forbidden", [("Content-Type", "text/plain; charset=utf-8")])
            return [refusal.encode()]
        return self._app(environ, start)

    def _refusal(self, environ: Environ, origin: str) -> str | None:
        host = str(environ.get("HTTP_HOST", "")).lower()
        if self._loopback and host not in self._hosts and not _here(host):
            return (
                f"This web UI listens on this machine only, and was asked for as {host}. "
                "Start it with --r1-web-origin and the address that people see, or with --web-host.\n"
            )
        if origin in self._origins or not _acts(environ):
            return None
        site = environ.get("HTTP_SEC_FETCH_SITE")
        own = urlsplit(origin).netloc == host if origin else site in (None, "same-origin", "none")
        if own and site in (None, "same-origin", "none"):
            return None
        return f"Refused: the page of another site ({origin or 'unknown'}) asked for it. --r1-web-origin allows one.\n"


def _acts(environ: Environ) -> bool:
    return environ.get("REQUEST_METHOD") not in READS or str(environ.get("PATH_INFO", "")).rstrip("/").endswith(ACTS)


def _here(host: str) -> bool:
    """Tell whether a Host header names this machine as only this machine can: localhost, or a loopback address."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")
