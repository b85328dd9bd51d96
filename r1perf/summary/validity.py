"""Tell whether the generator was fit to measure: a run is valid, or invalid with reasons, one sentence each."""

from collections.abc import Iterator, Sequence

import msgspec

from r1perf.result import Outcome
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
    for worker, readings in sorted(summary.readings.items()):
        if readings.missing:
            yield f"{readings.missing} intervals of worker {worker} are missing"


def _machine(summary: Summary) -> Iterator[str]:
    for worker, read in summary.read(summary.windows()):
        wall_us = sum(each.wall_us for each in read)
        if not wall_us:
            continue
        mean = sum(each.cpu_us for each in read) / wall_us
        p95 = _p95([each.cpu_us / each.wall_us for each in read])
        if mean > CPU:
            yield f"worker {worker} used {mean:.0%} of a core (bound {CPU:.0%}): it was the bottleneck"
        elif len(read) >= CPU_INTERVALS and p95 > CPU:
            yield f"worker {worker} used {p95:.0%} of a core or more in one interval of 20 (bound {CPU:.0%}): it was the bottleneck"
        share = sum(each.stalled_us for each in read) / wall_us
        if share > STALLED_SHARE:
            yield f"worker {worker} stood still for {share:.1%} of the judged window (stalls over 10 ms; bound {STALLED_SHARE:.0%})"
    for worker, step_ns in sorted(summary.clock_step_ns.items()):
        if abs(step_ns) > CLOCK_STEP_NS:
            yield f"the wall clock of worker {worker} moved by {step_ns / 1e6:+.0f} ms during the run"


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
