"""Plan a run: the main arrivals, those of workloads with their own, merged by time; then items for everyone."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from r1perf.arrivals import AnyArrivals, AnyStage, Closed, Open, Ramp, Stream
from r1perf.errors import ScenarioError
from r1perf.schedule.closed import UNKNOWN, groups
from r1perf.schedule.draft import AFTER, BEFORE, WINDOW, Draft, Ints, Share
from r1perf.schedule.layout import alone_ns, lay_main, length_ns, processes_of
from r1perf.schedule.model import COOLDOWN, DRAIN, WARMUP, Sessions
from r1perf.schedule.planned import Plan
from r1perf.units import Duration

_NONE = np.empty(0, dtype=np.int64)


def plan(
    shares: Mapping[str, Share],
    arrivals: AnyArrivals | None,
    *,
    seed: int,
    duration: Duration | None = None,
    requests: int | None = None,
    warmup: Duration | None = None,
    cooldown: Duration | None = None,
) -> Plan:
    """Plan the whole run from the seed; raises ScenarioError where the parts do not make a run.

    `requests` (warmup and cooldown apart) ends the window instead of `duration`; it counts requests where conversations
    have one turn, and expected turns otherwise. With stages, `duration` stretches them all to this sum. Times, workload
    choices and items come from streams of their own, those of a stage named after it: a change to one stage, one weight
    or the warmup leaves the rest as it was. Items count up from 0 in each workload, in the window's order first.
    """
    draft, before, after = Draft(shares, seed), int(warmup or 0), int(cooldown or 0)
    window = None if duration is None else int(duration)
    own = {name: share.arrivals for name, share in shares.items() if share.arrivals is not None}
    processes, missing = processes_of(arrivals, duration), 0.0
    if processes:
        missing = draft.turns * lay_main(draft, processes, duration=window, requests=requests, warmup=before)
        if own and draft.end_ns is None:
            raise ScenarioError("arrivals", "must end by duration where a workload has arrivals of its own")
    else:
        _lay_own(draft, own, duration=window, requests=requests, warmup=before)
    ends = {name: _draw_own(draft, name, law, requests, before) for name, law in own.items() if isinstance(law, Open)}
    if draft.end_ns is None and ends:
        end_ns, loose = max(ends.values())
        draft.end(end_ns, loose=loose)
    if own and requests is not None:
        missing = _cut(draft, requests)
        missing = 0.0 if draft.spans or any(isinstance(law, Closed) for law in own.values()) else missing
    if after:
        _cool(draft, processes, own, {name: end_ns for name, (end_ns, _) in ends.items()}, before, after)
    times_ns, which, stage_of, section = _merged(draft)
    _close(draft)
    return Plan(
        seed=seed, stages=tuple(draft.stages), sessions=_sessions(draft, own, before, len(times_ns)), workloads=draft.names, mix=draft.mix,
        times_ns=times_ns, stage_of=stage_of, workload_of=which, items=_items(which, section, len(draft.names)),
        short=_short(processes or list(own.values()), requests or 0, missing),
    )  # fmt: skip


def _lay_own(draft: Draft, own: Mapping[str, AnyStage], *, duration: int | None, requests: int | None, warmup: int) -> None:
    """Lay out the one stage of a run in which every workload has arrivals of its own."""
    lengths = [length_ns(process) for process in own.values()]
    length = duration
    if length is None and requests is None and None not in lengths:
        length = max(n for n in lengths if n is not None)
    if length is None and (requests is None or any(isinstance(process, Closed) for process in own.values())):
        raise ScenarioError("duration", "is missing: workloads with arrivals of their own need to know when the window ends")
    if requests is not None and all(isinstance(process, Closed) for process in own.values()):
        each = f"workload.{next(iter(own))}.arrivals.requests"
        raise ScenarioError("requests", f"does not go with closed-loop arrivals alone; give each workload its own, as `{each}`")
    if warmup:
        draft.stage(WARMUP, 0, warmup, False, "each workload at its starting rate")
    draft.end_ns = None if length is None else warmup + length
    draft.stage("main", warmup, draft.end_ns, True, "; ".join(f"{name}: {process.says()}" for name, process in own.items()))


def _draw_own(draft: Draft, name: str, process: Open, requests: int | None, warmup: int) -> tuple[int, bool]:
    """Draw one workload's own arrivals over warmup and window; return when they end, and whether their number ends them."""
    turns, which, stream = draft.shares[name].turns, draft.names.index(name), _own_stream(draft, name)
    window = None if draft.end_ns is None else draft.end_ns - warmup
    length = min((n for n in (alone_ns(process), window) if n is not None), default=None)
    wanted = process.requests if process.requests is not None else requests
    count = None if wanted is None else math.ceil(wanted / turns)
    times_ns = draft.times(process, stream, warmup, length, count, turns, _own_path(name))
    draft.add(times_ns, np.full(len(times_ns), which, dtype=np.int64), WINDOW, None)
    if warmup:
        _steady_own(draft, name, process.at_rate(process.rates()[0]), stream / WARMUP, 0, warmup, BEFORE)
    counted = len(times_ns) == count
    return (int(times_ns[-1]) + 1 if counted else warmup + (length or 0)), counted


