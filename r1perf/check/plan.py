"""The plan of a run, before anything is sent: what will come when, how much it is, what it may cost, what looks wrong."""

from collections.abc import Iterator, Mapping

import msgspec
import numpy as np

from r1perf.arrivals import Ramp, Trace
from r1perf.check.expect import Needs, Speed, needs, time_text
from r1perf.datasets import Items
from r1perf.datasets.trace import TraceLengths
from r1perf.scenario import Scenario
from r1perf.scenario.validate import processes
from r1perf.schedule import Plan, Sessions, Stage
from r1perf.target import Price

R1_CONTEXT = 131_072
"""Tokens of prompt and answer together that DeepSeek R1 can hold (its model card: context length 128K)."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One workload in one stage; expected figures for closed loops, where `exact` is False.

    `in_flight` is at the stage's end: by Little's law, conversations that began within the time that one lasts, each at
    work for the share of it that is not think time. In a stage longer than that it is rate * residence time.
    """

    stage: str
    judged: bool
    workload: str
    seconds: float
    conversations: float
    requests: float
    requests_per_s: float
    output_tokens_per_s: float
    in_flight: float
    exact: bool


class Money(msgspec.Struct, frozen=True):
    """What the whole run costs in USD: expected, and at most (every answer as long as it may be); None where that has no bound."""

    expected: float
    most: float | None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a run."""

    scenario: str
    target: str
    digest: str
    stages: tuple[Stage, ...]
    rows: tuple[Row, ...]
    needs: dict[str, Needs]
    speed: Speed
    money: Money | None
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def requests(self) -> float:
        """Return the expected number of requests of the whole run."""
        return sum(row.requests for row in self.rows)

    @property
    def conversations(self) -> float:
        """Return the number of conversations of the whole run; expected where sessions are closed."""
        return sum(row.conversations for row in self.rows)


def check(scenario: Scenario, items: Mapping[str, Items], plan: Plan, speed: Speed | None = None) -> Check:
    """Work the plan out. Nothing is sent, so how fast the target answers is an assumption: `speed`, which can be given."""
    speed = speed or Speed()
    wanted = {
        name: needs(workload, items[name], speed, plan.items[plan.workload_of == plan.workloads.index(name)])
        for name, workload in scenario.workload.items()
    }
    rows = (*_open_rows(plan, wanted, speed), *_closed_rows(scenario, plan, wanted, speed))
    rows = tuple(sorted(rows, key=lambda row: [stage.name for stage in plan.stages].index(row.stage)))
    return Check(
        scenario=scenario.name,
        target=scenario.target.name or f"{scenario.target.url}, {scenario.target.model}",
        digest=plan.digest(),
        stages=plan.stages,
        rows=rows,
        needs=wanted,
        speed=speed,
        money=_money(scenario, plan, rows, wanted, speed),
        assumptions=(speed.says(), *(f"{name}: {says}" for name, need in wanted.items() for says in need.assumed)),
        warnings=(*_left_out(items), *_warnings(scenario, plan, rows, wanted, speed)),
    )


def _open_rows(plan: Plan, wanted: Mapping[str, Needs], speed: Speed) -> Iterator[Row]:
    for stage in plan.stages:
        inside = plan.workload_of[plan.stage_of == stage.index]
        for workload, count in zip(*(part.tolist() for part in np.unique(inside, return_counts=True)), strict=True):
            name, times_ns = plan.workloads[workload], plan.times_ns[plan.workload_of == workload]
            need, end_ns = wanted[name], stage.end_ns if stage.end_ns is not None else int(plan.times_ns[-1]) + 1
            seconds, requests, lasts_s = (end_ns - stage.start_ns) / 1e9, count * need.turns, _lasts(need, speed)
            alive = np.count_nonzero((times_ns < end_ns) & (times_ns >= end_ns - lasts_s * 1e9))
            yield Row(
                stage=stage.name, judged=stage.judged, workload=name, seconds=seconds, conversations=count, requests=requests,
                requests_per_s=requests / seconds, output_tokens_per_s=requests / seconds * need.output_tokens,
                in_flight=float(alive) * _lasts(need, speed, thinking=False) / lasts_s, exact=True,
            )  # fmt: skip


def _closed_rows(scenario: Scenario, plan: Plan, wanted: Mapping[str, Needs], speed: Speed) -> Iterator[Row]:
    """Estimate what closed sessions do: a session holds conversations one after the other, at the assumed speed."""
    weights = {name: workload.share or 0.0 for name, workload in scenario.workload.items()}
    whole = sum(weights.values())
    for stage in plan.stages[:-1]:
        for name in plan.workloads:
            groups = [s for s in plan.sessions if _in(s, stage, plan) and s.workload in (None, name)]
            share = {None: weights[name] / whole if whole else 0.0, name: 1.0}
            conversations = requests = sessions = answers_per_s = 0.0
            seconds: float | None = None
            need = wanted[name]
            for group in groups:
                mean = (
                    sum(weights[w] / whole * _lasts(wanted[w], speed) for w in plan.workloads)
                    if group.workload is None
                    else _lasts(need, speed)
                )
                cycle = mean + group.think_time_ns / 1e9
                if group.conversations is not None:
                    started, seconds = float(group.conversations), group.conversations * cycle / group.count
                    asked = started * need.turns
                else:
                    seconds = ((stage.end_ns or 0) - stage.start_ns) / 1e9
                    # However long an answer takes, every session sends a first request in the stage that it starts in.
                    least = 1.0 if group.stage == stage.index else 0.0
                    started = group.count * max(seconds / cycle, least)
                    asked = group.count * max(seconds / cycle * need.turns, least)
                conversations += started * share[group.workload]
                requests += asked * share[group.workload]
                sessions += group.count * share[group.workload] * _lasts(need, speed, thinking=False) / cycle
                answers_per_s += group.count * share[group.workload] * need.turns / cycle
            if conversations and seconds:
                yield Row(
                    stage=stage.name, judged=stage.judged, workload=name, seconds=seconds, conversations=conversations,
                    requests=requests, requests_per_s=requests / seconds, output_tokens_per_s=answers_per_s * need.output_tokens,
                    in_flight=sessions, exact=False,
                )  # fmt: skip


def _in(group: Sessions, stage: Stage, plan: Plan) -> bool:
    """Tell whether sessions are at work in a stage: in that of their start, and in those that they go on through."""
    if group.stage == stage.index or stage.follows is not None or plan.stages[group.stage].follows is not None:
        return group.stage == stage.index
    after = group.end_ns is None or stage.start_ns < group.end_ns
    return group.conversations is None and group.start_ns <= stage.start_ns and after


def _lasts(need: Needs, speed: Speed, *, thinking: bool = True) -> float:
    """Return how long a conversation lasts, in seconds."""
    answers = need.turns * speed.residence_s(need.output_tokens)
    return answers + (need.pauses_s if thinking else 0.0)


def _money(scenario: Scenario, plan: Plan, rows: tuple[Row, ...], wanted: Mapping[str, Needs], speed: Speed) -> Money | None:
    price, system = scenario.target.price, scenario.target.system
    if price.gpu_hour is not None and system.gpus is not None:
        last_s = max((speed.residence_s(need.output_tokens) for need in wanted.values()), default=0.0)
        window_s = sum({row.stage: row.seconds for row in rows}.values())
        hours = (window_s + last_s) / 3600
        return Money(hours * price.gpu_hour * system.gpus, None)
    if price.input_per_1m is None and price.output_per_1m is None:
        return None
    expected = sum(
        row.requests * _cost(price, wanted[row.workload].input_tokens, wanted[row.workload].output_tokens) for row in rows
    )
    bounds = [wanted[row.workload].most_output_tokens for row in rows]
    if any(bound is None for bound in bounds):
        return Money(expected, None)
    most = sum(
        row.requests * _cost(price, wanted[row.workload].input_tokens, bound or 0)
        for row, bound in zip(rows, bounds, strict=True)
    )
    return Money(expected, most)


def _cost(price: Price, input_tokens: float, output_tokens: float) -> float:
    return ((price.input_per_1m or 0.0) * input_tokens + (price.output_per_1m or 0.0) * output_tokens) / 1e6


def _warnings(scenario: Scenario, plan: Plan, rows: tuple[Row, ...], wanted: Mapping[str, Needs], speed: Speed) -> Iterator[str]:
    timeouts, target = scenario.target.timeouts, scenario.target
    for path, process in processes(scenario):
        if isinstance(process, Ramp) and not process.start and scenario.warmup and path in ("arrivals", "arrivals.stages[0]"):
            yield f"`{path}.start` is 0, so the warmup in front of it sends nothing"
    yield from _traces(scenario)
    for name, need in wanted.items():
        room = scenario.workload[name].max_tokens
        if not need.bounded:
            yield f"{name}: no `max_tokens`, so the server's own default ends its answers; nothing bounds what they cost"
        if need.cut:
            yield f"{name}: answers of about {need.wished:,.0f} tokens are cut at {need.most_output_tokens:,}: most will be `truncated`"
        if room is not None and room + need.input_tokens > R1_CONTEXT:
            yield f"{name}: `max_tokens` {room:,} and prompts of {need.input_tokens:,.0f} tokens do not fit into R1's {R1_CONTEXT:,}"
        longest = need.most_output_tokens or need.output_tokens
        if speed.residence_s(longest) > timeouts.total / 1e9:
            yield (
                f"{name}: an answer of {longest:,.0f} tokens takes {time_text(speed.residence_s(longest))}, "
                f"longer than `target.timeouts.total` ({timeouts.total}): it would count as a timeout"
            )
    for row in rows:
        took = speed.residence_s(wanted[row.workload].output_tokens)
        if row.judged and row.exact and took > row.seconds:
            yield (
                f"{row.workload}: answers take about {time_text(took)}, longer than the stage {row.stage} ({time_text(row.seconds)}): requests in "
                f"flight grow to its end, so its throughput and E2E describe the window, not the system"
            )
        if row.judged and row.requests < 100:
            yield f"{row.workload}: about {row.requests:,.0f} requests in the stage {row.stage}: its p99 is one of the largest values"
    for stage in plan.stages:
        flight = sum(row.in_flight for row in rows if row.stage == stage.name)
        if flight > target.max_in_flight:
            yield (
                f"stage {stage.name}: about {flight:,.0f} requests in flight, over `target.max_in_flight` ({target.max_in_flight:,}): "
                f"arrivals would wait here, and their delay counts"
            )
    if scenario.requests is not None and any(need.turns > 1 for need in wanted.values()):
        yield f"`requests` = {scenario.requests:,} counts expected turns: conversations differ in length, so the run will have about as many"
    if not any(row.judged for row in rows):
        yield "no request falls into a judged stage: there will be nothing to report"


def _left_out(items: Mapping[str, Items]) -> Iterator[str]:
    """Tell what of the files is not asked."""
    for name, loaded in items.items():
        if says := getattr(loaded, "left_out", None):
            yield f"{name}: {says}"


def _traces(scenario: Scenario) -> Iterator[str]:
    """Tell where lengths and arrivals are of traces and do not belong together, row by row."""
    sharing = [name for name, workload in scenario.workload.items() if workload.share]
    for name, workload in scenario.workload.items():
        arrivals = scenario.arrivals if workload.arrivals is None else workload.arrivals
        dataset = workload.dataset
        if not isinstance(dataset, TraceLengths) or not isinstance(arrivals, Trace):
            continue
        apart = [key for key in ("file", "start", "length", "speed", "rate") if getattr(dataset, key) != getattr(arrivals, key)]
        if apart:
            keys = " and ".join(f"`{key}`" for key in apart)
            yield f"{name}: arrivals and lengths are of different replays ({keys} differ): no arrival meets its own lengths"
        elif workload.arrivals is None and len(sharing) > 1:
            yield (
                f"{name}: its share of the trace's arrivals takes the trace's lengths in order, so no arrival meets its own; "
                f"give the workload arrivals of its own for that"
            )
