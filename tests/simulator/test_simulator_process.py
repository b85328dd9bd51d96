"""The simulator as a process: what it prints, how it ends, what it refuses."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from r1perf import simulator
from r1perf.simulator import command

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Give a function that starts the simulator on a free port."""
    running: list[subprocess.Popen[str]] = []

    def one(*flags: str, **more: object) -> "subprocess.Popen[str]":
        line = [sys.executable, "-m", "r1perf.simulator", "--port", "0", *flags]
        process = subprocess.Popen(  # type: ignore[call-overload]
            line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
        )
        running.append(process)
        return running[-1]

    yield one
    for process in running:
        if process.poll() is None:
            process.kill()
        process.communicate()


def listening(process: "subprocess.Popen[str]") -> str:
    """Read the one line that says where it listens."""
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("listening on http://127.0.0.1:")
    assert line.endswith("/v1\n")
    return line.split()[-1]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["term", "int"])
def test_it_serves_and_ends_on_a_signal_with_its_log_complete(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "truth.jsonl"
    process = start("--truth", str(log), "--speed", "20")
    url = listening(process)
    body = json.dumps({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}).encode()
    with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", data=body), timeout=10) as reply:
        assert json.loads(reply.read())["usage"]["completion_tokens"] == 4
    stalled = urllib.request.Request(
        f"{url}/chat/completions", data=body[:-1] + b', "stream": true}', headers={"x-r1sim-fault": "stall:forever@1"}
    )
    with urllib.request.urlopen(stalled, timeout=10):
        process.send_signal(number)
        assert process.wait(10) == 0
    assert [json.loads(line)["ending"] for line in log.read_text().splitlines()] == ["complete", "stopped"]
    assert process.communicate() == ("", "")


def test_it_ends_with_its_parent(start: Start) -> None:
    process = start("--parent-pipe", "0")
    listening(process)
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(10) == 0
    process.stdin = None


def test_it_ends_with_another_pipe(start: Start) -> None:
    theirs, ours = os.pipe()
    process = start("--parent-pipe", str(theirs), pass_fds=(theirs,))
    os.close(theirs)
    listening(process)
    os.close(ours)
    assert process.wait(10) == 0


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--profile", "huge"), '"huge" is not a profile; allowed are r1-16xh100, tiny, exact, slow'),
        (("--fault", "boom=0.1"), '"boom" is not a fault; allowed are '),
        (("--fault", "stall"), '"stall" is not a fault with its rate'),
        (("--fault", "stall=0.7", "--fault", "close=0.7"), "the rates of all faults add up to more than 1"),
        (("--parent-pipe", "77"), "--parent-pipe 77 is not a pipe that is open: bad file descriptor"),
        (("--host", "256.0.0.1"), "cannot listen on 256.0.0.1:0: "),
        (("--port", "x"), "Invalid value for '--port'"),
    ],
    ids=["profile", "fault", "no-rate", "rates", "pipe", "host", "port"],
)
def test_a_wrong_command_is_one_sentence_and_exit_2(start: Start, flags: tuple[str, ...], sentence: str) -> None:
    process = start(*flags)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert sentence in err
    assert "Traceback" not in err
    assert len([line for line in err.splitlines() if line.startswith(("r1perf: ", "Error: "))]) == 1


def test_the_command_for_the_main_program() -> None:
    result = CliRunner().invoke(command, ["--help"])
    assert result.exit_code == 0
    assert command.name == "simulate"
    for option in ("--profile", "--dialect", "--fault", "--truth", "--parent-pipe"):
        assert option in result.output
    assert "API_KEY" in result.output
    assert "--api-key" not in result.output


def test_exported_names() -> None:
    assert simulator.__all__ == ["Options", "command", "main", "serve"]
