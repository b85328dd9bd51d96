"""What comes of several runs together: one side of a comparison, and one exit code."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from r1perf.launch.run import Ran
from r1perf.sinks.archive import write_document
from r1perf.sla import entries, exit_code, judge_archive

_PRECEDENCE = (2, 130, 1, 3, 0)


def worst(codes: Sequence[int]) -> int:
    """Return the exit code that stands: what is wrong, what was interrupted, a fail, what nobody knows, and only then success."""
    return min(codes, key=_PRECEDENCE.index)


def against(ran: Ran, baseline: Sequence[Path], beside: Sequence[Path]) -> Ran:
    """Hold a run, with those `beside` it, against the baseline's; what comes of it goes into its archive and its exit code."""
    document = ran.verdict.document
    if ran.folder is None or document is None:
        return ran
    verdicts = judge_archive(ran.folder, baseline=baseline, beside=[run for run in beside if run != ran.folder])
    built = msgspec.structs.replace(document, sla=entries(verdicts))
    write_document(ran.folder, built)
    code = ran.verdict.code if ran.verdict.code in (2, 130) or not verdicts else exit_code(verdicts)
    return Ran(msgspec.structs.replace(ran.verdict, code=code, document=built), ran.folder)
