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
    fault = path_fault(request.path)
    if fault is not None:
        raise UsageError(f'the path "{request.path}" {fault}')
    for name, value in request.headers:
        fault = header_fault(name, value)
        if fault is not None:
            raise UsageError(f"the header {name} {fault}")


def path_fault(path: str) -> str | None:
    """Say why a path, with its query, cannot be written; None where it can."""
    return None if _PATH.fullmatch(path) else "holds a character that must be percent-encoded"


def header_fault(name: str, value: str) -> str | None:
    """Say why a header cannot be written; None where it can. The value is never shown: it may be a key."""
    if not _TOKEN.fullmatch(name):
        return "has a character in its name that no header's name may have"
    if name.lower() in _OURS:
        return "cannot be set: it follows from the body"
    if not _VALUE.fullmatch(value) or not value.isascii():
        return "has a line break or a character that is not ASCII in its value"
    return None


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
