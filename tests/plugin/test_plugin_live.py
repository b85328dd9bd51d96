"""Loads that are really sent, to the simulated endpoint: short, few, each in a pytest process of its own."""

import json
import os
import re
import shutil
import signal
import xml.etree.ElementTree as ET

import pytest
from projects import measured

from r1perf import clock
from r1perf.journal import read_requests

CHAT = """
name = "chat"
[target]
url = "simulate:tiny"
provider = "vllm"
[workload.chat]
dataset = { kind = "prompts", prompts = ["Say something."] }
max_tokens = 8
[arrivals]
kind = "constant"
rate = "20/s"
"""

ONE = """
@pytest.mark.r1_load("chat.toml", duration="2s")
@pytest.mark.r1_sla("p90(ttft) < 5s")
def test_one(): ...
"""

ALONE = ("-p", "no:locust", "-p", "no:anyio", "-p", "no:hypothesispytest")


@pytest.fixture
def live(project):
    """Give a project with a scenario of 20 requests per second."""
    project.file("chat.toml", CHAT)
    return project


def judged(project, *words, apart=False):
    """Judge, in a process of its own or in this one; return the exit code and what was said."""

    def once():
        shutil.rmtree(project.path / "runs", ignore_errors=True)
        if apart:
            return project.out("--r1-sla", *words)
        result = project.judge(*words)
        return result.ret, result.stdout.str()

    return measured(once, lambda made: made[1])


def requests(folder):
    """Return the requests of an archive."""
    return [result for path in folder.glob("requests.*.jsonl") for result in read_requests(path)]


def document(folder):
    """Return run.json."""
    return json.loads((folder / "run.json").read_text())


def until(condition, seconds=30):
    """Wait until something holds."""
    end_ns = clock.monotonic_ns() + int(seconds * 1e9)
    while not condition():
        assert clock.monotonic_ns() < end_ns, "it did not come to that"
        clock.sleep(0.05)


def test_tests_that_declare_the_same_load_share_one_run(live):
    live.tests("""
import sys, threading
LOAD = pytest.mark.r1_load("chat.toml", duration="2s")

@LOAD
@pytest.mark.r1_sla("p90(ttft) < 5s", "error_rate < 10%")
def test_one(): ...

@LOAD
@pytest.mark.r1_sla("p50(e2e) < 5s", "p95(tpot) < 1us")
def test_two(): ...

def test_nothing_is_patched():
    assert not [name for name in sys.modules if name.split(".")[0] in ("gevent", "locust", "greenlet")]
    assert "gevent" not in type(threading.Lock()).__module__
""")
    code, said = judged(live, *ALONE, "--r1-json", "out.json", apart=True)
    assert code == 1, said
    assert "1 failed, 4 passed" in said
    (folder,) = live.archives
    assert {made["archive"] for made in live.json("out.json")["verdicts"]} == {f"runs/{folder.name}"}
    # The run was told of every clause, so that each was counted exactly while it went on.
    asked = {"p90(ttft) < 5s", "error_rate < 10%", "p50(e2e) < 5s", "p95(tpot) < 1us"}
    assert {made["clause"] for made in document(folder)["sla"]} == asked
    assert "r1perf: chat on the simulated endpoint" in said
    assert f"r1perf: chat is in runs/{folder.name}" in said
    assert said.count("r1perf: chat on ") == 1


@pytest.mark.parametrize("capture", ["fd", "no"])
def test_a_terminal_gets_one_line_that_is_rewritten(live, capture):
    live.tests(ONE + "\ndef test_after(): print('a line of the test')")
    ours, theirs = os.openpty()
    process = live.start("--r1-sla", f"--capture={capture}", stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 1 << 16):
            said += data
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        process.wait(timeout=30)
    text = said.decode()
    assert re.search(r"\rr1perf: running \| \d\S* s", text), text
    assert text.count("\rr1perf: running |") >= 2, text
    assert re.search(r"r1perf: chat is in runs/\S+\r?\n", text), text
    assert ("a line of the test" in text) == (capture == "no")


