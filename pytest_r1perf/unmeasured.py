"""Say why a clause has no verdict, and of which run."""

from pathlib import Path

from r1perf.errors import R1perfError


class Unmeasured(R1perfError):
    """Say why nothing can be judged: the run could not be made, did not come to its end, is invalid, or does not fit the clause.

    `target` is its name, `folder` the archive, as far as there is one. `ends` says that the whole session is to end: it was Ctrl-C.
    """

    def __init__(self, why: str, *, target: str | None = None, folder: Path | None = None, ends: bool = False) -> None:
        super().__init__(why)
        self.target, self.folder, self.ends = target, folder, ends
