"""Recorded runs made on virtual time: exact counts, no load, no waiting."""

from pathlib import Path

from virtual_run import MS, Answer, S, a_run, play

from r1perf.journal import RequestsJournal, SnapshotsJournal
from r1perf.result import Outcome
from r1perf.scenario import load, resolved
from r1perf.schedule import Stage
from r1perf.sinks.archive import write_document
from r1perf.snapshot import encode
from r1perf.summary import Summary, document

SECONDS = 40
LIMIT = 800 * MS

SCENARIO = {
    "name": "chat",
    "duration": f"{SECONDS}s",
    "target": {"url": "http://127.0.0.1:8000/v1", "model": "deepseek-r1", "name": "vllm"},
    "workload": {"chat": {"dataset": {"kind": "chat"}, "max_tokens": 64}},
    "arrivals": {"kind": "poisson", "rate": "5/s"},
}


def archive(
    folder: Path, *, name: str = "chat", target: str = "vllm", n: int = 200, slow: int = 0, failed: int = 0,
    ttft_ms: int = 100, clauses: tuple[str, ...] = (), confidence: float = 0.95,
) -> Path:  # fmt: skip
    """Write the archive of a run of `n` requests, evenly spread: `slow` of them miss 800 ms, `failed` end with a 500."""
    folder.mkdir(parents=True)
    raw = SCENARIO | {
        "name": name,
        "target": SCENARIO["target"] | {"name": target},
        "sla": {"clauses": list(clauses), "confidence": confidence},
    }
    stages = (
        Stage(0, "main", 0, SECONDS * S, judged=True, says="poisson 5/s"),
        Stage(1, "drain", SECONDS * S, None, judged=False, says="drain"),
    )
    run = a_run(
        run_id=f"{folder.name}-5eed", name=name, target=target, stages=stages, workloads=("chat",), scenario=resolved(load(raw))
    )
    summary = Summary(run)
    with RequestsJournal(folder, "0") as requests, SnapshotsJournal(folder, "0") as snapshots:
        for snapshot in play(answers(n, slow, failed, ttft_ms), seconds=SECONDS + 4, stages=stages, on_result=requests.write):
            summary.merge(snapshot)
            snapshots.write(encode(snapshot))
        requests.flush()
        snapshots.flush()
    write_document(folder, document(summary))
    return folder


def answers(n: int, slow: int, failed: int, ttft_ms: int) -> list[Answer]:
    """Spread the misses over the run, so that neighbours do not miss together."""
    late = {n * i // slow for i in range(slow)}
    broken = {(n * i // failed) + 1 for i in range(failed)}
    return [
        Answer(
            workload="chat",
            at_ns=(SECONDS * S // n) * i + 5 * MS,
            ttft_ns=(LIMIT + 100 * MS) if i in late else ttft_ms * MS,
            chunks=0 if i in broken else 12,
            outcome=Outcome.SERVER_ERROR if i in broken else Outcome.OK,
            reason="500" if i in broken else None,
        )
        for i in range(n)
    ]