def _steady_own(draft: Draft, name: str, law: Open, stream: Stream, start_ns: int, length_ns: int, section: int) -> None:
    """Draw one workload's own arrivals over warmup or cooldown."""
    times_ns = draft.times(law, stream, start_ns, length_ns, None, draft.shares[name].turns, _own_path(name))
    draft.add(times_ns, np.full(len(times_ns), draft.names.index(name), dtype=np.int64), section, None)


def _own_stream(draft: Draft, name: str) -> Stream:
    return Stream(draft.seed, "times", "workload", name)


def _own_path(name: str) -> str:
    return f"workload.{name}.arrivals"


def _short(processes: list[AnyStage], requests: int, missing: float) -> str | None:
    """Say that fewer than `requests` come; None where all do."""
    if missing < 0.5:
        return None
    last = processes[-1]
    why = "the ramp ends at 0/s" if isinstance(last, Ramp) and not last.end else "the arrivals end before `requests`"
    return f"{why}: about {requests - missing:,.0f} of {requests:,} requests come"


def _cut(draft: Draft, requests: int) -> float:
    """End the window where everybody's turns add up to `requests`: stages' own counts cannot see the other workloads' arrivals.

    Returns how many turns are missing to that.
    """
    parts = [part for part in draft.drawn if part.section == WINDOW]
    times_ns = np.concatenate([_NONE, *(part.times_ns for part in parts)])
    which = np.concatenate([_NONE, *(part.workload_of for part in parts)])
    order = np.argsort(times_ns, kind="stable")
    turns = np.array([draft.shares[name].turns for name in draft.names])
    coming = np.cumsum(turns[which[order]])
    reached = np.flatnonzero(coming >= requests - 1e-9)
    if not len(reached):
        return requests - float(coming[-1] if len(coming) else 0.0)
    last = order[reached[0]]
    kept = np.zeros(len(order), dtype=np.bool_)
    kept[order[: reached[0] + 1]] = True
    draft.keep(WINDOW, kept)
    draft.end(int(times_ns[last]) + 1, loose=True)
    return 0.0


