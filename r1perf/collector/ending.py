"""How a run ends: why, with which status, verdicts and exit code."""

import msgspec

from r1perf.feed import Feed
from r1perf.result import Outcome
from r1perf.sla import Standing, entries, exit_code
from r1perf.summary import Document, Summary, document

BY_SIGNAL = "by Ctrl-C or a signal"
"""Why a run is `interrupted`."""


class Verdict(msgspec.Struct, frozen=True):
    """How a run ended: the exit code, one sentence where it is not 0, and the document where there is an archive."""

    code: int
    sentence: str | None
    document: Document | None


class Ending:
    """What is known of a run's end while it comes."""

    def __init__(self) -> None:
        self.interrupts = 0
        self.wrong_target = False
        self.failed = False  # something of r1perf's own could not go on
        self._reason: str | None = None  # why it ends before its plan does
        self._asked = False  # for that reason, which is no fault of the run

    def because(self, reason: str, *, asked: bool = False) -> bool:
        """Take why the run ends early, `asked` for by people or not; return whether it is the first reason, which counts."""
        if self._reason is not None:
            return False
        self._reason, self._asked = reason, asked
        return True

    def verdict(self, summary: Summary, standing: Standing | None, feed: Feed) -> Verdict:
        """Judge the run, which is over, and close its sinks."""
        by_signal = self.interrupts > 0 and self._reason is None
        reason = BY_SIGNAL if by_signal else self._reason
        status = "interrupted" if self.interrupts else "failed" if self.failed else "finished"
        built = msgspec.structs.replace(document(summary, status, reason), early=reason is not None)
        ruled = 0
        if standing is not None:
            verdicts = standing.verdicts(built.validity.reasons, reason)
            ruled = exit_code(verdicts)
            built = msgspec.structs.replace(built, sla=entries(verdicts))
        faulty = self.failed or (self._reason is not None and not self._asked)
        if (reason is None or self._asked) and (vain := _in_vain(built)) is not None:
            built = msgspec.structs.replace(built, reason=vain)
            reason, faulty = vain, True
        failure = feed.close(built)
        if failure is not None:
            reason = f"{reason}; {failure}" if reason else failure
            faulty = True
        code = self._code(ruled, faulty=faulty or not built.validity.valid)
        return Verdict(code, f"interrupted {reason}" if by_signal else reason, built)

    def _code(self, ruled: int, *, faulty: bool) -> int:
        """Return the exit code, where the clauses ask for `ruled`."""
        if self.interrupts:
            return 130
        if self.wrong_target:
            return 2
        return 3 if faulty and ruled != 1 else ruled


def _in_vain(built: Document) -> str | None:
    """Say that nothing at all ended well: without a promise to break, such a run must not look like a good one."""
    counts = built.counts
    if not counts["scheduled"] or any(counts.get(outcome) for outcome in (Outcome.OK, Outcome.TRUNCATED)):
        return None
    why = max((outcome for outcome in Outcome if counts.get(outcome)), key=lambda outcome: counts[outcome], default=None)
    return f"none of {counts['scheduled']:,} requests ended well" + (f": mostly {why.replace('_', ' ')}" if why else "")
