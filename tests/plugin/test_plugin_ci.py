"""The files of docs/ci.md, step by step, in the project of `examples/downstream`, with r1perf installed from its wheel."""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from projects import measured
from pytests import empty, pip, pip_for
from rulings import fail_at_least, pass_at_most
from services import CACHE, ROOT

from r1perf import __version__
from r1perf.sla.binomial import attempts_to_pass
from r1perf.sla.special import beta_cdf

PAGE = (ROOT / "docs" / "ci.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
GITHUB, GITLAB, COMPARE = (yaml.safe_load(block) for block in BLOCKS)

STEPS = {
    "github": [step["run"] for step in GITHUB["jobs"]["sla"]["steps"] if "run" in step],
    "gitlab": GITLAB["sla"]["script"],
}
SHELL = ("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c")
"""How a runner runs a step."""
ENV = {"github": GITHUB["jobs"]["sla"]["env"], "gitlab": GITLAB["sla"]["variables"]}


def test_both_files_run_the_same_lines():
    assert len(STEPS["github"]) == 3
    assert STEPS["github"] == STEPS["gitlab"]


def test_what_the_files_keep_is_what_the_lines_write():
    kept = next(step["with"]["path"].split() for step in GITHUB["jobs"]["sla"]["steps"] if "path" in step.get("with", {}))
    artifacts = GITLAB["sla"]["artifacts"]
    assert set(kept) == {"runs", "sla.xml", "sla.json"} == {*artifacts["paths"], artifacts["reports"]["junit"]}


class Stranger:
    """A project that has nothing but our wheel, in an environment of its own."""

    def __init__(self, folder: Path, environment: Path, wheels: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "examples" / "downstream", folder)
        # A runner's `pip` is that of the environment; ours has none in it, and takes r1perf from the wheel that was just built.
        shim = folder.parent / "bin" / "pip"
        shim.parent.mkdir(exist_ok=True)
        command = shlex.join(map(str, pip_for(environment / "bin" / "python")))
        shim.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        shim.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GITHUB_", "COV", "PYTHON"))}
        self.env = kept | {
            "PATH": f"{shim.parent}:{environment}/bin:{os.environ['PATH']}", "VIRTUAL_ENV": str(environment),
            "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "CI": "true", "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        }  # fmt: skip

    def step(self, line: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run one step as a runner does."""
        return subprocess.run(
            [*SHELL, line],
            cwd=self.folder, env=self.env | env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120,
        )  # fmt: skip

    def judge(self, line: str, **env: str) -> "subprocess.CompletedProcess[str]":
        """Run a step that loads."""

        def once() -> "subprocess.CompletedProcess[str]":
            shutil.rmtree(self.folder / "runs", ignore_errors=True)
            return self.step(line, **env)

        return measured(once, lambda ran: ran.stdout)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory):
    """Build the wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="session")
def environment(wheels):
    """Give an environment that has what r1perf depends on, and not r1perf."""
    asked = (ROOT / "pyproject.toml").read_text() + (ROOT / "constraints.txt").read_text() + sys.version
    folder = CACHE / "downstream" / hashlib.sha256(asked.encode()).hexdigest()[:12]
    interpreter = folder / "bin" / "python"
    (wheel,) = wheels.glob("*.whl")
    if not (folder / "ready").exists():
        empty(folder)
        installed = pip(
            interpreter, "install", "--quiet", "--constraint", ROOT / "constraints.txt", f"r1perf[pytest] @ {wheel.as_uri()}"
        )
        if installed.returncode:
            shutil.rmtree(folder)
            pytest.skip(f"what r1perf depends on cannot be installed: {installed.stderr.strip().splitlines()[-1]}")
        (folder / "ready").touch()
    pip(interpreter, "uninstall", "--quiet", "--yes", "r1perf")
    return folder


@pytest.fixture(scope="session")
def stranger(tmp_path_factory, environment, wheels):
    """Give a project that has carried out the first step."""
    made = Stranger(tmp_path_factory.mktemp("stranger") / "project", environment, wheels)
    installed = made.step(STEPS["github"][0])
    assert installed.returncode == 0, installed.stdout
    return made


def test_the_wheel_alone_makes_the_flag_work(stranger):
    shown = stranger.step("python -P -c 'import pytest_r1perf, r1perf; print(pytest_r1perf.__file__, r1perf.__file__)'")
    assert "site-packages" in shown.stdout
    assert str(ROOT / "pytest_r1perf") not in shown.stdout
    ran = stranger.step("pytest")
    assert f"plugins: r1perf-{__version__}" in ran.stdout
    assert (ran.returncode, "1 passed, 3 skipped" in ran.stdout) == (0, True), ran.stdout


def test_the_plan_sends_nothing(stranger):
    shutil.rmtree(stranger.folder / "runs", ignore_errors=True)
    ran = stranger.step(STEPS["github"][1], **ENV["github"] | {"TARGET": "simulated"})
    assert ran.returncode == 0, ran.stdout
    assert "gate on simulated" in ran.stdout
    assert "p95(ttft) < 400ms  needs 59 requests if none misses" in ran.stdout
    assert not (stranger.folder / "runs").exists()


def test_a_promise_that_is_kept_is_exit_code_0(stranger):
    ran = stranger.judge(STEPS["github"][2], TARGET="simulated", REQUESTS=ENV["github"]["REQUESTS"])
    assert ran.returncode == 0, ran.stdout
    assert "ok    p95(ttft) < 400ms  [simulated]  0 of 120 = 0 % missed" in ran.stdout
    assert {path.name for path in stranger.folder.iterdir()} >= {"runs", "sla.xml", "sla.json", "summary.md"}
    assert "✅ pass" in (stranger.folder / "summary.md").read_text()
    again = stranger.step("pytest --r1-sla --r1-run runs")  # what the page says of the artifact
    assert again.returncode == 0, again.stdout


def test_a_promise_that_is_broken_is_exit_code_1_and_says_by_how_much(stranger):
    ran = stranger.judge(STEPS["gitlab"][2], TARGET="slowed", REQUESTS=ENV["gitlab"]["REQUESTS"])
    assert ran.returncode == 1, ran.stdout
    assert "SLA FAIL  p95(ttft) < 400ms   [target=slowed]" in ran.stdout
    assert re.search(r"missed     \d+ of 120 = [\d.]+ %  \(\d+ slow\); allowed 5 %", ran.stdout), ran.stdout
    assert "ok    error_rate < 5%  [slowed]" in ran.stdout
    case = next(iter(ET.parse(stranger.folder / "sla.xml").getroot().iter("testcase")))
    assert case.find("failure").get("message").startswith("SLA FAIL p95(ttft) < 400ms: ")


def test_too_few_requests_are_inconclusive(stranger):
    ran = stranger.judge(STEPS["gitlab"][2], TARGET="simulated", REQUESTS="20")
    assert ran.returncode == 1, ran.stdout
    assert "SLA INCONCLUSIVE  p95(ttft) < 400ms" in ran.stdout
    assert "the limit of 20 requests is reached" in ran.stdout
    assert "2 passed, 2 inconclusive" in ran.stdout


def test_the_lines_of_the_preset(stranger):
    preset = re.search(r"^```console\n\$ (pytest .*--r1-fail-fast.*)\n\$ (pytest .*=fail.*)\n```$", PAGE, re.MULTILINE)
    assert preset
    lines = [
        line.partition("#")[0].replace("duration=2m", "duration=3s").replace("duration=2h", "duration=3s")
        for line in preset.groups()
    ]
    for line in lines:
        ran = stranger.judge(line)
        assert ran.returncode == 0, ran.stdout


def test_two_versions_are_compared_in_turns(stranger):
    clauses = re.search(r"^```toml\n# compare.toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (stranger.folder / "compare.toml").write_text(clauses[1])
    loads, compare = (step["run"] for step in COMPARE)
    short = loads.replace("--quiet", "--quiet --duration 1s")  # a busy machine makes a run invalid, which ends nothing
    urls = {"BASE_URL": "simulate:tiny", "HEAD_URL": "simulate:tiny?speed=0.3", "MODEL": "deepseek-r1"}

    def once():
        shutil.rmtree(stranger.folder / "runs", ignore_errors=True)
        loaded = stranger.step(short, **urls)
        assert loaded.returncode == 0, loaded.stdout
        return stranger.step(compare)

    ran = measured(once, lambda ran: ran.stdout)
    assert ran.returncode == 1, ran.stdout
    assert re.search(r"FAIL  p95\(e2e\) < baseline \+10%  .*[23] runs against [23] runs", ran.stdout), ran.stdout


@pytest.mark.parametrize(("code", "runs", "ends"), [(0, 6, 0), (1, 6, 0), (3, 6, 0), (2, 1, 1), (130, 1, 1)], ids=str)
def test_a_run_that_is_invalid_or_fails_does_not_end_the_comparison(tmp_path, code, runs, ends):
    shim = tmp_path / "r1perf"
    shim.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/made\nexit {code}\n')
    shim.chmod(0o755)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BASE_URL": "b", "HEAD_URL": "h", "MODEL": "m"}
    ran = subprocess.run([*SHELL, COMPARE[0]["run"]], env=env, check=False)
    made = (tmp_path / "made").read_text().splitlines()
    assert (ran.returncode, len(made)) == (ends, runs)
    assert (
        made[:2]
        == [
            f"run scenarios/gate.toml --url {url} --model m --runs runs/{side} --quiet"
            for url, side in (("b", "base"), ("h", "head"))
        ][:runs]
    )


def test_the_ceiling_of_the_night_is_above_what_it_sends():
    hours, ceiling = re.search(r"duration=(\d+)h --r1-max-requests (\d+)", PAGE).groups()
    sent = int(hours) * 3600 * 2
    assert f"above the {sent:,} requests of two\n   hours at 2/s" in PAGE
    assert int(re.search(r'^r1_max_requests = "(\d+)"$', PAGE, re.MULTILINE)[1]) < sent < int(ceiling)


def share(n, most, true):
    """Return the probability of at most so many misses of n."""
    return 1 - beta_cdf(most + 1, n - most, true)


ROWS = re.findall(r"^\| `?(p9\d|error_rate < 2%)`? \| (.*?) \| (\d+) \| (.*?) \| (.*?) \|$", PAGE, re.MULTILINE)


@pytest.mark.parametrize(("clause", "passes", "fails", "good", "bad"), ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_what_a_gate_of_240_requests_shows(clause, passes, fails, good, bad):
    allowed = {"p90": 0.1, "p95": 0.05, "p99": 0.01, "error_rate < 2%": 0.02}[clause]
    most, least = pass_at_most(240, allowed, 0.05), fail_at_least(240, allowed, 0.05)
    assert int(fails) == least
    percents = [f"{100 * (1 - share(240, least - 1, true)):.0f}" for true in (0.08, 0.10, 0.15)]
    assert bad == " / ".join(percents) + " %"
    if most is None:
        assert passes == f"never: it takes {attempts_to_pass(0, allowed, 0.05)} requests"
    else:
        assert int(passes.split()[0]) == most
        assert good == " / ".join(f"{100 * share(240, most, true):.0f}" for true in (0.01, 0.02, 0.03)) + " %"
