"""What the README says: its commands do what they say, and its output is that of `make demo`."""

import os
import re
import shlex
import subprocess
import sys
import textwrap

import pytest
from runs import R1PERF
from services import ROOT

README = (ROOT / "README.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
SHORT = {
    "probe": [],
    "check": [],
    "run": ["--duration", "1s", "--requests", "2", "--set", "warmup=1s"],
}
"""What makes a command of the README end soon, on an endpoint that answers in a moment."""

COMMANDS = re.findall(r"^\$ (r1perf .*)$", README, re.MULTILINE)


def shape(text: str) -> list[str]:
    """Return the lines of an output whose words are always the same: titles of tables and their columns."""
    rows = text.splitlines()
    heads = [
        (rows[n - 2].strip(), " ".join(rows[n - 1].split()))
        for n, row in enumerate(rows)
        if n > 1 and re.fullmatch(" *─+ *", row)
    ]
    return [part for head in heads for part in head]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_run(line, start_simulator, tmp_path):
    simulator = start_simulator("--speed", "100")
    words = shlex.split(line.replace("http://127.0.0.1:8000/v1", simulator.url))[1:]
    place = ["--runs", str(tmp_path)] if words[0] == "run" else []
    done = subprocess.run(
        [*R1PERF, *words, *SHORT[words[0]], *place], capture_output=True, text=True, timeout=90, cwd=tmp_path, check=False
    )
    assert done.returncode in ((0, 3) if words[0] == "run" else (0,)), done.stderr  # 3: a busy machine
    assert done.stdout


def test_output_of_the_demo_is_of_the_demo(tmp_path):
    """The Makefile's own words, on a faster endpoint and in a fifth of the time; figures differ, the tables are the same."""
    (line,) = re.findall(r"^\t\$\(BIN\)/r1perf (run r1-mixed.*)$", MAKEFILE, re.MULTILINE)
    (shown,) = re.findall(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    command = [*R1PERF, *shlex.split(line.replace("speed=30", "speed=300")), "--duration", "8s", "--runs", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env={**os.environ, "COLUMNS": "80"}, check=False)
    assert done.returncode in (0, 3), done.stderr
    assert len(shape(shown)) == 8
    assert [part for part in shape(shown) if part not in shape(done.stdout)] == []
    assert re.search(rf"\n{re.escape(str(tmp_path))}/\d{{8}}T\d{{6}}Z-r1-mixed\n$", done.stdout)
    assert re.search(r"\nruns/\d{8}T\d{6}Z-r1-mixed\n$", shown)


def test_the_test_of_a_promise_is_one(tmp_path):
    (shown,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    test = tmp_path / "test_promise.py"
    test.write_text("import pytest\n\n" + textwrap.dedent(shown))
    command = [sys.executable, "-m", "pytest", "--r1-sla", "--collect-only", "-q", "-p", "no:asyncio", test]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("test_promise.py")] == [
        "test_promise.py::test_release[p95(ttft)<800ms]",
        "test_promise.py::test_release[error_rate<1%]",
    ]
