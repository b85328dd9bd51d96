"""Judge every clause of a run together, live or recorded, and say what the verdicts make of it."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from r1perf.sla.account import Account
from r1perf.sla.clauses import Baseline, Clause, Max
from r1perf.sla.compile import allowed
from r1perf.sla.evidence import Circumstances, Runs
from r1perf.sla.finding import Verdict
from r1perf.sla.judge import family, judge
from r1perf.sla.terms import closed


class Side(msgspec.Struct, frozen=True):
    """A clause's value in each run of a side, and which runs have none, and why."""

    values: tuple[float, ...] = ()
    left_out: tuple[str, ...] = ()


Sides = Mapping[str, Side]
"""By a clause's text."""


def verdicts(
    account: Account,
    *,
    invalid: Sequence[str] = (),
    early: str | None = None,
    baselines: Sides | None = None,
    beside: Sides | None = None,
) -> list[Verdict]:
    """Judge all clauses of a run.

    `invalid` are the reasons for which it says nothing; `early` is why it ended before its plan did. Clauses against a baseline look at
    `baselines`, and at the other runs of this side, `beside`.
    """
    held = Circumstances(
        target=account.summary.run.target, invalid=tuple(invalid), early=early,
        notes=("closed loop: this holds for the load that the target allowed",) if closed(account.scenario) else (),
    )  # fmt: skip
    found = []
    for index, clause in enumerate(account.terms.clauses):
        if isinstance(clause.bound, Baseline):
            evidence = _runs(account, index, clause, baselines or {}, beside or {})
            found.append(judge(clause, evidence, held, confidence=account.terms.confidence))
        else:
            seen = account.evidence(index, early=early is not None)
            found.append(judge(clause, seen, held, confidence=account.terms.confidence))
    return family(found)


def broken(account: Account, invalid: Sequence[str] = ()) -> Verdict | None:
    """Return the first clause that fails whatever the planned requests still to come do; None while each may pass.

    Misses only grow, so looking again and again costs nothing. Where the number planned is not known nothing can be said.
    """
    held = Circumstances(target=account.summary.run.target, invalid=tuple(invalid), early="so far")
    for index, clause in enumerate(account.terms.clauses):
        if allowed(clause) is None and not isinstance(clause.aggregate, Max):
            continue
        verdict = judge(clause, account.evidence(index, early=True), held, confidence=account.terms.confidence)
        if verdict.verdict == "fail":
            return verdict
    return None


def exit_code(found: Sequence[Verdict]) -> int:
    """Return 1 where a clause failed, else 3 where one is inconclusive or the run could not be judged, else 0."""
    rulings = {verdict.verdict for verdict in found}
    return 1 if "fail" in rulings else 3 if rulings - {"pass"} else 0


def entries(found: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Write verdicts as run.json's `sla` has them."""
    written: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(found))
    return written


def read_verdicts(entries: Sequence[Mapping[str, object]]) -> list[Verdict]:
    """Read the entries of run.json's `sla`."""
    return msgspec.convert(list(entries), list[Verdict])


def _runs(account: Account, index: int, clause: Clause, baselines: Sides, beside: Sides) -> Runs:
    value, why = account.value(index), account.absent(index)
    mine = () if value is None else (value,)
    with_it, against = beside.get(str(clause), Side()), baselines.get(str(clause), Side())
    left_out = () if why is None else (f"this run was left out: {why}",)
    return Runs(
        current=(*mine, *with_it.values), baseline=against.values, left_out=(*left_out, *with_it.left_out, *against.left_out)
    )
