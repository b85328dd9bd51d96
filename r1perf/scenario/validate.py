"""Check the rules that hold between the keys of a scenario, after every type is right."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from r1perf.arrivals import AnyStage, Closed, Process, Ramp, Stages, Trace
from r1perf.arrivals.open import Steady
from r1perf.datasets.synthetic import Synthetic
from r1perf.datasets.trace import TraceLengths
from r1perf.errors import ScenarioError
from r1perf.providers.registry import check_cache_control, names
from r1perf.scenario.model import Scenario, simulated
from r1perf.scenario.sentences import allowed
from r1perf.schedule import RESERVED
from r1perf.target import BOUNDS, SEVERAL
from r1perf.transport.request import header_fault, path_fault
from r1perf.units import Duration

MOST_INTERVAL = Duration.parse("1m")
"""A longer interval would show nothing of a run while it goes on, and lose as much with a worker."""

_ENV_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def validate(scenario: Scenario) -> None:
    """Raise ScenarioError for the first thing that cannot be run; nothing is loaded, nothing sent."""
    _target(scenario)
    _workloads(scenario)
    for path, process in processes(scenario):
        _process(path, process, ends=process.requests is not None or scenario.requests is not None)
    _stages(scenario)
    _window(scenario)
    _limits(scenario)
    _sinks(scenario)


def processes(scenario: Scenario) -> Iterator[tuple[str, AnyStage]]:
    """Go through every arrival process with its path."""
    if isinstance(scenario.arrivals, Stages):
        for index, stage in enumerate(scenario.arrivals.stages):
            yield f"arrivals.stages[{index}]", stage
    elif scenario.arrivals is not None:
        yield "arrivals", scenario.arrivals
    for name, workload in scenario.workload.items():
        if workload.arrivals is not None:
            yield f"workload.{name}.arrivals", workload.arrivals


def _target(scenario: Scenario) -> None:
    target = scenario.target
    if simulated(target.url) is None:
        parts = _url(
            "target.url",
            target.url,
            '"http://127.0.0.1:8000/v1" or "simulate:tiny"',
            "the key's variable in `target.api_key_env`",
        )
        if (fault := path_fault(f"{parts.path or '/'}?{parts.query}")) is not None:
            raise ScenarioError("target.url", f'"{target.url}" {fault}')
    _headers("target", target.headers)
    _bounds("target.extra_body", target.extra_body, "NAME")
    if not target.model:
        raise ScenarioError("target.model", "must not be empty")
    if target.provider not in names():
        raise ScenarioError("target.provider", f'unknown provider "{target.provider}"; {allowed(target.provider, names())}')
    if target.api_key_env is not None and _ENV_NAME.fullmatch(target.api_key_env) is None:
        raise ScenarioError("target.api_key_env", "must be the name of an environment variable, never the key itself")
    for name in ("connect", "first_chunk", "between_chunks", "total"):
        if getattr(target.timeouts, name) == 0:
            raise ScenarioError(f"target.timeouts.{name}", "must be greater than 0")
    if target.price.gpu_hour is not None and target.system.gpus is None:
        raise ScenarioError("target.price.gpu_hour", "needs `target.system.gpus`, the number of GPUs that cost this an hour")
    for name in ("input_per_1m", "cached_per_1m", "output_per_1m", "gpu_hour"):
        if (getattr(target.price, name) or 0) < 0:
            raise ScenarioError(f"target.price.{name}", f"must be at least 0, not {getattr(target.price, name):g}")


def _url(path: str, url: str, example: str, secret: str) -> SplitResult:
    """Check a URL; `example` is what one looks like, `secret` where the credentials go that it must not carry."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ScenarioError(path, f'"{url}" is not a url: {error}') from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ScenarioError(path, f'"{url}" is not a url such as {example}')
    if parts.username or parts.password:
        raise ScenarioError(path, f"must not carry a user or password; name {secret}")
    return parts


