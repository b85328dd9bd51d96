"""Give tests the run that they are judged on: the fixture `r1_run`."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_r1perf.markers import Promise

if TYPE_CHECKING:
    from r1perf.sla import Verdict
    from r1perf.summary import Document


@dataclasses.dataclass(frozen=True)
class Check:
    """One clause and what came of it.

    `ruling` is pass, fail, inconclusive or error; `proven` is True for a pass or a fail, unless `r1_inconclusive = "observed"` let the
    estimate decide. `text` is the verdict for people; `skips` says that the ini file wants the test skipped for it.
    """

    clause: str
    ruling: str
    proven: bool
    text: str
    verdict: "Verdict"
    run: "R1Run"
    skips: bool = False

    @property
    def passed(self) -> bool:
        """Say whether the clause holds."""
        return self.ruling == "pass"

    @property
    def observed(self) -> bool:
        """Say whether what was observed has decided, without proof."""
        return self.ruling in ("pass", "fail") and not self.proven

    def require(self) -> None:
        """Fail the test unless the clause holds; skip it where an inconclusive verdict is to skip."""
        __tracebackhide__ = True
        if self.passed:
            return
        if self.skips:
            pytest.skip(self.text)
        pytest.fail(self.text, pytrace=False)


@dataclasses.dataclass(frozen=True, eq=False)
class R1Run:
    """A run that was made or recorded; several where they are the runs of one side (`repeat`), the last one foremost.

    `stopped` says why there are fewer than were declared: a budget is used up. `left_out` says which are invalid. `asked` are the
    clauses that tests have for it.
    """

    folders: tuple[Path, ...]
    baseline: tuple[Path, ...] = ()
    stopped: str | None = None
    left_out: tuple[str, ...] = ()
    asked: tuple[Promise, ...] = ()
    judge: "Callable[[R1Run, str, float | None], Check]" = dataclasses.field(repr=False, kw_only=True)

    @property
    def folder(self) -> Path:
        """Return the archive."""
        if not self.folders:
            pytest.fail(f"there is no run: {self.stopped}", pytrace=False)
        return self.folders[-1]

    @property
    def document(self) -> "Document":
        """Return what `run.json` holds (docs/archive.md)."""
        from r1perf.report import load

        return load(self.folder)

    def check(self, clause: str, *, during: str | None = None, confidence: float | None = None) -> Check:
        """Judge one more clause on this run; the verdict is in the summary, and `require()` makes the test depend on it.

        A load does not know of such a clause before it runs, so gaps between chunks are counted from its histograms.
        """
        text = clause if during is None else f"{clause} during {during}"
        return self.judge(self, text, confidence)
