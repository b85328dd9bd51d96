"""A request as bytes."""

import re

from r1perf.errors import UsageError
from r1perf.transport import HttpRequest
from r1perf.transport.origin import Origin

_OURS = frozenset({"content-length", "transfer-encoding"})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
_PATH = re.compile(r"[!-~]+")


def check(request: HttpRequest) -> None:
    """Raise UsageError where a request cannot be written as HTTP/1.1, before anything is sent."""
    if not _PATH.fullmatch(request.path):
        raise UsageError(f'the path "{request.path}" holds a character that must be percent-encoded')
    for name, value in request.headers:
        if not _TOKEN.fullmatch(name):
            raise UsageError(f'"{name}" is not the name of a header')
        if name.lower() in _OURS:
            raise UsageError(f"the header {name} cannot be set: it follows from the body")
        if not _VALUE.fullmatch(value) or not value.isascii():
            raise UsageError(f"the value of header {name} holds a line break or a character that is not ASCII")


def render(request: HttpRequest, origin: Origin, absolute: bool = False, extra: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Write head and body; `absolute` names the whole URL in the request line, as a proxy wants it (RFC 9112, 3.2.2)."""
    path = f"{origin.scheme}://{origin.authority}{request.path}" if absolute else request.path
    lines = [f"{request.method} {path} HTTP/1.1"]
    headers = (*request.headers, *extra)
    if not any(name.lower() == "host" for name, _ in headers):
        lines.append(f"Host: {origin.authority}")
    lines += [f"{name}: {value}" for name, value in headers]
    if request.body or request.method in {"POST", "PUT", "PATCH"}:
        lines.append(f"Content-Length: {len(request.body)}")
    return "\r\n".join([*lines, "\r\n"]).encode("ascii") + request.body
