"""One line about a run, for lists of runs."""

import msgspec

from r1perf.result import FAILED
from r1perf.summary.document import Document

WORST_FIRST = ("fail", "inconclusive", "pass")


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """What a list says of a run; what is not known is absent. `verdict` is that of `verdict()`."""

    run_id: str
    started_ns: int
    scenario: str
    target: str
    model: str
    status: str
    verdict: str | None = None
    elapsed_s: float | None = None
    requests: int | None = None
    failed: int | None = None
    where: str | None = None  # the folder of its archive


def verdict(document: Document) -> str:
    """Return "invalid", else the worst verdict of the SLA clauses, else "none"."""
    if not document.validity.valid:
        return "invalid"
    found = [str(clause.get("verdict")) for clause in document.sla]
    return next((each for each in WORST_FIRST if each in found), "none")


def failures(counts: dict[str, int]) -> int:
    """Count the requests that failed."""
    return sum(n for outcome, n in counts.items() if outcome in FAILED)


def listed(document: Document, where: str | None = None) -> Listed:
    """Return the line of a run."""
    ended = document.status != "running"
    return Listed(
        run_id=document.run_id,
        started_ns=document.started_ns,
        scenario=document.name,
        target=document.target,
        model=document.model,
        status=document.status,
        verdict=verdict(document) if ended else None,
        elapsed_s=document.elapsed_s if ended else None,
        requests=document.counts.get("scheduled", 0) if ended else None,
        failed=failures(document.counts) if ended else None,
        where=where,
    )
