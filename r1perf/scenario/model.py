"""A scenario: what to run and what must hold, as frozen structs."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated
from urllib.parse import parse_qsl

import msgspec

from r1perf.arrivals import AnyArrivals, AnyStage, Stages, Stream, Trace
from r1perf.datasets import Items, Told, silent
from r1perf.errors import DatasetError, ScenarioError
from r1perf.scenario.sinks import Sinks
from r1perf.schedule import Plan, Share, plan
from r1perf.target import SIMULATED, Name, Positive, Target
from r1perf.units import Duration, Tokens
from r1perf.workload import Workload

DEFAULT_URL, DEFAULT_MODEL = SIMULATED + "r1-16xh100", "deepseek-r1"

Count = Annotated[int, msgspec.Meta(gt=0)]


class ErrorRate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stop where more than the share `above` of the requests that ended in the last `window` failed."""

    above: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    window: Duration = Duration.parse("30s")


class Stop(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Hard limits: the run takes no new arrivals once one is reached. `cost` is in USD.

    For cost and tokens what is in flight counts at its `max_tokens`, so that the limits are never passed; `requests` are those sent.
    """

    errors: Count | None = None
    error_rate: ErrorRate | None = None
    cost: Positive | None = None
    output_tokens: Tokens | None = None
    requests: Count | None = None

    @property
    def reserves(self) -> str | None:
        """Return the key of a limit for which each request is reserved at its most; None where there is none."""
        return "cost" if self.cost is not None else "output_tokens" if self.output_tokens is not None else None


class Drain(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What happens to requests in flight at the end: "finish" waits for them, a duration cancels those left after it."""

    mode: str = "finish"

    @property
    def limit_ns(self) -> int | None:
        """Return how long to wait before cancelling; None to wait for all (each bounded by `timeouts.total`)."""
        return None if self.mode == "finish" else int(Duration.parse(self.mode))


class Sla(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What must hold, in the SLA grammar, and how sure a verdict must be.

    With `fail_fast` the run ends as soon as a clause fails whatever the requests still to come do.
    """

    clauses: tuple[str, ...] = ()
    confidence: Annotated[float, msgspec.Meta(gt=0.5, lt=1)] = 0.95
    fail_fast: bool = False


class Scenario(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole scenario. `docs/scenarios.md` says what each key means."""

    name: Name
    seed: Annotated[int, msgspec.Meta(ge=0)] = 0
    warmup: Duration | None = None
    cooldown: Duration | None = None
    duration: Duration | None = None
    requests: Count | None = None
    interval: Duration = Duration.parse("1s")
    record_chunks: bool = False
    collect: bool = True
    target: Target
    workload: dict[Name, Workload]
    arrivals: AnyArrivals | None = None
    stop: Stop = Stop()
    drain: Drain = Drain()
    sla: Sla = Sla()
    labels: dict[str, str] = {}
    sinks: Sinks = Sinks()

    def items(self, base: Path | None = None, salt: str = "", told: Told = silent) -> dict[str, Items]:
        """Load every workload's dataset; raises DatasetError naming the workload.

        `base` is the folder that relative file names start from. Each workload's streams derive from the seed and its
        name, so that two workloads over the same dataset ask different things. `told` hears of the progress of large files.
        """
        loaded: dict[str, Items] = {}
        for name, workload in self.workload.items():
            try:
                seed = Stream(self.seed, "dataset", name).entropy() % 2**63
                loaded[name] = workload.dataset.load(seed, base, salt, _named(f"workload {name}: ", told))
                self._check_bodies(loaded[name])
            except DatasetError as error:
                raise DatasetError(f"`workload.{name}.dataset`: {error}") from error
        return loaded

    def _check_bodies(self, items: Items) -> None:
        """Refuse request bodies for another endpoint than the target's, and of several answers where a limit reserves one each."""
        where = getattr(items, "several", None)
        if where is not None and self.stop.reserves:
            raise DatasetError(
                f"{where}: asks for more than one answer (`n` or `best_of`), but `stop.{self.stop.reserves}` reserves one each"
            )
        for endpoint, where in getattr(items, "endpoints", {}).items():
            if endpoint != self.target.endpoint:
                raise DatasetError(f'{where}: is a body for {endpoint}, but `target.endpoint` is "{self.target.endpoint}"')

    def plan(self, items: Mapping[str, Items], base: Path | None = None) -> Plan:
        """Plan the whole run; `items` are the loaded datasets, which know how many turns a conversation has.

        `base` is the folder that relative names of traces start from; raises DatasetError where one cannot be read.
        """
        shares = {}
        for name, workload in self.workload.items():
            own = None if workload.arrivals is None else _located(workload.arrivals, base, f"workload.{name}.arrivals")
            shares[name] = Share(workload.share, own, max(items[name].expected.turns, 1.0))
        main: AnyArrivals | None = self.arrivals
        if isinstance(main, Stages):
            stages = (_located(stage, base, f"arrivals.stages[{index}]") for index, stage in enumerate(main.stages))
            main = msgspec.structs.replace(main, stages=tuple(stages))
        elif main is not None:
            main = _located(main, base, "arrivals")
        return plan(
            shares, main, seed=self.seed, duration=self.duration, requests=self.requests, warmup=self.warmup,
            cooldown=self.cooldown,
        )  # fmt: skip


def _located(process: AnyStage, base: Path | None, path: str) -> AnyStage:
    """Return a process as it is planned: that of a trace with its file found, and with an end."""
    if not isinstance(process, Trace):
        return process
    try:
        return process.located(base or Path())
    except DatasetError as error:
        raise DatasetError(f"`{path}`: {error}") from error


def _named(name: str, told: Told) -> Told:
    return lambda sentence: told(name + sentence)


def simulated(url: str) -> tuple[str, dict[str, str]] | None:
    """Return the profile and the options of a simulated target's url; None where the url is a real endpoint's."""
    if not url.startswith(SIMULATED):
        return None
    profile, _, options = url.removeprefix(SIMULATED).partition("?")
    try:
        return profile, dict(parse_qsl(options, strict_parsing=True)) if options else {}
    except ValueError:
        raise ScenarioError("target.url", f'"{url}" is not simulate:PROFILE or simulate:PROFILE?option=value') from None
