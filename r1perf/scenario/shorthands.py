"""What `--url --model --rate --requests --duration --sessions` mean for any scenario."""

from typing import Any

import msgspec

from r1perf.errors import UsageError
from r1perf.units import Duration, Rate


class Shorthands(msgspec.Struct, frozen=True, kw_only=True):
    """The command line's shorthands, as they were typed; None where one was not given."""

    url: str | None = None
    model: str | None = None
    rate: str | None = None
    sessions: int | None = None
    requests: int | None = None
    duration: str | None = None


def apply(raw: dict[str, Any], given: Shorthands) -> None:
    """Lay the shorthands over a scenario that was just read (its types are not checked yet).

    `rate` is that of the arrivals; of a ramp or of stages the highest, and all others change with it. `sessions` is that
    of the closed loop. Each stands in for arrivals of the other sort, for as long as those would have taken. `requests`
    ends the run instead of a duration, `duration` instead of requests; with stages it stretches or shrinks all of them.
    """
    if given.rate is not None and given.sessions is not None:
        raise UsageError("--rate and --sessions exclude each other: arrivals come by rate, or when a session is ready")
    for key, value in (("url", given.url), ("model", given.model)):
        if value is not None:
            raw.setdefault("target", {})[key] = value
    if given.rate is not None:
        _rate(raw, given.rate)
    if given.sessions is not None:
        _sessions(raw, given.sessions)
    if given.requests is not None:
        raw["requests"] = given.requests
        raw.pop("duration", None)
        _own_end(raw)
    if given.duration is not None:
        raw["duration"] = given.duration
        if given.requests is None:
            raw.pop("requests", None)
        _own_end(raw)


def _own_end(raw: dict[str, Any]) -> None:
    """Take away what ends a single process by itself, except a ramp's length, which is part of its shape."""
    arrivals = raw.get("arrivals")
    if isinstance(arrivals, dict) and "stages" not in arrivals:
        for key in ("requests",) if arrivals.get("kind") == "ramp" else ("requests", "duration"):
            arrivals.pop(key, None)


def _rate(raw: dict[str, Any], rate: str) -> None:
    wanted, parts = _parsed(rate), _parts(raw)
    if any(part.get("kind") == "closed" for part in parts) or not parts:
        _replace(raw, {"kind": "poisson", "rate": rate})
        return
    if len(parts) == 1 and ("rate" in parts[0] or parts[0].get("kind") == "trace"):
        parts[0]["rate"] = rate
        if parts[0].get("kind") == "trace":
            _rate_of_lengths(raw, parts[0], rate)
        return
    rates = [(part, key, _parsed(str(part[key]))) for part in parts for key in _rates_of(part) if key in part]
    highest = max((value for _, _, value in rates), default=0.0)
    for part, key, value in rates:
        if highest > 0:
            part[key] = f"{value / highest * wanted:.9f}/s"


def _rates_of(part: dict[str, Any]) -> tuple[str, ...]:
    """Name the keys that hold a rate; the `start` of a trace is a time."""
    return ("rate",) if part.get("kind") == "trace" else ("rate", "start", "end")


def _rate_of_lengths(raw: dict[str, Any], arrivals: dict[str, Any], rate: str) -> None:
    """Scale the lengths of the same trace alike, so that they go on to match its arrivals."""
    workloads = raw.get("workload")
    for workload in workloads.values() if isinstance(workloads, dict) else ():
        dataset = workload.get("dataset") if isinstance(workload, dict) else None
        if isinstance(dataset, dict) and dataset.get("kind") == "trace" and dataset.get("file") == arrivals.get("file"):
            dataset["rate"] = rate


def _sessions(raw: dict[str, Any], sessions: int) -> None:
    parts = _parts(raw)
    if len(parts) == 1 and parts[0].get("kind") == "closed":
        parts[0]["sessions"] = sessions
    else:
        _replace(raw, {"kind": "closed", "sessions": sessions})


def _replace(raw: dict[str, Any], arrivals: dict[str, Any]) -> None:
    """Put other arrivals in place, for as long as, or as many requests as, those before."""
    parts = _parts(raw)
    if "duration" not in raw and "requests" not in raw and parts:
        lengths = [part.get(key) for part in parts for key in ("duration", "hold") if key in part]
        requests = [part.get("requests") for part in parts]
        if all(part.get("duration") for part in parts):
            raw["duration"] = str(Duration(sum(Duration.parse(str(length)) for length in lengths)))
        elif all(isinstance(number, int) for number in requests):
            raw["requests"] = sum(requests)
    raw["arrivals"] = arrivals


def _parts(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the arrival processes of the run, as far as they look like some."""
    arrivals = raw.get("arrivals")
    if not isinstance(arrivals, dict):
        return []
    stages = arrivals.get("stages", [arrivals])
    return [stage for stage in stages if isinstance(stage, dict)] if isinstance(stages, list) else []


def _parsed(text: str) -> float:
    try:
        return float(Rate.parse(text))
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from None
