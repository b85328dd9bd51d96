"""The plugin under every pytest that it supports, with xdist, rerunfailures and asyncio beside it, warnings being errors."""

import os
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from projects import STRICT
from pytests import VERSIONS, python
from services import ROOT

BESIDE = ("-o", "asyncio_default_fixture_loop_scope=function")  # else pytest-asyncio warns of its own future
APART = ("-p", "no:locust", "-p", "no:anyio", "-p", "no:hypothesispytest")  # of the environment behind: they take time

CHOSEN = (VERSIONS[0], VERSIONS[-1]) if os.environ.get("CI") else VERSIONS

THREE = """
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "p90(ttft) < 800ms", "error_rate < 5%")
def test_chat(): ...
"""

RULINGS = {
    "test_chat[p95(ttft)<800ms]": "fail",
    "test_chat[p90(ttft)<800ms]": "inconclusive",
    "test_chat[error_rate<5%]": "pass",
}


@pytest.fixture(scope="module", params=CHOSEN)
def interpreter(request):
    """Give an environment with each pytest."""
    return python(request.param)


@pytest.mark.parametrize("interpreter", [VERSIONS[-1]], indirect=True)
def test_the_example_runs_beside_asyncio(project, interpreter):
    folder = project.path / "downstream"
    shutil.copytree(ROOT / "examples" / "downstream", folder)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
    command = [interpreter, "-m", "pytest", "-p", "no:locust"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env=kept, timeout=90)
    assert "asyncio-" in ran.stdout
    assert (ran.returncode, "1 passed, 3 skipped" in ran.stdout) == (0, True), ran.stdout + ran.stderr


@pytest.fixture
def under(project, interpreter):
    """Run that pytest in a project; return its exit code and output."""

    def run(*words, **env):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_"))}
        ran = subprocess.run(
            [interpreter, "-m", "pytest", *STRICT, *BESIDE, *APART, *words],
            cwd=project.path, capture_output=True, text=True, check=False, env=kept | env, timeout=90,
        )  # fmt: skip
        assert "INTERNALERROR" not in ran.stdout + ran.stderr, ran.stdout + ran.stderr
        return ran.returncode, ran.stdout + ran.stderr

    return run


def rulings(project):
    return {made["test"].partition("::")[2]: made["ruling"] for made in project.json("out.json")["verdicts"]}


def test_verdicts_junit_and_asyncio(project, under):
    project.record(slow=21)
    project.tests(THREE + """
import asyncio

@pytest.mark.asyncio
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p50(ttft) < 800ms")
async def test_marked(): await asyncio.sleep(0)

@pytest.mark.asyncio
@pytest.mark.r1_recorded("runs/one")
async def test_body(r1_run):
    await asyncio.sleep(0)
    r1_run.check("error_rate < 5%").require()
    assert r1_run.document.counts["ok"] == 200

def test_unit(): ...
""")  # fmt: skip
    code, said = under("--r1-sla", "--r1-json", "out.json", "--junitxml", "junit.xml")
    assert code == 1, said
    assert rulings(project) == RULINGS | {"test_marked[p50(ttft)<800ms]": "pass", "test_body": "pass"}
    assert "1 failed, 4 passed, 1 inconclusive" in said
    cases = list(ET.parse(project.path / "junit.xml").getroot().iter("testcase"))
    assert [len(list(case.iter("property"))) for case in cases] == [13, 13, 13, 13, 13, 0]


def test_without_the_flag_nothing_runs(project, under):
    project.tests(THREE + "def test_unit(): ...")
    code, said = under()
    assert (code, "1 passed, 3 skipped" in said) == (0, True), said


def test_xdist_judges_recorded_runs_and_the_controller_alone_reports(project, under):
    project.record(slow=21)
    project.tests(THREE)
    summary = project.file("summary.md", "")
    words = ("--r1-sla", "-n", "2", "--r1-json", "out.json", "--junitxml", "junit.xml")
    code, said = under(*words, GITHUB_STEP_SUMMARY=str(summary))
    assert code == 1, said
    assert rulings(project) == RULINGS
    assert "1 failed, 1 passed, 1 inconclusive" in said
    assert said.count(" SLA verdicts ") == 1
    assert summary.read_text().count("### SLA verdicts") == 1
    assert "SLA FAIL  p95(ttft) < 800ms   [target=vllm]\n  observed   p95 = 900 ms" in said
    cases = {case.get("name"): case for case in ET.parse(project.path / "junit.xml").getroot().iter("testcase")}
    assert cases.keys() == RULINGS.keys()
    assert all(len(list(case.iter("property"))) == 13 for case in cases.values())


def test_xdist_refuses_a_load_in_the_controller(project, under):
    project.tests("""
@pytest.mark.r1_load("chat", rate="5/s", duration="2s")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_chat(): ...

def test_unit(): ...
""")
    code, said = under("--r1-sla", "-n", "1")
    assert code == 4, said
    assert "ERROR: a load cannot be sent under xdist: several workers would each send it" in said


def test_xdist_judges_recorded_runs_of_a_file_that_has_loads_too(project, under):
    project.record()
    project.tests("""
@pytest.mark.r1_load("chat", rate="5/s", duration="2s")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_chat(): ...

@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_recorded(): ...
""")
    code, said = under("--r1-sla", "-n", "2", "-k", "recorded")
    assert (code, "1 passed" in said) == (0, True), said


def test_a_verdict_is_never_run_again(project, under):
    project.record(slow=21)
    project.tests(THREE + """
@pytest.mark.flaky(reruns=3)
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p80(ttft) < 1ms")
def test_own(): ...

tries = []
def test_flaky():
    tries.append(1)
    assert len(tries) == 3
""")  # fmt: skip
    code, said = under("--r1-sla", "--reruns", "2", "--junitxml", "junit.xml")
    assert code == 1, said
    assert "2 failed, 2 passed, 1 inconclusive, 2 rerun" in said, said
    cases = [case for case in ET.parse(project.path / "junit.xml").getroot().iter("testcase") if "flaky" not in case.get("name")]
    assert [case.get("name") for case in cases] == [*RULINGS, "test_own[p80(ttft)<1ms]"]
    assert [len(list(case.iter("property"))) for case in cases] == [13, 13, 13, 13]


@pytest.mark.parametrize("interpreter", [VERSIONS[0]], indirect=True)  # test_plugin_live.py sends more with the newest
def test_a_load(project, under):
    project.file("chat.toml", """
name = "chat"
[target]
url = "simulate:tiny"
[workload.chat]
dataset = { kind = "prompts", prompts = ["Say something."] }
max_tokens = 8
[arrivals]
kind = "constant"
rate = "40/s"
duration = "1s"
""")  # fmt: skip
    project.tests("""
@pytest.mark.r1_load("chat.toml")
@pytest.mark.r1_sla("p90(ttft) < 5s", "error_rate < 10%")
def test_chat(): ...
""")
    code, said = under("--r1-sla")
    assert (code, "2 passed" in said) == (0, True) or ("is invalid" in said and "2 errors" in said), said
    assert len(project.archives) == 1


def test_a_wrong_marker_is_an_error_of_collection(project, under):
    project.tests('@pytest.mark.r1_load("chat", rats="8/s")\ndef test_it(): ...')
    code, said = under()
    assert code == 2, said
    assert "r1_load: unknown argument `rats`; did you mean `rate`?" in said