def _headers(path: str, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if (fault := header_fault(name, value)) is not None:
            raise ScenarioError(f"{path}.headers.{name}", fault)


def _workloads(scenario: Scenario) -> None:
    if not scenario.workload:
        raise ScenarioError("workload", "is missing: a scenario needs at least one table [workload.NAME]")
    for name, workload in scenario.workload.items():
        if workload.arrivals is not None and workload.weight is not None:
            raise ScenarioError(
                f"workload.{name}.weight", "cannot stand beside arrivals of the workload's own; leave one of the two out"
            )
        if getattr(workload.dataset, "cache_control", False):
            check_cache_control(scenario.target, f"workload.{name}.dataset.cache_control")
        _headers(f"workload.{name}", workload.headers)
        _bounds(f"workload.{name}.extra_body", workload.extra_body, name)
    shares = [workload.share for workload in scenario.workload.values()]
    weighted = [share for share in shares if share is not None]
    if weighted and sum(weighted) == 0:
        raise ScenarioError("workload", "the weights add up to 0; give at least one workload a weight above 0")
    if weighted and scenario.arrivals is None:
        raise ScenarioError(
            "arrivals", 'is missing: say when conversations start, as kind = "poisson", rate = "2/s" (--rate) or --sessions'
        )
    if not weighted and scenario.arrivals is not None:
        raise ScenarioError("arrivals", "would not be used: every workload has arrivals of its own")


def _process(path: str, process: Process, *, ends: bool) -> None:
    if isinstance(process, Steady) and not process.rate:
        raise ScenarioError(f"{path}.rate", "must be greater than 0")
    if process.duration == 0:
        raise ScenarioError(f"{path}.duration", "must be greater than 0")
    if isinstance(process, Trace):
        _trace(path, process)
    if not isinstance(process, Ramp):
        return
    if not process.start and not process.end:
        raise ScenarioError(f"{path}.end", "must be greater than 0, where `start` is 0")
    zero = "start" if not process.start else "end" if not process.end else None
    if zero and (process.curve == "exponential" or process.by == "request"):
        what = 'curve = "exponential"' if process.curve == "exponential" else 'by = "request"'
        raise ScenarioError(f"{path}.{zero}", f"must be greater than 0 with {what}")
    if process.by == "time" and process.duration is None:
        raise ScenarioError(f"{path}.duration", "is missing: a ramp in time needs the length of the ramp")
    if process.by == "request":
        for key in ("duration", "hold"):
            if getattr(process, key) is not None:
                raise ScenarioError(f"{path}.{key}", 'does not go with by = "request": the number of requests ends it')
        if not ends:
            raise ScenarioError(f"{path}.requests", 'is missing: a ramp with by = "request" needs their number')


def _trace(path: str, process: Trace) -> None:
    if process.per == "request":
        raise ScenarioError(f"{path}.per", "does not go with a trace: a conversation begins where the trace had a request")
    for key in ("length", "rate"):
        if getattr(process, key) == 0:
            raise ScenarioError(f"{path}.{key}", "must be greater than 0")


def _stages(scenario: Scenario) -> None:
    names: set[str] = set()
    for path, process in processes(scenario):
        own = path.startswith("workload.")
        for key in ("name", "judged"):
            if own and getattr(process, key) is not None:
                raise ScenarioError(f"{path}.{key}", "belongs to the run's own stages, not to a workload's arrivals")
        if process.name is None:
            continue
        if process.name in RESERVED or process.name.startswith("live-"):
            raise ScenarioError(f"{path}.name", f'"{process.name}" is reserved: so are {", ".join(RESERVED)} and live-...')
        if process.name in names:
            raise ScenarioError(f"{path}.name", f'"{process.name}" is the name of an earlier stage')
        names.add(process.name)
    main = [process for path, process in processes(scenario) if path.startswith("arrivals")]
    if main and all(process.judged is False for process in main):
        raise ScenarioError("arrivals", "no stage is judged, so there would be nothing to report; leave `judged` out of one")


def _window(scenario: Scenario) -> None:
    """Check that the run ends, in one way."""
    for key in ("duration", "warmup", "cooldown", "interval"):
        if getattr(scenario, key) == 0:
            raise ScenarioError(key, "must be greater than 0")
    if scenario.interval > MOST_INTERVAL:
        raise ScenarioError("interval", f"must be at most {MOST_INTERVAL}, not {scenario.interval}")
    arrivals = scenario.arrivals
    if isinstance(arrivals, Stages):
        if scenario.requests is not None and any(isinstance(stage, Closed) for stage in arrivals.stages):
            raise ScenarioError(
                "requests", "does not go with closed-loop stages; give each stage its own, as `arrivals.stages[0].requests`"
            )
        return
    if arrivals is None:
        return
    if not isinstance(arrivals, Ramp) and arrivals.duration is not None and scenario.duration is not None:
        raise ScenarioError("arrivals.duration", "says the same as `duration`; give one of the two")
    if isinstance(arrivals, Ramp) and (scenario.duration or arrivals.duration or 0) < (arrivals.duration or 0):
        raise ScenarioError("duration", f"must not be shorter than the ramp, {arrivals.duration}")
    ends = (scenario.duration, scenario.requests, arrivals.duration, arrivals.requests)
    if ends == (None, None, None, None) and not isinstance(arrivals, Trace):
        raise ScenarioError(
            "duration", "is missing, and so is `requests`: one of the two ends the run (--duration 5m, --requests 400)"
        )


def _sinks(scenario: Scenario) -> None:
    influxdb = scenario.sinks.influxdb
    if influxdb is None:
        return
    if influxdb.url is not None:
        token = "the token's variable in `sinks.influxdb.token_env`"
        _url("sinks.influxdb.url", influxdb.url, '"http://127.0.0.1:8086"', token)
    if _ENV_NAME.fullmatch(influxdb.token_env) is None:
        raise ScenarioError("sinks.influxdb.token_env", "must be the name of an environment variable, never the token itself")
    for key in ("interval", "timeout"):
        if getattr(influxdb, key) == 0:
            raise ScenarioError(f"sinks.influxdb.{key}", "must be greater than 0")
    if influxdb.interval < scenario.interval:
        raise ScenarioError("sinks.influxdb.interval", f"must not be shorter than the run's `interval`, {scenario.interval}")


def _bounds(path: str, extra_body: Mapping[str, Any], name: str) -> None:
    """Refuse a bound that would win over the one that every limit and plan reckons with."""
    for key in BOUNDS:
        if key in extra_body:
            raise ScenarioError(f"{path}.{key}", f"would win over every other bound; say `workload.{name}.max_tokens`")


def _answers(path: str, extra_body: Mapping[str, Any], limit: str) -> None:
    """Refuse several answers to one request."""
    for key in SEVERAL:
        if extra_body.get(key) not in (None, 1):
            raise ScenarioError(f"{path}.{key}", f"must be 1 or left out: `stop.{limit}` reserves one answer a request")


def _limits(scenario: Scenario) -> None:
    stop, price = scenario.stop, scenario.target.price
    if stop.cost is not None and price.input_per_1m is None and price.output_per_1m is None:
        raise ScenarioError("stop.cost", "cannot be kept without `target.price.input_per_1m` and `target.price.output_per_1m`")
    if (key := stop.reserves) is not None:
        _answers("target.extra_body", scenario.target.extra_body, key)
        for name, workload in scenario.workload.items():
            _answers(f"workload.{name}.extra_body", workload.extra_body, key)
            ordered = isinstance(workload.dataset, Synthetic | TraceLengths)  # these order every length
            if workload.max_tokens is None and not ordered:
                raise ScenarioError(f"workload.{name}.max_tokens", f"is missing: `stop.{key}` reserves every request at it")
    if stop.error_rate is not None and stop.error_rate.window == 0:
        raise ScenarioError("stop.error_rate.window", "must be greater than 0")
    if scenario.drain.mode != "finish":
        try:
            Duration.parse(scenario.drain.mode)
        except ValueError as error:
            raise ScenarioError("drain.mode", f'{error}, or "finish"') from None
    for index, clause in enumerate(scenario.sla.clauses):
        if not clause.strip():
            raise ScenarioError(f"sla.clauses[{index}]", "must not be empty")
