"""Read HOST:PORT."""

from r1perf.errors import UsageError

PORT = 5557
"""Locust's own."""


def address(text: str) -> tuple[str, int]:
    """Return host and port of "HOST:PORT", "HOST" or "[IPv6]:PORT"; raises UsageError."""
    host, colon, port = text.rpartition(":")
    if not colon or (text.count(":") > 1 and not host.endswith("]")):
        host, port = text, str(PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f'"{text}" is not HOST:PORT, as 10.0.0.1:{PORT}')
    return host, int(port)
