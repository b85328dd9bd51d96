"""Judge the clauses of tests on runs, each archive read as seldom as possible."""

from pathlib import Path

import msgspec

from pytest_r1perf.markers import CONFIDENCE
from pytest_r1perf.options import Inconclusive
from pytest_r1perf.ruling import estimate
from pytest_r1perf.run import Check, R1Run
from r1perf.errors import UsageError
from r1perf.sla import Baseline, ClauseError, Verdict, judge_archive, parse, render

LEFT_OUT = " was left out: "
"""What stands in a note on a run that does not count for its side: between its name and why."""

_WORST = ("error", "fail", "inconclusive", "pass")


class Judge:
    """Give a verdict for any clause on any run; those that tests will ask of it are counted at once."""

    def __init__(self, inconclusive: Inconclusive) -> None:
        self._inconclusive: Inconclusive = inconclusive
        self._found: dict[tuple[Path, float, tuple[Path, ...]], dict[str, Verdict]] = {}

    def check(self, run: R1Run, text: str, confidence: float | None) -> Check:
        """Judge a clause; of several runs of one side the worst verdict counts. Raises UsageError, ArchiveError."""
        clause = parse(text)
        sure = CONFIDENCE if confidence is None else confidence
        if isinstance(clause.bound, Baseline):
            if not run.baseline:
                raise UsageError(f"`{clause}` needs the runs to compare with: --r1-baseline, or baseline= in the marker")
            judged = run.folders[-1:]  # which holds the others beside it
        else:
            judged = run.folders
        verdicts = [self._verdict(run, folder, str(clause), sure) for folder in judged]
        if run.stopped is not None or not verdicts:
            verdicts.append(_none(str(clause), sure, run.stopped or "there is no run"))
        worst = min(verdicts, key=lambda verdict: _WORST.index(verdict.verdict))
        worst = msgspec.structs.replace(worst, notes=(*worst.notes, *run.left_out))
        seen = estimate(clause, worst) if worst.verdict == "inconclusive" and self._inconclusive == "observed" else None
        ruling: str = worst.verdict if seen is None else "pass" if seen else "fail"
        return Check(
            clause=str(clause),
            ruling=ruling,
            proven=seen is None and ruling in ("pass", "fail"),
            text=_text(worst, ruling, seen, self._inconclusive),
            verdict=worst,
            run=run,
            skips=ruling == "inconclusive" and self._inconclusive == "skip",
        )

    def _verdict(self, run: R1Run, folder: Path, clause: str, sure: float) -> Verdict:
        key = (folder, sure, run.baseline)
        if clause not in self._found.setdefault(key, {}):
            self._found[key] |= self._counted(run, folder, clause, sure)
        return self._found[key][clause]

    def _counted(self, run: R1Run, folder: Path, clause: str, sure: float) -> dict[str, Verdict]:
        """Judge this clause and those that will be asked for later; where one of these does not fit this run, this one alone."""
        beside = [other for other in run.folders if other != folder]
        expected = [promise.clause for promise in run.asked if (promise.confidence or CONFIDENCE) == sure]
        for clauses in ([clause, *expected], [clause]):
            try:
                found = judge_archive(folder, clauses, confidence=sure, baseline=run.baseline, beside=beside)
            except ClauseError:
                if clauses == [clause]:
                    raise
            else:
                return {verdict.clause: verdict for verdict in found}
        raise AssertionError(clause)


def _none(clause: str, sure: float, why: str) -> Verdict:
    return Verdict(clause=clause, kind="none", verdict="inconclusive", says=why, confidence=sure)


def _text(verdict: Verdict, ruling: str, seen: bool | None, inconclusive: Inconclusive) -> str:
    text = render(verdict)
    if seen is not None:
        first, _, rest = text.partition("\n")
        head = (
            f"SLA NOT PROVEN  {verdict.clause}: what was observed {'meets' if seen else 'misses'} it (r1_inconclusive = observed)"
        )
        return "\n".join(part for part in (head, f"  was {first}", rest) if part)
    if ruling == "inconclusive" and inconclusive == "fail":
        return f'{text}\n  or         let what was observed decide, without proof: r1_inconclusive = "observed"'
    return text
