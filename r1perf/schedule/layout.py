"""Lay the main arrivals out in time, stage by stage."""

import math

import msgspec

from r1perf.arrivals import AnyArrivals, AnyStage, Closed, Open, Process, Ramp, Stages, Stream, Trace
from r1perf.errors import ScenarioError
from r1perf.schedule.closed import Span
from r1perf.schedule.draft import WINDOW, Draft
from r1perf.schedule.model import WARMUP
from r1perf.units import Duration


def processes_of(arrivals: AnyArrivals | None, duration: Duration | None) -> list[AnyStage]:
    """Return the main stages in order; where there are several, `duration` stretches all to this sum."""
    if not isinstance(arrivals, Stages):
        return [] if arrivals is None else [arrivals]
    if duration is None:
        return list(arrivals.stages)
    lengths = [length_ns(stage) for stage in arrivals.stages]
    if None in lengths:
        raise ScenarioError("duration", "cannot stretch stages that end by requests; leave it out, or give each stage a duration")
    factor = duration / sum(length for length in lengths if length is not None)
    return [_stretched(stage, factor) for stage in arrivals.stages]


def _stretched(stage: AnyStage, factor: float) -> AnyStage:
    longer = {name: Duration(round(value * factor)) for name in ("duration", "hold") if (value := getattr(stage, name, None))}
    return msgspec.structs.replace(stage, **longer)


def length_ns(process: Process) -> int | None:
    """Return how long a process takes among stages; None where it has no duration of its own."""
    if isinstance(process, Ramp) and process.duration is not None:
        return int(process.duration) + int(process.hold or 0)
    return None if process.duration is None else int(process.duration)


def alone_ns(process: Process) -> int | None:
    """Return how long a process lasts that nothing follows; None where it goes on: a ramp without `hold` does at its end rate."""
    return None if isinstance(process, Ramp) and not process.hold and process.end else length_ns(process)


def stage_names(processes: list[AnyStage]) -> list[str]:
    """Return each stage's name: its own, else its kind, numbered where that is taken."""
    names: list[str] = []
    for process in processes:
        kind = str(type(process).__struct_config__.tag)
        name, number = process.name or kind, 1
        while name in names:
            number += 1
            name = f"{kind}-{number}"
        names.append(name)
    return names


def lay_main(draft: Draft, processes: list[AnyStage], *, duration: int | None, requests: int | None, warmup: int) -> int:
    """Put down warmup and the stages, and draw their arrivals; raises ScenarioError where they make no run.

    Returns how many conversations are missing to `requests`, as far as open-loop stages have to bring them.
    """
    if warmup:
        draft.steady(WARMUP, processes[0], 0, warmup)
    draft.end_ns = warmup
    left = None if requests is None else math.ceil(requests / draft.turns)
    for number, (name, process) in enumerate(zip(stage_names(processes), processes, strict=True)):
        path = f"arrivals.stages[{number}]" if len(processes) > 1 else "arrivals"
        last = number == len(processes) - 1
        judged = process.judged if process.judged is not None else last or not isinstance(process, Ramp)
        length = duration if len(processes) == 1 and duration is not None else length_ns(process)
        if isinstance(process, Trace):  # after its last request nothing comes, however long the run may be
            length = min((n for n in (length, length_ns(process)) if n is not None), default=None)
        if isinstance(process, Ramp) and len(processes) == 1 and alone_ns(process) is None and left is not None:
            length = duration  # it holds its end rate until the last request
        own = None if process.requests is None else math.ceil(process.requests / draft.turns)
        count = min((n for n in (own, left) if n is not None), default=None)
        if length is None and count is None:
            raise ScenarioError(path, "needs an end: give `duration` or `requests`")
        if isinstance(process, Closed):
            if draft.end_ns is None and length is not None and not last:
                raise ScenarioError(
                    path,
                    "ends by duration after a stage that ends by requests: let all of them end by duration, or all by requests",
                )
            _closed(draft, name, process, length, count, judged)
            continue
        if draft.end_ns is None:
            raise ScenarioError(path, "an open-loop stage cannot come after a closed one that ends by requests")
        drawn = _open(draft, name, path, process, length, count, judged, plain=len(processes) == 1)
        if left is not None:
            left -= drawn
            if left == 0:
                break
    return 0 if left is None or draft.spans else left


def _open(
    draft: Draft, name: str, path: str, process: Open, length: int | None, count: int | None, judged: bool, *, plain: bool
) -> int:
    """Draw one open-loop stage; return how many arrivals it has."""
    start_ns = draft.end_ns or 0
    stream = Stream(draft.seed, "times", name, plain=plain)
    times_ns = draft.times(process, stream, start_ns, length, count, draft.turns, path)
    draft.loose = count is not None and len(times_ns) == count
    draft.end_ns = int(times_ns[-1]) + 1 if draft.loose else start_ns + (length or 0)
    stage = draft.stage(name, start_ns, draft.end_ns, judged, process.says())
    draft.add(times_ns, draft.choose(name, len(times_ns)), WINDOW, stage.index)
    return len(times_ns)


def _closed(draft: Draft, name: str, process: Closed, length: int | None, count: int | None, judged: bool) -> None:
    """Lay one closed-loop stage down; it follows a closed one before it where either has no known end."""
    before = draft.stages[-1] if draft.spans and draft.spans[-1].stage.index == len(draft.stages) - 1 else None
    unknown = before is not None and (draft.end_ns is None or length is None)
    start_ns = 0 if unknown else draft.end_ns or 0
    end_ns = None if length is None else start_ns + length
    stage = draft.stage(name, start_ns, end_ns, judged, process.says(), before.index if unknown and before is not None else None)
    draft.spans.append(Span(stage, process, count))
    draft.end_ns = None if unknown else end_ns
    draft.loose = end_ns is None
