"""Hold what a run says about one clause: the exact sums that a verdict needs, and nothing that needs the run itself."""

import msgspec

from r1perf.sla.dependence import Clusters, Interval


class Window(msgspec.Struct, frozen=True):
    """The judged intervals by index, their length, and the p90 residence time of the slowest workload on the target."""

    ks: tuple[int, ...]
    interval_s: float = 1.0
    residence_p90_s: float = 0.0


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts there were and how many missed: quantiles, goodput, error rate, accuracy, largest value.

    A failed attempt is a certain miss. `over_possible` adds to the certain misses those that cannot be known: attempts cut by the
    end of the run before they showed it, and values in the histogram bucket that holds the limit. `intervals` are (n, certain
    misses) of every interval of the judged window in order, empty ones too; without them attempts count as independent.
    `requests` is given where an attempt is a gap between chunks, `conversations` where some have several turns.
    """

    n: int
    over_certain: int
    over_possible: int
    intervals: tuple[Interval, ...] = ()
    interval_s: float = 1.0
    residence_p90_s: float = 0.0  # of the slowest workload on the target
    requests: Clusters | None = None
    conversations: Clusters | None = None
    not_applicable: int = 0  # not streamed, or too short for the metric
    causes: tuple[tuple[str, int], ...] = ()  # certain misses by cause: slow, and outcomes by name
    observed: float | None = None  # the percentile over all attempts, in the bound's base unit; None: a failed one stands there
    observed_ok: float | None = None  # the same over those that have a value
    bracketed: bool = False  # counted from histogram buckets
    planned: int | None = None  # attempts that were planned, where the run was ended early
    planned_intervals: int | None = None  # of the whole window, where that is known before its end
    missing: int = 0  # of those that cannot be known: the archive does not hold what came of them

    def __post_init__(self) -> None:
        """Refuse counts that cannot be."""
        if not 0 <= self.over_certain <= self.over_possible <= self.n:
            raise ValueError(f"counts do not add up: 0 <= {self.over_certain} <= {self.over_possible} <= {self.n}")


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """A ratio of two sums: mean (sum / count), throughput (events / seconds), cost (USD / million tokens), goodput per second.

    `intervals` are (numerator, denominator) of every interval of the judged window in order, in base units (ns, tokens, s, USD).
    Requests cut by the end add `cut` to the denominator and between `cut_low` and `cut_high` to the numerator; `unknown` is their number
    where they add nothing to the denominator (goodput per second). Of `untold` requests nobody told the input tokens: `untold_ends` are what
    they can add to both sums where the ratio becomes least and most.
    """

    intervals: tuple[tuple[float, float], ...]
    interval_s: float = 1.0
    residence_p90_s: float = 0.0
    cut: int = 0
    cut_low: float = 0.0
    cut_high: float = 0.0
    unknown: int = 0
    untold: int = 0
    untold_ends: tuple[tuple[float, float], ...] = ()
    without_value: int = 0  # failed attempts: they have no value, and a mean does not count them
    missing: int = 0  # of those cut or unknown: the archive does not hold what came of them


class Runs(msgspec.Struct, frozen=True, kw_only=True):
    """One value a run (the clause's aggregate, in its base unit), of this side and of the baseline."""

    current: tuple[float, ...]
    baseline: tuple[float, ...]
    left_out: tuple[str, ...] = ()  # which runs say nothing of their side, and why


class Absent(msgspec.Struct, frozen=True):
    """Why an archive says nothing about a clause."""

    why: str


Evidence = Attempts | Flow | Runs | Absent


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for a run as a whole. `invalid` are the reasons for which it cannot be judged; `notes` go under its verdicts.

    `early` is why the run ended before its plan did: then nothing passes, and only what no further request can mend fails.
    """

    target: str | None = None
    invalid: tuple[str, ...] = ()
    early: str | None = None
    notes: tuple[str, ...] = ()
