"""A whole run on virtual time, through the real recorder: answers with exact times, a flip a second."""

import random
from collections.abc import Callable, Iterator

import msgspec

from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder, Tallies
from r1perf.result import Outcome, Result, Stream, Usage
from r1perf.schedule import Stage
from r1perf.snapshot import Snapshot
from r1perf.summary import Run
from r1perf.target import Price, System

MS, S = 1_000_000, 1_000_000_000
T0 = 1_000 * S
STAGES = (
    Stage(0, "warmup", 0, 5 * S, judged=False, says="poisson 2/s"),
    Stage(1, "ramp", 5 * S, 15 * S, judged=True, says="ramp 2/s to 6/s"),
    Stage(2, "steady", 15 * S, 40 * S, judged=True, says="poisson 6/s"),
    Stage(3, "drain", 40 * S, None, judged=False, says="drain"),
)


def a_run(**changes: object) -> Run:
    """A run of two workloads in three stages."""
    run = Run(
        run_id="20260102T030405Z-mixed",
        name="mixed",
        target="staging",
        url="http://127.0.0.1:8000/v1",
        model="deepseek-r1",
        started_ns=1_767_323_045 * S,
        interval_ns=S,
        stages=STAGES,
        workloads=("aime", "chat"),
        workers=("0",),
        price=Price(input_per_1m=0.55, cached_per_1m=0.14, output_per_1m=2.19),
        system=System(gpu="H100", gpus=16),
        scenario={"name": "mixed", "seed": 42},
        environment={"versions": {"python": "3.11.7"}},
    )
    return msgspec.structs.replace(run, **changes)


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """How one answer goes: `thinking` chunks of reasoning, then `chunks` of answer, `gap_ns` apart."""

    workload: str
    at_ns: int  # after t0
    ttft_ns: int = 100 * MS
    gap_ns: int = 20 * MS
    thinking: int = 0
    chunks: int = 10
    outcome: Outcome = Outcome.OK
    reason: str | None = None
    sent_late_ns: int = 0
    stall_ns: int = 0  # after the last chunk, before the end


def play(
    answers: list[Answer],
    *,
    seconds: int,
    stages: tuple[Stage, ...] = STAGES,
    worker: str = "0",
    on_result: Callable[[Result], None] = lambda result: None,
    on_flip: Callable[[Snapshot, Recorder], None] = lambda snapshot, recorder: None,
    tallies: Tallies | None = None,
) -> list[Snapshot]:
    """Run these answers through a recorder on virtual time and return its snapshots, one a second."""
    loop = SimLoop(start_ns=T0)
    recorder = Recorder(worker, stages, T0, S, tallies=tallies)
    snapshots: list[Snapshot] = []

    def answer(number: int, plan: Answer) -> None:
        scheduled_ns = T0 + plan.at_ns
        loop.sleep_until(scheduled_ns)
        stage = recorder.timeline.at(scheduled_ns)
        recorder.count("scheduled", plan.workload, stage)
        recorder.count("conversations", plan.workload, stage)
        loop.sleep_until(scheduled_ns + plan.sent_late_ns)
        stream = recorder.open(plan.workload, stage, scheduled_ns)
        stream.sent_ns = loop.now_ns()
        for n in range(plan.thinking + plan.chunks):
            loop.sleep_until(loop.now_ns() + (plan.gap_ns if n else plan.ttft_ns))
            _chunk(stream, loop.now_ns(), thinking=n < plan.thinking)
        loop.sleep_until(loop.now_ns() + plan.stall_ns)
        result = recorder.add(_result(number, plan, stage, stream, loop.now_ns()), stream)
        recorder.conversation_over(result.arrival)
        if result.outcome is Outcome.OK:
            recorder.count("conversations_done", plan.workload, stage)
        on_result(result)

    def main() -> None:
        tasks = [loop.spawn(answer, number, plan) for number, plan in enumerate(answers)]
        for k in range(seconds):
            end_ns = T0 + (k + 1) * S
            loop.sleep_until(end_ns)
            snapshot = recorder.flip(end_ns, cpu_ns=300 * MS, loop_lag_max_ns=2 * MS, rss_bytes=80 << 20, last=k == seconds - 1)
            snapshots.append(snapshot)
            on_flip(snapshot, recorder)
        for task in tasks:
            task.join()

    loop.run(main)
    return snapshots


def traffic(seed: int = 1) -> list[Answer]:
    """Forty seconds of a mix with every kind of ending."""
    source = random.Random(seed)
    return list(_traffic(source))


def _traffic(source: random.Random) -> Iterator[Answer]:
    at_ns = 0
    while at_ns < 39 * S:
        at_ns += int(source.expovariate(6 if at_ns > 15 * S else 3) * S)
        aime = source.random() < 0.3
        luck = source.random()
        outcome, reason, chunks = Outcome.OK, None, source.randrange(20, 120)
        if luck < 0.04:
            outcome, reason, chunks = Outcome.OVERLOADED, "503", 0
        elif luck < 0.06:
            outcome, reason = Outcome.TIMEOUT, "between_chunks"
        elif luck < 0.09:
            outcome = Outcome.TRUNCATED
        yield Answer(
            workload="aime" if aime else "chat",
            at_ns=at_ns,
            ttft_ns=int(source.lognormvariate(0, 0.4) * 150 * MS),
            gap_ns=int(source.lognormvariate(0, 0.2) * 20 * MS),
            thinking=chunks if aime and outcome is not Outcome.OVERLOADED else 0,
            chunks=chunks,
            outcome=outcome,
            reason=reason,
            sent_late_ns=source.randrange(400_000),
            stall_ns=2 * S if outcome is Outcome.TIMEOUT else 0,
        )


def _chunk(stream: Stream, now_ns: int, *, thinking: bool) -> None:
    stream.pending.append(now_ns)
    stream.first_ns = stream.first_ns or now_ns
    stream.last_ns = now_ns
    if thinking:
        stream.first_reasoning_ns = stream.first_reasoning_ns or now_ns
    else:
        stream.first_answer_ns = stream.first_answer_ns or now_ns
        stream.answer_chunks += 1


def _result(number: int, plan: Answer, stage: int, stream: Stream, done_ns: int) -> Result:
    tokens = plan.thinking + plan.chunks
    usage = Usage(500, tokens, plan.thinking, 100) if tokens and plan.outcome in (Outcome.OK, Outcome.TRUNCATED) else Usage()
    return Result(
        id=f"{number}.0",
        arrival=number,
        turn=0,
        workload=plan.workload,
        stage=stage,
        item=number,
        outcome=plan.outcome,
        reason=plan.reason,
        scheduled_ns=stream.scheduled_ns,
        sent_ns=stream.sent_ns,
        connect_ns=3 * MS if stream.scheduled_ns % 5 == 0 else None,
        first_ns=stream.first_ns or None,
        first_reasoning_ns=stream.first_reasoning_ns or None,
        first_answer_ns=stream.first_answer_ns or None,
        last_ns=stream.last_ns or None,
        done_ns=done_ns,
        answer_chunks=stream.answer_chunks,
        usage=usage,
        token_source="server" if usage.output_tokens else None,
    )
