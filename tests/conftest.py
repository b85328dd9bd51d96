"""What every test may use: paths, servers, the hypothesis profile, and a closing line on what was left out."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import services
from influx import InfluxDb
from services import SHARED, Service, missing, pytest_terminal_summary

hypothesis.settings.register_profile("default", deadline=None)  # a shared machine is slow at times
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True, database=None, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

__all__ = ["pytest_terminal_summary"]  # the hook

for name in [name for name in os.environ if name.startswith("INFLUXDB_V2_")]:
    del os.environ[name]  # runs of the tests must not go to the database of whoever starts them

Start = Callable[..., Service]


@pytest.fixture(scope="session")
def shared() -> Path:
    """Give the folder of shared files beside the repository: data, facts, bench."""
    if not SHARED.is_dir():
        missing("shared")
    return SHARED


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Give the simulated endpoint as it comes, shared by the whole session."""
    yield from _started(partial(services.simulator, tmp_path_factory.mktemp("simulator") / "log"))


@pytest.fixture
def start_simulator(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts a simulated endpoint of the test's own: `start_simulator("--profile", "tiny")`."""
    yield from _starter(services.simulator, tmp_path)


@pytest.fixture(scope="session")
def sseserver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Give the server that keeps an exact timetable: TTFT 100 ms, gaps of 20 ms; `GET /stats` and `POST /reset`."""
    log = tmp_path_factory.mktemp("sseserver") / "log"
    yield from _started(partial(services.sseserver, log, "--ttft-ms", "100", "--itl-ms", "20"))


@pytest.fixture
def start_sseserver(tmp_path: Path) -> Iterator[Start]:
    """Give a function that starts one with other times: `start_sseserver("--ttft-ms", "5")`."""
    yield from _starter(services.sseserver, tmp_path)


@pytest.fixture(scope="session")
def llama_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Give a real LLM server with a small model."""
    yield from _started(partial(services.llama_server, tmp_path_factory.mktemp("llama") / "log"))


@pytest.fixture(scope="session")
def influxdb2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxDb]:
    """Give a real InfluxDB 2; `bucket()` makes a bucket for a test."""
    server = InfluxDb(2, tmp_path_factory.mktemp("influxdb2"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def influxdb1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InfluxDb]:
    """Give a real InfluxDB 1.8 that has Flux."""
    server = InfluxDb(1, tmp_path_factory.mktemp("influxdb1"))
    yield server
    server.stop()


@pytest.fixture(params=["influxdb2", "influxdb1"])
def influxdb(request: pytest.FixtureRequest) -> InfluxDb:
    """Give one after the other, for tests that hold for both."""
    server: InfluxDb = request.getfixturevalue(request.param)
    return server


def _started(start: Callable[[], Service]) -> Iterator[Service]:
    service = start()
    yield service
    service.stop()


def _starter(start: Start, folder: Path) -> Iterator[Start]:
    running: list[Service] = []

    def one(*flags: str) -> Service:
        running.append(start(folder / f"{start.__name__}-{len(running)}.log", *flags))
        return running[-1]

    yield one
    for service in running:
        service.stop()