def _cool(
    draft: Draft, processes: list[AnyStage], own: Mapping[str, AnyStage], ends: Mapping[str, int], warmup: int, cooldown: int
) -> None:
    """Lay cooldown down behind the window, at the last rates of it: arrivals that `ends` or a ramp's `hold` ended before it stay away."""
    end_ns = draft.end_ns
    if end_ns is None:
        raise ScenarioError("cooldown", "needs a window that ends by duration, not by closed-loop requests")
    if processes:
        last = len(draft.stages) - (1 if warmup else 0)  # requests may have ended the window before the others
        process = processes[last - 1]
        held_ns = alone_ns(process) if isinstance(process, Ramp) else None
        over = held_ns is not None and draft.stages[-1].start_ns + held_ns < end_ns
        draft.steady(COOLDOWN, process, end_ns, cooldown, over=over)
    else:
        draft.stage(COOLDOWN, end_ns, end_ns + cooldown, False, "each workload at its last rate")
    for name, process in own.items():
        if isinstance(process, Open) and ends[name] >= end_ns:
            law, stream = process.at_rate(process.rates()[1]), _own_stream(draft, name) / COOLDOWN
            _steady_own(draft, name, law, stream, end_ns, cooldown, AFTER)


def _merged(draft: Draft) -> tuple[Ints, Ints, Ints, Ints]:
    """Return times, workloads, stages and sections of all arrivals, by time; equal times keep the order of drawing."""
    starts = np.array([stage.start_ns for stage in draft.stages])
    stages = [
        np.searchsorted(starts, part.times_ns, side="right") - 1
        if part.stage is None
        else np.full(len(part.times_ns), part.stage)
        for part in draft.drawn
    ]
    times_ns = np.concatenate([_NONE, *(part.times_ns for part in draft.drawn)])
    order = np.argsort(times_ns, kind="stable")
    which = np.concatenate([_NONE, *(part.workload_of for part in draft.drawn)])[order]
    section = np.concatenate([_NONE, *(np.full(len(part.times_ns), part.section) for part in draft.drawn)])[order]
    return times_ns[order], which, np.concatenate([_NONE, *stages])[order].astype(np.int64), section


def _close(draft: Draft) -> None:
    """End the last stage of the window, and append the home of what happens after it."""
    if draft.stages[-1].name == COOLDOWN:
        end_ns = draft.stages[-1].end_ns or 0
        draft.stage(DRAIN, end_ns, None, False, "what is in flight")
        return
    last = draft.stages[-1]
    if draft.loose:
        draft.stages[-1] = msgspec.structs.replace(last, end_ns=None)
    if draft.loose or draft.end_ns is None:
        draft.stage(DRAIN, 0, None, False, "what is in flight", last.index)
    else:
        draft.stage(DRAIN, draft.end_ns, None, False, "what is in flight")


def _sessions(draft: Draft, own: Mapping[str, AnyStage], warmup: int, base: int) -> tuple[Sessions, ...]:
    """Return all groups of sessions; their items and indexes begin after the open-loop arrivals'.

    A workload's own sessions are at work from the start of warmup to the end of cooldown; where a number of requests ends them, from the
    start of the window.
    """
    made = list(groups(draft.spans, base))
    base = max((s.base + (s.conversations if s.conversations is not None else UNKNOWN) for s in made), default=base)
    drain = draft.stages[-1]
    last_ns = drain.start_ns if drain.follows is None else draft.end_ns or 0
    for name, process in own.items():
        if isinstance(process, Closed):
            wanted = None if process.requests is None else math.ceil(process.requests / draft.shares[name].turns)
            stage = 1 if warmup and wanted is not None else 0
            end_ns = last_ns if process.duration is None else min(last_ns, warmup + int(process.duration))
            made.append(
                Sessions(
                    stage=stage, workload=name, count=process.sessions, first=0, step=1, start_ns=draft.stages[stage].start_ns, end_ns=end_ns,
                    ramp_up_ns=int(process.ramp_up), think_time_ns=int(process.think_time), conversations=wanted, base=base,
                )
            )  # fmt: skip
            base += UNKNOWN if wanted is None else wanted
    return tuple(made)


def _items(which: Ints, section: Ints, workloads: int) -> Ints:
    """Number each workload's arrivals: those of the window first, so that warmup and cooldown do not shift them."""
    items = np.empty(len(which), dtype=np.int64)
    for workload in range(workloads):
        places = np.flatnonzero(which == workload)
        order = places[np.argsort(section[places], kind="stable")]
        items[order] = np.arange(len(order))
    return items
