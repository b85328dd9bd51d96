"""Say, for `--collect-only`, what would be sent, how long it takes, what it costs, and how many requests each clause needs."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_r1perf.markers import CONFIDENCE, Promise
from pytest_r1perf.options import Options
from pytest_r1perf.sources import Live, Recorded, Source, Sources
from pytest_r1perf.targets import Target
from r1perf.check import Check, check
from r1perf.check.expect import time_text
from r1perf.errors import R1perfError
from r1perf.sla import Clause, parse
from r1perf.sla.binomial import attempts_for_power, attempts_to_pass
from r1perf.sla.clauses import Quantile
from r1perf.sla.compile import allowed

POWER = 0.8


@dataclasses.dataclass(frozen=True)
class Asked:
    """One clause of one item, which `test` made, and what it is to be judged on."""

    item: str
    test: str
    source: Source
    target: Target
    promise: Promise


class Planner:
    """Show the plan at the end of the session, and make a command wrong whose plan cannot be carried out."""

    def __init__(self, asked: Sequence[Asked], sources: Sources, options: Options) -> None:
        self._asked, self._sources, self._options = asked, sources, options
        self._plan = Plan((), possible=True)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Make the plan; its exit code is that of a wrong command."""
        self._plan = plan(self._asked, self._sources, self._options)
        if not self._plan.possible and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the plan."""
        if self._plan.lines:
            terminalreporter.section("SLA plan")
            for line in self._plan.lines:
                terminalreporter.line(line)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The lines of a plan, and whether all of it can be carried out."""

    lines: tuple[str, ...]
    possible: bool


def plan(asked: Sequence[Asked], sources: Sources, options: Options) -> Plan:
    """Return the plan. Datasets are loaded and arrivals drawn; nothing is sent."""
    groups: dict[tuple[str, str], list[Asked]] = {}
    for one in asked:
        groups.setdefault((one.source.key, repr(one.target)), []).append(one)
    lines, possible = list[str](), True
    for members in groups.values():
        if lines:
            lines.append("")
        try:
            lines += list(_group(members, sources, options))
        except R1perfError as error:
            source = members[0].source
            lines.append(f"ERROR: {'' if isinstance(source, Recorded) else f'{Path(source.scenario).stem}: '}{error}")
            lines += (f"  for   {test}" for test in _tests(members))
            possible = False
    return Plan(tuple(lines), possible)


def _tests(members: Iterable[Asked]) -> list[str]:
    return list(dict.fromkeys(one.test for one in members))


def _group(members: list[Asked], sources: Sources, options: Options) -> Iterator[str]:
    source, target = members[0].source, members[0].target
    tests = _tests(members)
    if isinstance(source, Recorded):
        runs = sources.chosen(source, target)
        yield f"recorded, no load is sent: {', '.join(str(path) for path, _ in runs)}"
        yield from (f"  for   {test}" for test in tests)
        yield from (f"  {line}" for line in _clauses(members, None))
        return
    made = _checked(source, target, members, sources, options)
    yield f"{made.scenario} on {made.target}"
    yield from (f"  for   {test}" for test in tests)
    yield f"  load  {_load(made, source.load.repeat, options)}"
    yield from (f"  {line}" for line in _clauses(members, made))
    yield from (f"  warning: {text}" for text in made.warnings)


def _checked(live: Live, target: Target, members: Iterable[Asked], sources: Sources, options: Options) -> Check:
    limits = {"cost": options.max_cost, "requests": options.max_requests}
    prepared = sources.prepared(live, target, [one.promise for one in members], limits)
    items = prepared.scenario.items(prepared.base)
    return check(prepared.scenario, items, prepared.scenario.plan(items, prepared.base))


def _load(made: Check, repeat: int, options: Options) -> str:
    seconds = sum({row.stage: row.seconds for row in made.rows}.values())
    times = "" if repeat == 1 else f"{repeat} runs, each "
    parts = [f"{times}{time_text(seconds)} of arrivals, then what is in flight", f"about {made.requests:,.0f} requests"]
    if made.money is not None:
        most = "" if made.money.most is None else f", at most ${made.money.most:,.2f}"
        parts.append(f"about ${made.money.expected:,.2f}{most}")
    if options.max_requests is not None and made.requests * repeat > options.max_requests:
        parts.append(f"stopped after {options.max_requests:,} requests, before it ends (--r1-max-requests)")
    if options.max_cost is not None:
        parts.append(f"stopped before it costs more than ${options.max_cost:,.2f} (--r1-max-cost)")
    return "; ".join(parts)


def _clauses(members: Iterable[Asked], made: Check | None) -> Iterator[str]:
    promises = list(dict.fromkeys(one.promise for one in members))
    width = max((len(promise.clause) for promise in promises), default=0)
    for promise in promises:
        yield f"{promise.clause:<{width}}  {_needs(parse(promise.clause), promise.confidence or CONFIDENCE, made)}"


def _needs(clause: Clause, confidence: float, made: Check | None) -> str:
    share = allowed(clause)
    if share is None:
        return "no number of requests is known: it depends on how much it varies"
    alpha = 1 - confidence
    things = "gaps" if isinstance(clause.aggregate, Quantile) and clause.aggregate.metric == "itl" else "requests"
    least, likely = attempts_to_pass(0, share, alpha), attempts_for_power(share, share / 2, POWER, alpha)
    text = f"needs {least:,} {things} without a miss, {likely:,} where half of what may does miss ({POWER:.0%} of runs then pass)"
    if made is None or things == "gaps":
        return text
    planned = _planned(clause, made)
    return f"{text}; planned {planned:,.0f}" + (", too few to pass" if planned < least else "")


def _planned(clause: Clause, made: Check) -> float:
    workload = clause.select("workload")
    return sum(
        row.requests
        for row in made.rows
        if row.judged and workload in (None, row.workload) and clause.during in (None, row.stage)
    )
