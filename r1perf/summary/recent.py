"""Show the last seconds of a run while it goes on."""

import msgspec

from r1perf.histogram import Counts
from r1perf.result import CENSORED, FAILED, Outcome
from r1perf.schedule import begins_ns
from r1perf.summary.interval import Interval
from r1perf.summary.merged import ALL, Summary


class Recent(msgspec.Struct, frozen=True, kw_only=True):
    """Rates, percentiles (us) and generator health of the last `seconds`, and totals of the run so far.

    `output_tokens_per_s` is chunks/s times the tokens that a chunk has held so far, `tokens_known` False while no request
    has told: then a chunk is taken for a token. None where there was nothing to measure.
    """

    elapsed_ns: int
    seconds: float
    stage: str
    scheduled_per_s: float
    sent_per_s: float
    completed_per_s: float
    chunks_per_s: float
    output_tokens_per_s: float
    tokens_known: bool
    ttft_p50: int | None
    ttft_p95: int | None
    itl_p50: int | None
    itl_p95: int | None
    in_flight: int
    waiting: int
    conversations: int
    done: int
    ok: int
    failed: dict[Outcome, int]
    censored: dict[Outcome, int]
    ended: int  # requests that ended in these seconds, censored ones apart
    ended_failed: int  # those of them that failed
    cpu: float | None  # share of one core, of the busiest worker
    loop_lag_max_ns: int
    delay_max_ns: int


def recent(summary: Summary, seconds: float = 10) -> Recent:
    """View the last `seconds`, as far as every worker that still measures has reported them."""
    interval_ns = summary.run.interval_ns
    newest = summary.whole
    oldest = newest - max(round(seconds * 1e9 / interval_ns), 1)
    intervals = [interval for k, interval in sorted(summary.intervals.items()) if oldest < k <= newest]
    healths = [(worker, health) for interval in intervals for worker, health in interval.health.items()]
    span_ns: dict[str, int] = {}
    cpu_ns: dict[str, int] = {}
    for worker, health in healths:
        span_ns[worker] = span_ns.get(worker, 0) + health.wall_ns
        cpu_ns[worker] = cpu_ns.get(worker, 0) + health.cpu_ns
    span = max(span_ns.values(), default=0) / 1e9

    def rate(name: str) -> float:
        return _sum(intervals, name) / span if span else 0.0

    def merged(metric: str) -> list[int | None]:
        parts = (counts for interval in intervals for (name, _, _), counts in interval.series.items() if name == metric)
        return Counts.merged(parts).percentiles((50, 95))

    (ttft_p50, ttft_p95), (itl_p50, itl_p95) = merged("ttft"), merged("itl")
    per_chunk = {workload: tokens_per_chunk(summary, workload) for workload in summary.workloads}
    tokens = sum(_tokens(intervals, workload, known) for workload, known in per_chunk.items())
    outcomes = summary.outcomes()
    failed = {outcome: n for outcome, n in outcomes.items() if outcome in FAILED}
    censored = {outcome: n for outcome, n in outcomes.items() if outcome in CENSORED}
    done = sum(outcomes.values())
    ended = {outcome: _sum(intervals, f"outcome.{outcome}") for outcome in Outcome}
    last = intervals[-1].health.values() if intervals else ()
    return Recent(
        elapsed_ns=summary.elapsed_ns,
        seconds=span,
        stage=current_stage(summary),
        scheduled_per_s=rate("scheduled"),
        sent_per_s=rate("sent"),
        completed_per_s=rate("completed"),
        chunks_per_s=rate("chunks"),
        output_tokens_per_s=tokens / span if span else 0.0,
        tokens_known=any(known is not None for known in per_chunk.values()),
        ttft_p50=ttft_p50,
        ttft_p95=ttft_p95,
        itl_p50=itl_p50,
        itl_p95=itl_p95,
        in_flight=sum(health.in_flight for health in last),
        waiting=sum(health.waiting for health in last),
        conversations=summary.counter("conversations", stage=ALL),
        done=done,
        ok=done - sum(failed.values()) - sum(censored.values()),
        failed=failed,
        censored=censored,
        ended=sum(n for outcome, n in ended.items() if outcome not in CENSORED),
        ended_failed=sum(n for outcome, n in ended.items() if outcome in FAILED),
        cpu=max((cpu_ns[worker] / wall for worker, wall in span_ns.items() if wall), default=None),
        loop_lag_max_ns=max((health.loop_lag_max_ns for _, health in healths), default=0),
        delay_max_ns=max((health.delay_max_ns for _, health in healths), default=0),
    )


def tokens_per_chunk(summary: Summary, workload: str) -> float | None:
    """Return how many tokens a chunk of this workload has held so far; None while nothing has told."""
    chunks = summary.counter("counted_chunks", workload, ALL)
    return summary.counter("window_output_tokens", workload, ALL) / chunks if chunks else None


def current_stage(summary: Summary) -> str:
    """Name the stage that runs at the end of what has been merged."""
    now_ns = max(summary.elapsed_ns - 1, 0)
    running = ""
    for stage in summary.stages:
        begin_ns = begins_ns(stage, summary.stages, summary.ended)
        if begin_ns is not None and begin_ns <= now_ns and stage.index not in summary.ended:
            running = stage.name
    return running


def _tokens(intervals: list[Interval], workload: str, per_chunk: float | None) -> float:
    """Estimate the output tokens of these intervals; what was not streamed counts when it ended."""
    chunks = _sum(intervals, "chunks", workload)
    return chunks * (per_chunk or 1.0) if chunks else _sum(intervals, "window_output_tokens", workload)


def _sum(intervals: list[Interval], name: str, workload: str | None = None) -> int:
    return sum(n for interval in intervals for (c, w, _), n in interval.counters.items() if c == name and workload in (None, w))
