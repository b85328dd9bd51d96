"""Hold one SLA clause as a value that prints back as its canonical text.

A clause is an aggregate, an operator and a bound or a baseline: `p95(ttft){workload=chat} < 800ms during steady`. Numbers keep
the digits in which they were written, so that what people read in a verdict is what they wrote.
"""

from fractions import Fraction
from typing import Literal

import msgspec

Op = Literal["<", "<=", ">", ">="]
Dimension = Literal["time", "tokens", "rate", "share", "money"]

UNITS: dict[str, tuple[Dimension, Fraction]] = {
    "us": ("time", Fraction(1_000)),
    "ms": ("time", Fraction(1_000_000)),
    "s": ("time", Fraction(1_000_000_000)),
    "m": ("time", Fraction(60_000_000_000)),
    "h": ("time", Fraction(3_600_000_000_000)),
    "": ("tokens", Fraction(1)),
    "tokens": ("tokens", Fraction(1)),
    "k": ("tokens", Fraction(1024)),
    "M": ("tokens", Fraction(1024 * 1024)),
    "/s": ("rate", Fraction(1)),
    "/min": ("rate", Fraction(1, 60)),
    "/h": ("rate", Fraction(1, 3600)),
    "%": ("share", Fraction(1, 100)),
    "$": ("money", Fraction(1)),
}
"""Each unit's dimension and its factor to ns, tokens, events per second, a share of 1, or USD."""

ALLOWED_UNITS: dict[Dimension, str] = {
    "time": "a duration such as 800ms, 1.5s or 2m",
    "tokens": "a count of tokens such as 2048, 8k or 2048 tokens",
    "rate": "a rate such as 30/s or 120/min",
    "share": "a percentage such as 95% or a share such as 0.95",
    "money": "an amount such as $2.50",
}

LIMITED = ("ttft", "ttfo", "tpot", "e2e", "itl_max")
"""The metrics that a goodput may limit."""

THROUGHPUTS = ("output_tokens", "input_tokens", "total_tokens", "requests")
COSTS = ("output_tokens", "input_tokens", "total_tokens")


class Bound(msgspec.Struct, frozen=True):
    """A number as it was written, and its unit."""

    number: str
    unit: str

    @property
    def exact(self) -> Fraction:
        """Return the number in ns, tokens, events per second, a share of 1, or USD."""
        return Fraction(self.number) * UNITS[self.unit][1]

    @property
    def value(self) -> float:
        """Return `exact` as a float."""
        return float(self.exact)

    def __str__(self) -> str:
        """Write the bound as a clause has it."""
        if self.unit == "$":
            return f"${self.number}"
        return f"{self.number} tokens" if self.unit == "tokens" else self.number + self.unit


class Baseline(msgspec.Struct, frozen=True):
    """The value of the baseline runs, moved by a percentage."""

    sign: Literal["+", "-"]
    percent: str

    @property
    def ratio(self) -> float:
        """Return the factor on the baseline's value: 1.1 for `baseline +10%`."""
        return float(1 + Fraction(self.percent) * (1 if self.sign == "+" else -1) / 100)

    def __str__(self) -> str:
        """Write the baseline as a clause has it."""
        return f"baseline {self.sign}{self.percent}%"


class Quantile(msgspec.Struct, frozen=True, tag_field="kind", tag="quantile"):
    """The p-th percentile of a metric: a claim on the share of attempts that meet the bound."""

    percent: str
    metric: str

    @property
    def missing(self) -> float:
        """Return the share of attempts that may miss the bound: 0.05 for p95."""
        return float(1 - Fraction(self.percent) / 100)

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"p{self.percent}({self.metric})"


class Mean(msgspec.Struct, frozen=True, tag_field="kind", tag="mean"):
    """The mean of a metric over the requests that have a value."""

    metric: str

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"mean({self.metric})"


class Max(msgspec.Struct, frozen=True, tag_field="kind", tag="max"):
    """The largest value of a metric in this run."""

    metric: str

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"max({self.metric})"


class Throughput(msgspec.Struct, frozen=True, tag_field="kind", tag="throughput"):
    """Tokens or requests per second of the judged window."""

    of: str

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"throughput({self.of})"


class MetricLimit(msgspec.Struct, frozen=True):
    """One limit of a goodput."""

    metric: str
    op: Op
    bound: Bound

    def __str__(self) -> str:
        """Write the limit as a clause has it."""
        return f"{self.metric}{self.op}{self.bound}"


class Goodput(msgspec.Struct, frozen=True, tag_field="kind", tag="goodput"):
    """The share of attempts that met every limit, or how many did per second."""

    limits: tuple[MetricLimit, ...]

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"goodput({', '.join(map(str, self.limits))})"


class ErrorRate(msgspec.Struct, frozen=True, tag_field="kind", tag="error_rate"):
    """The share of attempts that failed."""

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return "error_rate"


class Accuracy(msgspec.Struct, frozen=True, tag_field="kind", tag="accuracy"):
    """The share of graded answers that are right; unanswered and truncated ones are not."""

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return "accuracy"


class Cost(msgspec.Struct, frozen=True, tag_field="kind", tag="cost"):
    """USD per million tokens."""

    of: str

    def __str__(self) -> str:
        """Write the aggregate as a clause has it."""
        return f"cost_per_1m({self.of})"


Aggregate = Quantile | Mean | Max | Throughput | Goodput | ErrorRate | Accuracy | Cost


class Clause(msgspec.Struct, frozen=True):
    """One objective of an SLA. Selectors are sorted by key; without `during` it covers every judged stage."""

    aggregate: Aggregate
    op: Op
    bound: Bound | Baseline
    selector: tuple[tuple[str, str], ...] = ()
    during: str | None = None

    @property
    def upward(self) -> bool:
        """Say whether more is better: the operator is > or >=."""
        return self.op in (">", ">=")

    def select(self, key: str) -> str | None:
        """Return the value that the selector asks for, or None for all."""
        return dict(self.selector).get(key)

    def __str__(self) -> str:
        """Write the canonical text; parsing it gives this clause again."""
        selector = "{" + ", ".join(f"{key}={value}" for key, value in self.selector) + "}" if self.selector else ""
        during = f" during {self.during}" if self.during else ""
        return f"{self.aggregate}{selector} {self.op} {self.bound}{during}"


def dimension(aggregate: Aggregate, units: dict[str, str]) -> tuple[Dimension, ...]:
    """Return the dimensions in which an aggregate can be bounded; `units` gives each metric's own ("us" or "tokens")."""
    match aggregate:
        case Quantile() | Mean() | Max():
            if aggregate.metric == "interactivity":
                return ("rate",)
            return ("time",) if units.get(aggregate.metric) == "us" else ("tokens",)
        case Throughput():
            return ("rate",)
        case Goodput():
            return ("share", "rate")
        case Cost():
            return ("money",)
    return ("share",)
