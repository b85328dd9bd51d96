"""Say, for `--collect-only`, what would be sent, how long it takes, what it costs, and how many requests each clause needs."""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from pytest_r1perf.markers import CONFIDENCE, Promise
from pytest_r1perf.options import Options
from pytest_r1perf.sources import Live, Recorded, Source, Sources
from pytest_r1perf.targets import Target
from r1perf.budget import usd
from r1perf.check import Check
from r1perf.check.expect import time_text
from r1perf.errors import R1perfError, UsageError
from r1perf.preflight import api_key
from r1perf.providers.registry import check_length
from r1perf.scenario import Scenario
from r1perf.sla import parse, terms
from r1perf.sla.foresight import foresee_in


@dataclasses.dataclass(frozen=True)
class Asked:
    """One item, which `test` made, its clause where it has one, and what it is to be judged on."""

    item: str
    test: str
    source: Source
    target: Target
    promise: Promise | None


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
        yield from (f"  {parse(promise.clause)}" for promise in _promises(members))  # it has what it has
        return
    scenario, made = _checked(source, target, members, sources, options)
    yield f"{made.scenario} on {made.target}"
    yield from (f"  for   {test}" for test in tests)
    yield f"  load  {_load(made, source.load.repeat, options)}"
    yield from (f"  {line}" for line in _clauses(members, made, scenario))
    yield from (f"  warning: {text}" for text in made.warnings)
    try:
        api_key(scenario.target)
    except UsageError as error:  # the key may be where the load is to be sent, and not here
        yield f"  warning: a load cannot be sent from here: {error}"


def _checked(live: Live, target: Target, members: Iterable[Asked], sources: Sources, options: Options) -> tuple[Scenario, Check]:
    """Check what a run would, but for what only its target can tell; raises R1perfError."""
    limits = {"cost": options.max_cost, "requests": options.max_requests}
    prepared = sources.prepared(live, target, _promises(members), limits)
    scenario = prepared.scenario
    items = scenario.items(prepared.base)
    for loaded in items.values():
        check_length(scenario.target, loaded.conversation(0).turns[0].output_tokens)
    from r1perf.cli.pace import paced  # a plan alone needs it, and it loads the simulated endpoint

    made = paced(scenario, items, scenario.plan(items, prepared.base))
    terms(scenario, [(stage.name, stage.judged) for stage in made.stages], items)
    return scenario, made


def _load(made: Check, repeat: int, options: Options) -> str:
    seconds = sum({row.stage: row.seconds for row in made.rows}.values())
    times = "" if repeat == 1 else f"{repeat} runs, each "
    parts = [f"{times}{time_text(seconds)} of arrivals, then what is in flight", f"about {made.requests:,.0f} requests"]
    if made.money is not None:
        most = "" if made.money.most is None else f", at most {usd(made.money.most, 3)}"
        parts.append(f"about {usd(made.money.expected, 3)}{most}")
    if options.max_requests is not None and made.requests * repeat > options.max_requests:
        parts.append(f"stopped after {options.max_requests:,} requests, before it ends (--r1-max-requests)")
    if options.max_cost is not None:
        parts.append(f"stopped before it costs more than {usd(options.max_cost)} (--r1-max-cost)")
    return "; ".join(parts)


def _promises(members: Iterable[Asked]) -> list[Promise]:
    return list(dict.fromkeys(one.promise for one in members if one.promise is not None))


def _clauses(members: Iterable[Asked], made: Check, scenario: Scenario) -> Iterator[str]:
    """Go through the clauses, with what each needs of a load."""
    promises = _promises(members)
    texts = [str(parse(promise.clause)) for promise in promises]
    width = max(map(len, texts), default=0)
    for text, promise in zip(texts, promises, strict=True):
        yield f"{text:<{width}}  {_needs(promise, made, scenario)}"


def _needs(promise: Promise, made: Check, scenario: Scenario) -> str:
    sent, confidence = _sent(made, scenario.stop.requests), promise.confidence or CONFIDENCE
    interval_s = int(scenario.interval) / 1e9
    foreseen = foresee_in(made, parse(promise.clause), confidence=confidence, interval_s=interval_s, sent=sent)
    if all(share == 1 for share in sent.values()) or foreseen.enough is False:
        return foreseen.says
    return f"{foreseen.says}: stopped before its end it cannot pass"


def _sent(made: Check, most: int | None) -> dict[str, float]:
    """Return the share of each stage's requests that a ceiling on all of them lets start; the stages come one after the other."""
    left, shares = math.inf if most is None else float(most), dict[str, float]()
    for stage in made.stages:
        planned = sum(row.requests for row in made.rows if row.stage == stage.name)
        shares[stage.name] = min(1.0, left / planned) if planned else 1.0
        left = max(0.0, left - planned)
    return shares
