"""What the plugin costs those who do not use it, and what it keeps out of the test process."""

import pytest

HEAVY = (
    "numpy",
    "scipy",
    "msgspec",
    "hdrh",
    "gevent",
    "locust",
    "r1perf.sla",
    "r1perf.scenario",
    "r1perf.launch",
    "asyncio",
    "ssl",
)

SHOWS = """
import sys
def test_it():
    loaded = sorted(name for name in {heavy!r} if name in sys.modules)
    assert loaded == [], loaded
    assert [name for name in sys.modules if name.split(".")[0] == "r1perf"] in ([], ["r1perf"])
"""

MARKED = """
@pytest.mark.r1_load("nowhere.toml")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_marked(): ...
"""

# Other plugins of the environment load what they like.
ALONE = ("-p", "no:locust", "-p", "no:anyio", "-p", "no:hypothesispytest")


def ours(said):
    """Return the lines that speak of us, apart from pytest's own list of plugins."""
    return [line for line in said.splitlines() if ("SLA" in line or "r1perf" in line) and not line.startswith("plugins: ")]


def test_a_unit_run_loads_nothing_and_prints_nothing(project):
    project.tests(SHOWS.format(heavy=HEAVY) + MARKED)
    code, said = project.out(*ALONE)
    assert code == 0, said
    assert "1 passed, 1 skipped" in said
    assert ours(said) == []


def test_no_gevent_and_no_patched_module_gets_into_a_judging_process(project):
    project.record()
    project.tests("""
import sys, threading, socket
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_it(): ...

def test_after():
    assert not [name for name in sys.modules if name.split(".")[0] in ("gevent", "locust", "greenlet")]
    assert "gevent" not in type(threading.Lock()).__module__
    assert "gevent" not in socket.socket.__module__
""")
    code, said = project.out(*ALONE, "--r1-sla")
    assert code == 0, said
    assert "2 passed" in said


@pytest.mark.parametrize("words", [(), ("--r1-sla",)], ids=["unit-run", "gate"])
def test_a_session_without_marked_tests_prints_nothing_of_ours(project, words):
    project.tests("def test_unit(): ...")
    result = project.run(*words)
    result.assert_outcomes(passed=1)
    assert ours(result.stdout.str()) == []
