"""Tell whether the generator was fit to measure: a run is valid, or invalid with reasons, one sentence each."""

from collections.abc import Iterator, Sequence

import msgspec

from r1perf.health import STALL_NS
from r1perf.result import Outcome
from r1perf.snapshot import Health
from r1perf.summary.merged import ALL, Summary

DELAY_US = 5_000
DELAY_SHARE = 20
"""p99 of schedule delay may be 5 ms, or 1/20 of the tightest limit where that is more."""

CPU = 0.90
CPU_INTERVALS = 20
"""A worker may use 90 % of a core, on average and (from 20 intervals on) in 95 % of the intervals."""

STALLED_SHARE = 0.01
"""Stalls of the loop over 10 ms may take up 1 % of the window: beyond that they reach into every p99."""

CLOCK_STEP_NS = 50_000_000
"""The wall clock may move 50 ms against the monotonic one: more is a step, or a machine that slept."""


class Validity(msgspec.Struct, frozen=True):
    """Whether the figures may be judged, and why not."""

    valid: bool
    reasons: list[str]


def validity(summary: Summary, *, ended: bool = True) -> Validity:
    """Check the generator; `ended` False leaves out what is only known at the end (counts that add up)."""
    reasons = [*_delay(summary), *_missing(summary), *_machine(summary)]
    if ended:
        reasons += _counts(summary)
    return Validity(not reasons, reasons)


def _delay(summary: Summary) -> Iterator[str]:
    limit_ns = summary.run.tightest_limit_ns or 0
    bound_us = max(DELAY_US, limit_ns // 1000 // DELAY_SHARE)
    delays = summary.counts("schedule_delay")
    p99 = delays.percentile(99)
    if p99 is not None and p99 > bound_us:
        yield f"requests were sent late: p99 of schedule delay was {_ms(p99)} (bound {_ms(bound_us)})"
    least = summary.counts("schedule_delay", stage=ALL).least
    if least is not None and least < 0:
        yield f"the clock is in trouble: a request was sent {-least} us before it was scheduled"


def _ms(us: float) -> str:
    """Write milliseconds in three digits, whole ones with all of theirs: `21,800 ms`."""
    return f"{us / 1000:,.0f} ms" if us >= 100_000 else f"{us / 1000:.3g} ms"


def _missing(summary: Summary) -> Iterator[str]:
    dropped = summary.outcomes().get(Outcome.DROPPED, 0)
    if dropped:
        yield f"{dropped} {_requests(dropped)} were never sent" if dropped > 1 else "1 request was never sent"
    for worker in summary.lost_workers:
        yield f"worker {worker} was lost"
    lost = summary.outcomes().get(Outcome.LOST, 0)
    if lost:
        yield f"{lost} {_requests(lost)} in flight on a lost worker had no end"
    for worker, mine in sorted(summary.health.items()):
        gaps = max(mine) + 1 - len(mine) if mine else 0
        if gaps:
            yield f"{gaps} intervals of worker {worker} are missing"


def _machine(summary: Summary) -> Iterator[str]:
    by_worker: dict[str, list[Health]] = {}
    for worker, health in summary.healths(summary.windows()):
        by_worker.setdefault(worker, []).append(health)
    for worker, healths in by_worker.items():
        wall_ns = sum(health.wall_ns for health in healths)
        if not wall_ns:
            continue
        mean = sum(health.cpu_ns for health in healths) / wall_ns
        p95 = _p95([health.cpu_ns / health.wall_ns for health in healths if health.wall_ns])
        if mean > CPU:
            yield f"worker {worker} used {mean:.0%} of a core (bound {CPU:.0%}): it was the bottleneck"
        elif len(healths) >= CPU_INTERVALS and p95 > CPU:
            yield f"worker {worker} used {p95:.0%} of a core or more in one interval of 20 (bound {CPU:.0%}): it was the bottleneck"
        stalled_ns = sum(map(_stalled_ns, healths))
        if stalled_ns > STALLED_SHARE * wall_ns:
            share = stalled_ns / wall_ns
            yield f"worker {worker} stood still for {share:.1%} of the judged window (stalls over 10 ms; bound {STALLED_SHARE:.0%})"
    for worker, step_ns in sorted(summary.clock_step_ns.items()):
        if abs(step_ns) > CLOCK_STEP_NS:
            yield f"the wall clock of worker {worker} moved by {step_ns / 1e6:+.0f} ms during the run"


def _stalled_ns(health: Health) -> int:
    """Return how long a loop stood still in an interval; of an archive that does not tell only its longest stall is known."""
    if health.stalled_ns is not None:
        return health.stalled_ns
    return health.loop_lag_max_ns if health.loop_lag_max_ns > STALL_NS else 0


def _counts(summary: Summary) -> Iterator[str]:
    scheduled = summary.counter("scheduled", stage=ALL)
    if not scheduled:
        yield "no request was sent"
    outcomes = sum(summary.outcomes().values())
    if scheduled != outcomes + summary.in_flight:
        yield f"the counts do not add up: {scheduled} scheduled, {outcomes} ended, {summary.in_flight} in flight"
    if scheduled and not summary.counter("scheduled"):
        yield f"no request was judged: {scheduled} {_requests(scheduled)} came in stages that are not"


def _p95(shares: Sequence[float]) -> float:
    return sorted(shares)[-(-95 * len(shares) // 100) - 1] if shares else 0.0


def _requests(n: int) -> str:
    return "request" if n == 1 else "requests"
