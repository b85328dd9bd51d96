"""What each workload does in each stage of a plan: conversations, requests, rates, what is in flight."""

import math
from collections.abc import Iterator, Mapping
from itertools import accumulate

import msgspec
import numpy as np

from r1perf.check.expect import Needs, Speed
from r1perf.datasets import Items
from r1perf.metrics import LEAST_S
from r1perf.scenario import Scenario
from r1perf.schedule import Plan, Sessions, Stage
from r1perf.traces import Ints

LOOKED = 1_000
"""Planned conversations whose turns are looked at; the others are taken for the same again."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One workload in one stage; expected figures for closed loops, where `exact` is False.

    `conversations` begin in the stage, `requests` come in it: later turns come in the stage of their own time, and none after the
    window. `most_requests` are all turns of these conversations. `in_flight` is at the stage's end, or at the last arrival where
    later turns go on after it: the requests that began within the time that one lasts. Rates are None below `LEAST_S`.
    """

    stage: str
    judged: bool
    workload: str
    seconds: float
    conversations: float
    requests: float
    most_requests: float
    requests_per_s: float | None
    output_tokens_per_s: float | None
    in_flight: float
    exact: bool

    @property
    def counted(self) -> bool:
        """Tell whether `requests` is exact too: when later turns come is an estimate."""
        return self.exact and self.requests == self.conversations


class Turns(msgspec.Struct, frozen=True):
    """When the requests of a workload's planned conversations begin, and in which stages; `planned` are all their turns by stage.

    Turns that would begin after the window never do, and are in `planned` alone.
    """

    times_ns: Ints
    stage_of: Ints
    planned: dict[int, int]


def turns(plan: Plan, workload: str, items: Items, residence_s: float) -> Turns:
    """Work out when the turns of open-loop conversations begin, where each answer takes `residence_s`."""
    mine = plan.workload_of == plan.workloads.index(workload)
    began_ns, began_in = plan.times_ns[mine], plan.stage_of[mine]
    stages = [stage for stage in plan.stages[:-1] if stage.follows is None]
    starts_ns, indexes = np.array([stage.start_ns for stage in stages]), np.array([stage.index for stage in stages])
    end_ns = stages[-1].end_ns
    after_ns = [[0]]  # of each conversation: how long after its beginning its turns begin
    if items.expected.turns != 1 and len(began_ns):
        asked = plan.items[mine][:LOOKED].tolist()
        after_ns = [_after_ns([turn.think_time_ns for turn in items.conversation(item).turns], residence_s) for item in asked]
    which, lengths = np.arange(len(began_ns)) % len(after_ns), np.array([len(turns) for turns in after_ns])
    times_ns, stage_of, whole = [began_ns], [began_in], lengths[which]
    for turn in range(1, int(lengths.max())):
        has = whole > turn
        later_ns = began_ns[has] + np.array([turns[turn] if len(turns) > turn else 0 for turns in after_ns])[which[has]]
        later_ns = later_ns if end_ns is None else later_ns[later_ns < end_ns]
        times_ns.append(later_ns)
        stage_of.append(indexes[np.searchsorted(starts_ns, later_ns, side="right") - 1])
    planned = {stage.index: int(whole[began_in == stage.index].sum()) for stage in stages}
    return Turns(np.concatenate(times_ns), np.concatenate(stage_of), planned)


def _after_ns(pauses_ns: list[int], residence_s: float) -> list[int]:
    return list(accumulate((round(residence_s * 1e9) + pause_ns for pause_ns in pauses_ns[1:]), initial=0))


def open_rows(plan: Plan, items: Mapping[str, Items], wanted: Mapping[str, Needs], speed: Speed) -> Iterator[Row]:
    """Go through the stages of open-loop arrivals."""
    residence_s = {name: speed.residence_s(wanted[name].output_tokens) for name in plan.workloads}
    found = {name: turns(plan, name, items[name], residence_s[name]) for name in plan.workloads}
    for stage in plan.stages:
        coming_ns = [every.times_ns[every.stage_of == stage.index] for every in found.values()]
        if not any(len(times_ns) for times_ns in coming_ns):
            continue
        # Where requests end a stage, it is open until the last turn of the last conversation.
        end_ns = (
            stage.end_ns if stage.end_ns is not None else max(int(times_ns.max()) for times_ns in coming_ns if len(times_ns)) + 1
        )
        full_ns = stage.end_ns if stage.end_ns is not None else int(plan.times_ns[-1]) + 1
        seconds = (end_ns - stage.start_ns) / 1e9
        for which, (name, here_ns) in enumerate(zip(found, coming_ns, strict=True)):
            if not len(here_ns):
                continue
            times_ns, requests = found[name].times_ns, len(here_ns)
            alive = np.count_nonzero((times_ns < full_ns) & (times_ns >= full_ns - residence_s[name] * 1e9))
            yield Row(
                stage=stage.name, judged=stage.judged, workload=name, seconds=seconds,
                conversations=int(np.count_nonzero((plan.workload_of == which) & (plan.stage_of == stage.index))),
                requests=requests, most_requests=found[name].planned[stage.index], requests_per_s=_rate(requests, seconds),
                output_tokens_per_s=_rate(requests * wanted[name].output_tokens, seconds), in_flight=float(alive), exact=True,
            )  # fmt: skip


