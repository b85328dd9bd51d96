"""The planned run as others see it: stages, arrivals, sessions."""

from collections.abc import Mapping, Sequence

import msgspec


class Stage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A part of the window with a name. Offsets count from t0 in ns; `end_ns` is None where requests or sessions end it.

    A stage that comes after one without a known end has `follows`, the index of that stage: its offsets count from the
    moment when the last session of that stage has ended, on each worker by itself. For `drain` after such a stage: from
    the moment when nothing of it is left to send. `begins_ns` tells when a stage really began.
    """

    index: int
    name: str
    start_ns: int
    end_ns: int | None
    judged: bool
    says: str  # one line for people: "poisson 10/s"
    follows: int | None = None


class Arrival(msgspec.Struct, frozen=True):
    """The start of one conversation."""

    index: int  # in the whole schedule, over all shards
    offset_ns: int  # from t0
    stage: int
    workload: str
    item: int  # index of the conversation in the workload's dataset


class Sessions(msgspec.Struct, frozen=True):
    """Closed-loop sessions: session s of `count` takes items s, s + count, s + 2 count, ... of its stage's stream, lazily.

    A shard holds the sessions `first, first + step, ...`; what a session does never depends on the shards. Sessions may
    go on through several stages: `stage` is the one in which they start, and a conversation that starts later belongs,
    as any later turn does, to the stage of its own time. Offsets count as those of `stage` do.
    """

    stage: int
    workload: str | None  # None: chosen by weight for each conversation
    count: int
    first: int
    step: int
    start_ns: int
    end_ns: int | None  # no turn starts after it
    ramp_up_ns: int  # session s starts s * ramp_up_ns after start_ns
    think_time_ns: int  # between the end of a conversation and the session's next
    conversations: int | None  # of all sessions together; None: until end_ns
    base: int = 0  # where this group's items and arrival indexes begin, so that no two groups share any


WARMUP, COOLDOWN, DRAIN = "warmup", "cooldown", "drain"
LIVE = "live-"

RESERVED = (WARMUP, COOLDOWN, DRAIN)
"""Stage names that a scenario may not use; neither may it use `live-...`, the stages of the web UI."""


def live_stage(stages: Sequence[Stage], number: int, rate: float, start_ns: int) -> Stage:
    """Return the stage of the web UI's `number`-th change of the rate, from 1 on; it stands behind the planned ones."""
    return Stage(drain_index(stages) + number, f"{LIVE}{number}", start_ns, None, judged=True, says=f"poisson {rate:g}/s")


def begins_ns(stage: Stage, stages: Sequence[Stage], ended: Mapping[int, int]) -> int | None:
    """Return when a stage begins, in ns from t0, by the offsets at which others `ended`; None where nothing tells it yet.

    The drain begins when every other stage is over, as planned or as told. A halt, and a change of the rate, end at once all
    planned stages that have not begun: these never begin.
    """
    if stage.name == DRAIN:
        ends = [_ends_ns(other, ended) for other in stages if other.index != stage.index]
        ends += [at_ns for index, at_ns in ended.items() if index != stage.index]  # also of stages that were not planned
        return None if None in ends else max((end_ns for end_ns in ends if end_ns is not None), default=None)
    base_ns = 0 if stage.follows is None else ended.get(stage.follows)
    if base_ns is None:
        return None
    begin_ns = base_ns + stage.start_ns
    return begin_ns if ended.get(stage.index, begin_ns + 1) > begin_ns else None


def _ends_ns(stage: Stage, ended: Mapping[int, int]) -> int | None:
    base_ns = 0 if stage.follows is None else ended.get(stage.follows)
    planned_ns = None if base_ns is None or stage.end_ns is None else base_ns + stage.end_ns
    return ended.get(stage.index, planned_ns)


def stage_name(stages: Sequence[Stage], index: int) -> str:
    """Return a stage's name; one that was not planned is one of the web UI's."""
    known = {stage.index: stage.name for stage in stages}
    return known.get(index) or f"{LIVE}{index - drain_index(stages)}"


def drain_index(stages: Sequence[Stage]) -> int:
    """Return the index of the drain: that of the stage with its name, else the one behind all stages."""
    return next((stage.index for stage in stages if stage.name == DRAIN), len(stages))
