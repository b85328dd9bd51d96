"""Where requests go: the origin of a URL, and the proxy that the environment puts before it."""

import base64
import ipaddress
import urllib.request
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from r1perf.errors import TargetError

_PORTS = {"http": 80, "https": 443}


class Origin(msgspec.Struct, frozen=True):
    """Scheme, host and port of a target."""

    scheme: Literal["http", "https"]
    host: str  # an IPv6 address without its brackets
    port: int

    @property
    def authority(self) -> str:
        """Return host and port as the Host header has them: no default port, brackets around IPv6 (RFC 9110, 7.2)."""
        return self.address if self.port != _PORTS[self.scheme] else _bracketed(self.host)

    @property
    def address(self) -> str:
        """Return host and port, always both."""
        return f"{_bracketed(self.host)}:{self.port}"


class Proxy(msgspec.Struct, frozen=True):
    """An HTTP proxy. `authorization` is a whole header value and is never shown."""

    host: str
    port: int
    authorization: str | None = None

    def __repr__(self) -> str:
        """Show no credentials."""
        return f"Proxy({self.address})"

    @property
    def address(self) -> str:
        """Return host and port."""
        return f"{_bracketed(self.host)}:{self.port}"


def parse_origin(url: str) -> Origin:
    """Read a target's URL; raises TargetError with one sentence where it is none."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise TargetError(f'"{url}" is not a URL: {error}') from error
    scheme, host = parts.scheme, parts.hostname
    if scheme not in _PORTS or not host:
        raise TargetError(f'"{url}" is not the URL of a target: it must begin with http:// or https:// and name a host')
    if parts.username is not None:
        raise TargetError(f"the URL of a target must not hold credentials (host {host}); name the key in `target.api_key_env`")
    try:
        host = host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise TargetError(f'"{url}" is not a URL: {host} is not the name of a host') from None
    return Origin("https" if scheme == "https" else "http", host, port or _PORTS[scheme])


def proxy_for(origin: Origin) -> Proxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY (or their lower case) ask for, or None.

    This machine itself is never asked through one: the proxy would ask another machine. Raises TargetError for a proxy that
    is not spoken to over plain HTTP.
    """
    if is_loopback(origin.host):
        return None
    proxies = urllib.request.getproxies()
    url = proxies.get(origin.scheme) or proxies.get("all")
    if not url or urllib.request.proxy_bypass(origin.address):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host:
        raise TargetError(
            f"the proxy that the environment names for {origin.scheme} is not a URL (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY)"
        )
    if parts.scheme != "http":
        raise TargetError(
            f"the environment names a {parts.scheme} proxy at {host} for {origin.scheme}: only http:// proxies are supported;"
            " unset it, or list the target in NO_PROXY"
        )
    if parts.username is None:
        return Proxy(host, port or 80)
    user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(host, port or 80, "Basic " + base64.b64encode(user.encode()).decode("ascii"))


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine: localhost, 127.0.0.0/8 or ::1."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
