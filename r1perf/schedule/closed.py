"""Closed-loop sessions over stages: a session that two neighbouring stages share goes on through both."""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from r1perf.arrivals import Closed
from r1perf.schedule.model import Sessions, Stage

UNKNOWN = 1 << 32
"""How many items a group without a known number of conversations may take before it meets the next group's."""


class Span(msgspec.Struct, frozen=True):
    """One closed-loop stage of the plan."""

    stage: Stage
    process: Closed
    conversations: int | None


def groups(spans: list[Span], base: int) -> Iterator[Sessions]:
    """Turn stages into groups of sessions that start and end together; bases count up from `base`.

    Neighbouring stages that end by time are one run of sessions: 32 then 64 sessions are 32 that go on and 32 that join;
    64 then 32 end half of them. A stage that ends by requests, or that follows one, has sessions of its own.
    """
    for run in _runs(spans):
        floor = 0
        for level in sorted({span.process.sessions for span in run}):
            for covered, part in groupby(run, key=lambda span, level=level: span.process.sessions >= level):  # type: ignore[misc]
                if covered:
                    inside = list(part)
                    made = _group(inside, level - floor, base)
                    base += made.conversations if made.conversations is not None else UNKNOWN
                    yield made
            floor = level


def _group(spans: list[Span], count: int, base: int) -> Sessions:
    first, last = spans[0], spans[-1]
    return Sessions(
        stage=first.stage.index, workload=None, count=count, first=0, step=1, start_ns=first.stage.start_ns,
        end_ns=last.stage.end_ns, ramp_up_ns=int(first.process.ramp_up), think_time_ns=int(first.process.think_time),
        conversations=first.conversations, base=base,
    )  # fmt: skip


def _runs(spans: list[Span]) -> list[list[Span]]:
    runs: list[list[Span]] = []
    for span in spans:
        before = runs[-1][-1] if runs else None
        if before is not None and _goes_on(before, span):
            runs[-1].append(span)
        else:
            runs.append([span])
    return runs


def _goes_on(before: Span, after: Span) -> bool:
    return (
        before.stage.index + 1 == after.stage.index
        and before.conversations is None
        and after.conversations is None
        and after.stage.follows is None
        and before.process.think_time == after.process.think_time
    )