def closed_rows(
    scenario: Scenario, plan: Plan, wanted: Mapping[str, Needs], speed: Speed, opened: Mapping[str, float]
) -> Iterator[Row]:
    """Estimate what closed sessions do: a session holds conversations one after the other, at the assumed speed.

    `opened` are the seconds of stages with open-loop arrivals, whose number may end them. Sessions that end within a stage are in
    flight until then.
    """
    weights = {name: workload.share or 0.0 for name, workload in scenario.workload.items()}
    whole = sum(weights.values())
    mixed_s = sum(weight / whole * lasts_s(wanted[name], speed) for name, weight in weights.items() if weight)
    for stage in plan.stages[:-1]:
        groups = [
            (group, (mixed_s if group.workload is None else lasts_s(wanted[group.workload], speed)) + group.think_time_ns / 1e9)
            for group in plan.sessions
            if _in(group, stage, plan)
        ]
        if stage.end_ns is not None:
            seconds = (stage.end_ns - stage.start_ns) / 1e9
        else:
            seconds = opened[stage.name] if stage.name in opened else max((_counted_s(*each) for each in groups), default=0.0)
        for name, need in wanted.items():
            conversations = requests = sessions = answers = 0.0
            for group, cycle in groups:
                share = 1.0 if group.workload == name else weights[name] / whole if group.workload is None else 0.0
                started, least, sat = _started(group, stage, seconds, cycle)
                conversations += max(started, least) * share
                requests += max(started * need.turns, least) * share
                answers += started * need.turns * share
                sessions += sat * share * lasts_s(need, speed, thinking=False) / cycle
            if conversations and seconds:
                yield Row(
                    stage=stage.name, judged=stage.judged, workload=name, seconds=seconds, conversations=conversations,
                    requests=requests, most_requests=requests, requests_per_s=_rate(requests, seconds),
                    output_tokens_per_s=_rate(answers * need.output_tokens, seconds), in_flight=sessions, exact=False,
                )  # fmt: skip


def _rate(number: float, seconds: float) -> float | None:
    return None if seconds < LEAST_S else number / seconds


def _counted_s(group: Sessions, cycle: float) -> float:
    """Return how long a number of conversations takes: whole rounds of the sessions, or of as many as have any."""
    if not group.conversations:
        return 0.0
    working = _working(group)
    return math.ceil(group.conversations / working) * cycle + group.ramp_up_ns / 1e9 * (working - 1)


def _working(group: Sessions) -> int:
    """Return how many sessions have a conversation: no more than there are conversations."""
    return group.count if group.conversations is None else min(group.count, group.conversations)


def _started(group: Sessions, stage: Stage, seconds: float, cycle: float) -> tuple[float, int, int]:
    """Return how many conversations sessions start in a stage, at least how many, and how many sessions are at work at its end.

    However long an answer takes, every session starts a conversation in the stage in which it starts itself.
    """
    most = math.inf if group.conversations is None else group.conversations
    begin = max(0.0, (stage.start_ns - group.start_ns) / 1e9)
    end = begin + seconds if group.end_ns is None else min(begin + seconds, (group.end_ns - group.start_ns) / 1e9)
    (before, sat_before), (after, sat) = (_by(group, at, cycle) for at in (begin, end))
    return max(0.0, min(most, after) - min(most, before)), sat - sat_before, sat


def _by(group: Sessions, at: float, cycle: float) -> tuple[float, int]:
    """Return how many conversations have started so many seconds after the first session, and how many sessions; these start apart."""
    apart, working = group.ramp_up_ns / 1e9, _working(group)
    sat = min(working, math.ceil(at / apart)) if apart else working * (at > 0)
    return (sat * at - apart * sat * (sat - 1) / 2) / cycle, sat


def _in(group: Sessions, stage: Stage, plan: Plan) -> bool:
    """Tell whether sessions are at work in a stage: in that of their start, and in those that they go on through."""
    if group.stage == stage.index or stage.follows is not None or plan.stages[group.stage].follows is not None:
        return group.stage == stage.index
    return group.start_ns <= stage.start_ns and (group.end_ns is None or stage.start_ns < group.end_ns)


def lasts_s(need: Needs, speed: Speed, *, thinking: bool = True) -> float:
    """Return how long a conversation lasts, in seconds."""
    answers = need.turns * speed.residence_s(need.output_tokens)
    return answers + (need.pauses_s if thinking else 0.0)