def test_a_target_that_refuses_is_an_error_for_every_clause_and_tried_once(live):
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="2s", url="http://127.0.0.1:9/v1", model="m")
@pytest.mark.r1_sla("p90(ttft) < 5s", "error_rate < 10%")
def test_one(): ...
""")
    code, said = judged(live)
    assert code == 1
    assert "2 errors" in said
    assert said.count("r1perf: chat on http://127.0.0.1:9/v1") == 1
    assert re.search(r"the load of chat on http://127\.0\.0\.1:9/v1, \S+ was not sent: .*refused", said), said
    assert "Traceback" not in said
    assert live.archives == []


def test_a_clause_that_the_target_cannot_be_judged_by_is_said_before_anything_is_sent(live):
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="2s")
@pytest.mark.r1_sla("cost_per_1m(output_tokens) < $2")
def test_one(): ...
""")
    code, said = judged(live)
    assert code == 1
    assert "a cost needs `target.price`" in said
    assert live.archives == []


def test_targets_by_name_have_runs_of_their_own(live):
    live.file("targets.toml", '[quick]\nurl = "simulate:tiny?speed=10"\n[slowed]\nurl = "simulate:tiny?speed=0.3"\n')
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="2s")
@pytest.mark.r1_sla("p50(tpot) < 10ms")
@pytest.mark.parametrize("r1_target", ["quick", "slowed"])
def test_one(r1_run, r1_target): assert r1_run.document.target == r1_target
""")
    code, said = judged(live, "-o", "r1_targets=targets.toml")
    assert code == 1, said
    assert "ok    p50(tpot) < 10ms  [quick]" in said
    assert "FAIL  p50(tpot) < 10ms  [slowed]" in said
    assert len(live.archives) == 2


def test_a_name_that_no_file_knows_is_said(live):
    live.tests(ONE)
    code, said = judged(live, "--r1-target", "vllm")
    assert code == 1
    assert "r1_target: unknown target `vllm`; there is no r1_targets file that says where it is" in said


def test_a_target_may_come_from_a_server_that_a_fixture_started(live, simulator):
    live.file("conftest.py", f"""
import pytest
@pytest.fixture(scope="session")
def r1_target(): return {{"name": "mine", "url": "{simulator.url}", "model": "deepseek-r1"}}
""")  # fmt: skip
    live.tests(ONE)
    code, said = judged(live, "-q")
    assert code == 0, said
    assert "p90(ttft) < 5s  [mine]" in said
    assert "r1perf:" not in said  # quiet: nothing while it loads


def test_a_budget_of_requests_is_a_hard_stop_and_leaves_the_verdict_open(live):
    live.tests(ONE.replace("2s", "30s") + ONE.replace("2s", "20s").replace("test_one", "test_two"))
    code, said = judged(live, "--r1-max-requests", "25", "--r1-json", "out.json")
    assert code == 1, said
    assert "2 inconclusive" in said
    (folder,) = live.archives
    assert len(requests(folder)) == 25
    says = {made["test"].partition("::")[2]: made["verdict"]["says"] for made in live.json("out.json")["verdicts"]}
    assert "the limit of 25 requests is reached" in says["test_one[p90(ttft)<5s]"]
    assert says["test_two[p90(ttft)<5s]"] == "--r1-max-requests: 25 requests are sent, so nothing more was"


def test_a_budget_of_money_is_a_hard_stop(live):
    priced = CHAT.replace(
        'url = "simulate:tiny"', 'url = "simulate:tiny"\nprice = { input_per_1m = 0.0, output_per_1m = 1000.0 }'
    )
    live.file("chat.toml", priced)
    live.tests(ONE.replace("2s", "30s"))
    code, said = judged(live, "--r1-max-cost", "0.10USD")
    assert code == 1, said
    assert "1 inconclusive" in said
    (folder,) = live.archives
    assert 0.08 < document(folder)["cost"]["usd"] <= 0.10  # each is reserved at 8 tokens of $0.001
    assert "the limit of $0.1 could be passed" in document(folder)["reason"]


def test_a_budget_of_money_needs_prices(live):
    live.tests(ONE)
    code, said = judged(live, "--r1-max-cost", "5")
    assert code == 1
    assert (
        "p90(ttft) < 5s  [simulated tiny]  --r1-max-cost: `stop.cost`: cannot be kept without `target.price.input_per_1m`" in said
    )
    assert live.archives == []


def test_runs_of_one_side_are_repeated_as_far_as_the_budget_goes_and_the_command_line_wins_over_the_marker(live):
    live.tests(ONE.replace('duration="2s"', 'duration="30s", repeat=3'))
    code, said = judged(live, "--r1-set", "duration=2s", "--r1-max-requests", "80")
    assert [len(requests(folder)) for folder in live.archives] == [40, 40]
    assert "run 2 of 3" in said
    assert code == 1, said  # two runs pass, and the third was not paid for
    assert "?     p90(ttft) < 5s  --r1-max-requests: 80 requests are sent, so nothing more was" in said


def test_failing_fast_ends_a_load_whose_clause_cannot_pass_any_more(live):
    live.tests("""
