"""The plan of a run, before anything is sent: what will come when, how much it is, what it may cost, what looks wrong."""

import math
from collections.abc import Iterator, Mapping

import msgspec

from r1perf.arrivals import Ramp, Trace
from r1perf.check.expect import Needs, Speed, needs, time_text
from r1perf.check.limits import limited
from r1perf.check.rows import Row, closed_rows, lasts_s, open_rows
from r1perf.datasets import Items
from r1perf.datasets.trace import TraceLengths
from r1perf.metrics import LEAST_S
from r1perf.scenario import Scenario
from r1perf.scenario.validate import processes
from r1perf.schedule import Plan, Stage

R1_CONTEXT = 131_072
"""Tokens of prompt and answer together that DeepSeek R1 can hold (its model card: context length 128K)."""


TAIL = 0.05
"""A stage that goes on for later turns alone says so from this share of it on."""


class Money(msgspec.Struct, frozen=True):
    """What the whole run costs in USD: expected, and at most (every answer as long as it may be); None where that has no bound.

    `capped`: the most is that of `stop.cost`.
    """

    expected: float
    most: float | None
    capped: bool = False


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
    def longest_s(self) -> float:
        """Return how long a request of the slowest workload stays."""
        return max(self.speed.residence_s(need.output_tokens) for need in self.needs.values())

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
    opened = tuple(open_rows(plan, items, wanted, speed))
    rows = (*opened, *closed_rows(scenario, plan, wanted, speed, {row.stage: row.seconds for row in opened}))
    rows = tuple(sorted(rows, key=lambda row: [stage.name for stage in plan.stages].index(row.stage)))
    money = _money(scenario, plan, rows, wanted, speed)
    return Check(
        scenario=scenario.name,
        target=scenario.target.name or f"{scenario.target.url}, {scenario.target.model}",
        digest=plan.digest(),
        stages=plan.stages,
        rows=rows,
        needs=wanted,
        speed=speed,
        money=money,
        assumptions=(
            speed.says(),
            *(f"{name}: {says}" for name, need in wanted.items() for says in need.assumed),
            *(f"{name}: no input token is cached" for name, need in wanted.items() if need.uncached(scenario.target.price)),
        ),
        warnings=(
            *_left_out(items),
            *limited(scenario, items, rows, wanted, money.expected if money and scenario.target.price.gpu_hour is None else None),
            *_warnings(scenario, plan, rows, wanted, speed),
        ),
    )


def _money(scenario: Scenario, plan: Plan, rows: tuple[Row, ...], wanted: Mapping[str, Needs], speed: Speed) -> Money | None:
    price, system = scenario.target.price, scenario.target.system
    if price.gpu_hour is not None and system.gpus is not None:
        last_s = max((speed.residence_s(need.output_tokens) for need in wanted.values()), default=0.0)
        window_s = sum({row.stage: row.seconds for row in rows}.values())
        hours = (window_s + last_s) / 3600
        return Money(hours * price.gpu_hour * system.gpus, None)
    if price.input_per_1m is None and price.output_per_1m is None:
        return None
    expected = sum(row.requests * wanted[row.workload].cost(price, wanted[row.workload].output_tokens) for row in rows)
    bounds, most = [wanted[row.workload].most_output_tokens for row in rows], math.inf
    if None not in bounds:
        most = sum(
            row.most_requests * wanted[row.workload].most_cost(price, bound or 0) for row, bound in zip(rows, bounds, strict=True)
        )
    limit = math.inf if scenario.stop.cost is None else scenario.stop.cost
    return Money(expected, None if most == limit == math.inf else min(most, limit), capped=limit < most)


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
        if need.lengthened:
            yield f"{name}: {need.lengthened * 100:.1f} % of its prompts are longer than asked: the template and one word have more tokens"
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
    for name in wanted:
        if rows and not any(row.workload == name for row in rows):
            why = "" if scenario.workload[name].share is None else ": its `weight` is too small beside the others'"
            yield f"{name}: no request of it is planned{why}"
    for row in rows:
        took = speed.residence_s(wanted[row.workload].output_tokens)
        if row.judged and row.exact and took > row.seconds >= LEAST_S:
            yield (
                f"{row.workload}: answers take about {time_text(took)}, longer than the stage {row.stage} ({time_text(row.seconds)}): requests in "
                f"flight grow to its end, so its throughput and E2E describe the window, not the system"
            )
        elif row.exact and (says := _outlasting(row, plan, rows, wanted[row.workload], speed)) is not None:
            yield says
        if row.judged and row.requests < 100:
            yield f"{row.workload}: about {row.requests:,.0f} requests in the stage {row.stage}: its p99 is one of the largest values"
    for stage in plan.stages:
        flight = sum(row.in_flight for row in rows if row.stage == stage.name)
        if flight > target.max_in_flight:
            yield (
                f"stage {stage.name}: about {flight:,.0f} requests in flight, over `target.max_in_flight` ({target.max_in_flight:,}): "
                f"arrivals would wait here, and their delay counts"
            )
    if plan.short is not None:
        yield plan.short
    elif scenario.requests is not None and any(need.turns > 1 for need in wanted.values()):
        yield f"`requests` = {scenario.requests:,} counts expected turns: conversations differ in length, so the run will have about as many"
    if not any(row.judged for row in rows):
        yield "no request falls into a judged stage: there will be nothing to report"


def _outlasting(row: Row, plan: Plan, rows: tuple[Row, ...], need: Needs, speed: Speed) -> str | None:
    """Say that conversations do not end in a stage, or that a stage goes on for their sake."""
    stage = next(stage for stage in plan.stages if stage.name == row.stage)
    if stage.end_ns is None:
        tail_s = row.seconds - (int(plan.times_ns[-1]) - stage.start_ns) / 1e9
        if tail_s < TAIL * row.seconds or row.workload != next(other.workload for other in rows if other.stage == row.stage):
            return None
        return (
            f"stage {row.stage}: later turns go on for about {time_text(tail_s)} after the last arrival, and rates are over all of it: "
            f"`duration` ends them with the arrivals"
        )
    lasts = lasts_s(need, speed)
    if not row.judged or need.turns == 1 or lasts <= row.seconds:
        return None
    mine = [other for other in rows if other.workload == row.workload and other.exact]
    never = sum(other.most_requests - other.requests for other in mine)
    where = f"about {never:,.0f} of their turns never begin" if never else "later turns come in later stages"
    return f"{row.workload}: conversations last about {time_text(lasts)}, longer than the stage {row.stage} ({time_text(row.seconds)}): {where}"


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
