"""Every scenario that is shipped runs from end to end on the simulated endpoint, shrunk to seconds."""

import contextlib
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import runs
from runs import Ran
from services import ROOT, SHARED

from r1perf.arrivals import Closed, Stages
from r1perf.datasets.synthetic import Synthetic
from r1perf.scenario import load

NAMES = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
FAST = ("--url", "simulate:tiny?speed=10")

FILES = {
    "aime-ramp-vllm": 'workload.aime.dataset={kind="aime", file="%s", raw=true, grade=false, sample="choice", solution_room=true}'
    % (SHARED / "data" / "aime24.jsonl")
}
"""A file in place of a set that would be fetched."""


def shrunk(name: str) -> list[str]:
    """Say how a scenario is made to take seconds and little work; its shape stays: stages, loops, workloads, warmup."""
    made = load(name)
    words = ["--set", "warmup=300ms"] if made.warmup is not None else []
    for workload, spec in made.workload.items():
        if isinstance(spec.dataset, Synthetic):
            for lengths in ("input_tokens", "output_tokens"):
                words += ["--set", f"workload.{workload}.dataset.{lengths}.length=64"]
    if name in FILES:
        words += ["--set", FILES[name]]
    arrivals = made.arrivals
    if isinstance(arrivals, Stages):
        for at, stage in enumerate(arrivals.stages):
            if stage.requests is not None:
                words += ["--set", f"arrivals.stages[{at}].requests=5"]
        return [*words, *(["--duration", "2s"] if arrivals.stages[0].duration else []), *rate(arrivals.stages[0])]
    ends = ["--requests", "20"] if made.requests is not None else ["--duration", "1s"]
    return [*words, *ends, *rate(arrivals)]


def rate(process: Any) -> list[str]:
    return (
        ["--sessions", "8"]
        if isinstance(process, Closed) and process.sessions > 32
        else []
        if isinstance(process, Closed)
        else ["--rate", "20/s"]
    )


@pytest.fixture(scope="module")
def carried_out(tmp_path_factory) -> Iterator[dict[str, Future[Ran]]]:
    """Run them, two at a time: they mostly wait."""
    folder = tmp_path_factory.mktemp("scenarios")
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(runs.run, folder / name, name, *FAST, *shrunk(name))
            for name in NAMES
            if name not in FILES or SHARED.is_dir()
        }


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_end_to_end(name, carried_out, request):
    if name in FILES:
        request.getfixturevalue("shared")
    ran = carried_out[name].result()
    runs.ended(ran)
    document, made = ran.document, load(name)
    assert document["name"] == name
    assert set(document["counts"]) <= {"scheduled", "in_flight", "ok", "truncated"}
    assert document["counts"]["scheduled"] >= 15
    assert {row["name"] for row in document["workloads"] if row["counts"]["scheduled"]} == set(made.workload)
    if isinstance(made.arrivals, Stages):
        stages = {row["plan"]["name"]: row["counts"].get("scheduled", 0) for row in document["stages"]}
        assert all(stages[stage.name] for stage in made.arrivals.stages), stages
        assert ("warmup" in stages) == (made.warmup is not None)
    graded = {name for name, workload in made.workload.items() if getattr(workload.dataset, "grade", False)}
    assert {row["name"] for row in document["workloads"] if row.get("grades")} == graded
    assert "TTFT" in ran.stdout
    assert ran.stdout.splitlines()[-1] == str(ran.folder)


ANSWER = b"".join(
    b"data: %s\n\n" % part
    for part in (
        b'{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":"Let","finish_reason":null}]}',
        b'{"id":"cmpl-1","model":"m","choices":[{"index":0,"text":" n","finish_reason":"length"}]}',
        b'{"id":"cmpl-1","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11}}',
        b"[DONE]",
    )
)


@contextlib.contextmanager
def recorder() -> Iterator[tuple[str, list[tuple[str, dict[str, Any]]]]]:
    """Serve the same answer to everybody; give the URL, and path and body of each request as they come."""
    came: list[tuple[str, dict[str, Any]]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send(b'{"object":"list","data":[{"id":"m"}]}', "application/json")

        def do_POST(self) -> None:
            came.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.send(ANSWER, "text/event-stream")

        def send(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1", came
        server.shutdown()
        thread.join()


def test_the_vllm_benchmark_sends_what_vllm_sends(tmp_path, shared):
    rows = [json.loads(line) for line in (shared / "data" / "aime24.jsonl").read_text().splitlines()]
    with recorder() as (url, came):
        ran = runs.run(
            tmp_path / "runs", "aime-ramp-vllm", "--url", url, "--model", "m", "--set", FILES["aime-ramp-vllm"],
            "--requests", "70", "--rate", "60/s", "--quiet",
        )  # fmt: skip
    runs.ended(ran)
    assert ran.document["counts"] == {"scheduled": 70, "in_flight": 0, "truncated": 70}
    assert {path for path, _ in came} == {"/v1/completions"}
    # The keys of vLLM's own client (`logprobs` is null there unless asked for).
    assert {frozenset(body) for _, body in came} == {
        frozenset(("model", "prompt", "max_tokens", "repetition_penalty", "stream", "stream_options"))
    }
    bodies = [body for _, body in came]
    assert all(
        (body["model"], body["repetition_penalty"], body["stream"], body["stream_options"])
        == ("m", 1.0, True, {"include_usage": True})
        for body in bodies
    )
    # Each problem once, then drawn again with replacement; never a word more than the problem.
    asked = Counter(body["prompt"] for body in bodies)
    assert set(asked) == {row["problem"] for row in rows}
    assert (sum(asked.values()), min(asked.values())) == (70, 1)
    assert max(asked.values()) > 3
    # The room of an answer is the human solution's length, and goes with its problem.
    rooms = {(body["prompt"], body["max_tokens"]) for body in bodies}
    assert len(rooms) == len(asked)
    by_length = sorted(rows, key=lambda row: len(row["solution"]))
    room = dict(rooms)
    assert room[by_length[0]["problem"]] < room[by_length[len(rows) // 2]["problem"]] < room[by_length[-1]["problem"]]
