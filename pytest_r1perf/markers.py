"""Read the markers `r1_load`, `r1_recorded` and `r1_sla` into frozen values; what they do not know they reject."""

import dataclasses
import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

MARKERS = (
    "r1_load(scenario, *, rate, duration, ...): send this load once for all tests that declare the same, and judge it",
    "r1_recorded(*paths, baseline=None): judge a recorded run, or the runs in a folder, instead of sending load",
    "r1_sla(*clauses, confidence=None, file=None): what must hold, one test item a clause; none: those of the scenario",
)
NAMES = ("r1_load", "r1_recorded", "r1_sla")

PROMISE = "_r1_clause"
"""The fixture whose parameter is an item's clause."""


CONFIDENCE = 0.95
"""At which a clause is judged that does not say."""


class MarkerError(ValueError):
    """Say what is wrong with a marker, and what is allowed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Load:
    """`r1_load`: a scenario, and what is laid over it, as on the command line of `r1perf run`.

    `set` are further keys by path. `repeat` runs, one after the other, make several runs of one side for `baseline` clauses.
    """

    scenario: str
    url: str | None = None
    model: str | None = None
    rate: str | None = None
    sessions: int | None = None
    requests: int | None = None
    duration: str | None = None
    warmup: str | None = None
    seed: int | None = None
    set: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    workers: int = 1
    repeat: int = 1
    baseline: str | tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recorded:
    """`r1_recorded`: archives, or folders of archives."""

    paths: tuple[str, ...]
    baseline: str | tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sla:
    """`r1_sla`: clauses, and the confidence at which they are to be judged."""

    clauses: tuple[str, ...]
    confidence: float | None = None
    file: str | None = None


@dataclasses.dataclass(frozen=True)
class Promise:
    """One clause of one test; without a confidence it is judged at 95 %."""

    clause: str
    confidence: float | None = None


@dataclasses.dataclass(frozen=True)
class Declared:
    """All that the markers of one test say, the outermost first."""

    load: Load | None
    recorded: Recorded | None
    sla: tuple[Sla, ...]

    @property
    def anything(self) -> bool:
        """Say whether there is a marker of ours at all."""
        return bool(self.load or self.recorded or self.sla)


def declared(node: pytest.Item) -> Declared:
    """Read the markers of a test; raises MarkerError."""
    found = {name: list(node.iter_markers(name)) for name in NAMES}
    load = _load(found["r1_load"][0]) if found["r1_load"] else None
    recorded = _recorded(found["r1_recorded"][0]) if found["r1_recorded"] else None
    if load and recorded:
        raise MarkerError("r1_load and r1_recorded exclude each other: a test judges a load that is sent, or a recorded run")
    # Markers come from the function outwards, and of one function those next to it first; people read from the top.
    return Declared(load, recorded, tuple(_sla(mark) for mark in reversed(found["r1_sla"])))


def _load(mark: pytest.Mark) -> Load:
    if len(mark.args) != 1 or not isinstance(mark.args[0], str):
        raise MarkerError("r1_load takes one scenario: a file, the name of a shipped one, or a kind of dataset")
    load = _made(Load, mark, "scenario", mark.args[0])
    for name in ("workers", "repeat", "sessions", "requests"):
        value = getattr(load, name)
        if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise MarkerError(f"r1_load: `{name}` must be a whole number above 0, not {value!r}")
    for name in ("url", "model", "rate", "duration", "warmup"):
        value = getattr(load, name)
        if value is not None and not isinstance(value, str):
            raise MarkerError(f'r1_load: `{name}` must be a text with its unit, as rate="2/s" or duration="90s", not {value!r}')
    if not isinstance(load.set, Mapping):
        raise MarkerError(f'r1_load: `set` must be a dict, as {{"workload.chat.max_tokens": 512}}, not {load.set!r}')
    return load


def _recorded(mark: pytest.Mark) -> Recorded:
    if not mark.args or not all(isinstance(path, str) for path in mark.args):
        raise MarkerError('r1_recorded takes the paths of recorded runs, as r1_recorded("runs/2026-11-29-r1-mixed")')
    return _made(Recorded, mark, "paths", mark.args)


def _sla(mark: pytest.Mark) -> Sla:
    if not all(isinstance(clause, str) and clause.strip() for clause in mark.args):
        raise MarkerError('r1_sla takes clauses, as r1_sla("p95(ttft) < 800ms", "error_rate < 1%")')
    sla = _made(Sla, mark, "clauses", mark.args)
    if sla.confidence is not None and (not isinstance(sla.confidence, float) or not 0.5 < sla.confidence < 1):
        raise MarkerError(f"r1_sla: `confidence` must lie between 0.5 and 1, such as 0.95, not {sla.confidence!r}")
    return sla


def _made(kind: type[T], mark: pytest.Mark, first: str, value: Any) -> T:
    names = [field.name for field in dataclasses.fields(kind) if field.name != first]  # type: ignore[arg-type]
    for name in mark.kwargs:
        if name not in names:
            raise MarkerError(f"{mark.name}: unknown argument `{name}`; {did_you_mean(name, names)}")
    return kind(**{first: value}, **mark.kwargs)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """Return the nearest allowed word as the end of a sentence, or all of them where none is near."""
    names = list(allowed)
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else f"allowed: {', '.join(names)}"
