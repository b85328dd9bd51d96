"""Hold what came of a clause."""

from typing import Literal

import msgspec

from r1perf.sla.clauses import Dimension
from r1perf.sla.dependence import By

Ruling = Literal["pass", "fail", "inconclusive", "error"]


class Verdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One clause's verdict: an entry of run.json's `sla`.

    `says` is the reason in one sentence. `value`, `lower` and `upper` are in the base unit of `dimension` (ns, tokens, per second,
    share, USD; ratio to the baseline for baseline clauses); the bounds are one-sided, each at `confidence`. For claims on a share they
    are those of the share of attempts that missed: `over` for certain, `over_possible` at most, of `n`, and `allowed` may. Where the run ended
    early, `lower` is that of the `planned` attempts, all others of which met the limit.
    `needs_requests`, `needs_s` or `needs_runs` more would decide if things stay as observed. `p_fail` is the p-value of a fail.
    """

    clause: str
    kind: str
    verdict: Ruling
    says: str
    confidence: float
    target: str | None = None
    stage: str | None = None
    dimension: Dimension | None = None
    value: float | None = None
    lower: float | None = None
    upper: float | None = None
    n: int | None = None
    over: int | None = None
    over_possible: int | None = None
    planned: int | None = None
    allowed: float | None = None
    n_eff: float | None = None
    deff: float | None = None
    clusters: By | None = None
    batches: int | None = None
    batch_s: float | None = None
    window_only: bool = False
    observed: float | None = None
    observed_ok: float | None = None
    observed_name: str | None = None
    causes: tuple[tuple[str, int], ...] = ()
    not_applicable: int = 0
    needs_requests: int | None = None
    needs_s: float | None = None
    needs_runs: int | None = None
    p_fail: float | None = None
    holm: bool | None = None  # a fail that stands for the whole family of clauses
    notes: tuple[str, ...] = ()
