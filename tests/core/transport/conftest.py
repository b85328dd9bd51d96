"""A real loop, and transports that are closed when their test ends."""

import pytest
from exchanges import MS

from r1perf.loop.gevent import GeventLoop
from r1perf.transport.http import HttpTransport


@pytest.fixture
def loop():
    return GeventLoop()


@pytest.fixture
def connected(loop, monkeypatch):
    """Make transports to a port that are closed at the end, without the machine's proxies."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = []

    def connect(port, *, host="127.0.0.1", scheme="http", connect_ms=5_000, **options):
        made.append(HttpTransport(loop, f"{scheme}://{host}:{port}/v1", connect_timeout_ns=connect_ms * MS, **options))
        return made[-1]

    yield connect
    for transport in made:
        transport.close()