@pytest.mark.r1_load("chat.toml", duration="15s")
@pytest.mark.r1_sla("p95(tpot) < 1us", "error_rate < 10%")
def test_one(): ...
""")
    code, said = judged(live, "--r1-fail-fast")
    assert code == 1, said
    assert "1 failed, 1 inconclusive" in said
    assert len(requests(live.archives[0])) < 300


def begun(live, *words, requests_least=5):
    """Start a long load and wait until requests have ended."""
    process = live.start("--r1-sla", *words)
    until(lambda: any(len(requests(folder)) >= requests_least for folder in live.archives) or process.poll() is not None)
    return process


def test_ctrl_c_ends_the_load_and_leaves_the_archive_complete(live):
    live.tests(ONE.replace("2s", "60s").replace("p90(ttft) < 5s", "p90(ttft)<5s") + "\ndef test_after(): ...")
    live.tests(ONE.replace("5s", "4s").replace("2s", "60s"), "test_last.py")
    process = begun(live, "-x", "--r1-json", "out.json", "--junitxml", "junit.xml")
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, said
    (folder,) = live.archives
    assert f"r1perf: chat is in runs/{folder.name}" in said
    verdicts = live.json("out.json")["verdicts"]
    assert {(one["clause"], one["target"]) for one in verdicts} == {(f"p90(ttft) < {n}s", "simulated tiny") for n in (4, 5)}
    made = {(one["test"].partition("::")[2], one["ruling"], one["archive"]) for one in verdicts}
    assert made == {
        ("test_one[p90(ttft)<5s]", "error", f"runs/{folder.name}"),
        ("test_one[p90(ttft)<4s]", "error", f"runs/{folder.name}"),
    }
    (case,) = ET.parse(live.path / "junit.xml").getroot().iter("testcase")
    assert "did not come to its end: " in case.find("error").get("message")
    assert f"runs/{folder.name}" in [each.get("value") for each in case.iter("property")]
    assert document(folder)["status"] == "interrupted"
    assert document(folder)["counts"]["in_flight"] == 0
    assert len(requests(folder)) == document(folder)["counts"]["scheduled"]
    assert "r1perf: interrupted: the load ends and its archive is completed" in said
    assert "KeyboardInterrupt" in said
    assert "Traceback" not in said


SLOW = CHAT.replace("max_tokens = 8", "max_tokens = 5000").replace("simulate:tiny", "simulate:slow").replace('"20/s"', '"5/s"')


def test_a_second_ctrl_c_cuts_what_is_in_flight(live):
    live.file("chat.toml", SLOW)
    live.tests(ONE.replace("2s", "60s"))
    process = live.start("--r1-sla")
    until(
        lambda: any(
            (folder / "snapshots.0").stat().st_size > 1000 for folder in live.archives if (folder / "snapshots.0").exists()
        )
    )
    process.send_signal(signal.SIGINT)
    clock.sleep(0.5)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=30)
    assert process.returncode == pytest.ExitCode.INTERRUPTED, said
    assert document(live.archives[0])["counts"]["cancelled"] > 0
    assert "r1perf: interrupted again: cut now" in said


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "terminated"])
def test_a_load_ends_with_its_pytest_whatever_ended_that(live, number):
    live.file("chat.toml", SLOW)
    live.tests(ONE.replace("2s", "60s"))
    process = live.start("--r1-sla")
    until(
        lambda: any(
            (folder / "snapshots.0").stat().st_size > 1000 for folder in live.archives if (folder / "snapshots.0").exists()
        )
    )
    process.send_signal(number)
    process.communicate(timeout=10)
    until(lambda: document(live.archives[0])["status"] == "interrupted", 20)
    assert document(live.archives[0])["counts"]["in_flight"] == 0
