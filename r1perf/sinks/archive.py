"""Keep a run in a folder of its own: `run.json` and `intervals.hlog`, beside what the workers write themselves."""

import errno
import os
import shlex
from pathlib import Path

import msgspec

from r1perf import clock
from r1perf.errors import ArchiveError
from r1perf.histogram import Counts
from r1perf.schedule import Stage, stage_name
from r1perf.sinks.hlog import HlogWriter
from r1perf.summary import Document, Interval, Run, Summary, Validity, document
from r1perf.summary.archived import LOG
from r1perf.summary.document import encode

LINE_NS = 10_000_000_000
"""How much of the run one line of the log holds."""


NOT_ENDED = Validity(False, ["the run has not ended"])
"""What the first `run.json` says, which has no figures and stays as it is where the collector is killed."""

RESERVE, RESERVED = ".reserve", 128 << 10
"""A file that keeps so much room for the last `run.json`, beside what the first one needs: a disk may fill while a run goes on."""


def create(root: Path, name: str, started_ns: int) -> Path:
    """Make the folder `<utc>-<scenario>` under `root`, a new one even where two runs start in the same second."""
    stem = f"{clock.utc(started_ns):%Y%m%dT%H%M%SZ}-{name}"
    try:
        root.mkdir(parents=True, exist_ok=True)
        number = 1
        while True:
            folder = root / (stem if number == 1 else f"{stem}-{number}")
            try:
                folder.mkdir()
            except FileExistsError:
                number += 1
            else:
                return folder
    except OSError as error:
        raise ArchiveError(f"no run archive can be made in {root}: {error.strerror}") from error


def write_document(folder: Path, built: Document) -> None:
    """Replace `run.json` at once: whoever reads it, and whenever the machine stops, it is whole. Room kept for it is given free."""
    path, fresh = folder / "run.json", folder / ".run.json.new"
    try:
        (folder / RESERVE).unlink(missing_ok=True)
        with fresh.open("wb") as file:
            file.write(encode(built))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise ArchiveError(f"{path} cannot be written: {error.strerror}") from error


def _reserve(folder: Path) -> None:
    """Keep room for the `run.json` of the end; go on without where the file system cannot keep any."""
    path = folder / RESERVE
    try:
        with path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, RESERVED + (folder / "run.json").stat().st_size)
    except OSError as error:
        path.unlink(missing_ok=True)
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise ArchiveError(f"{folder} has no room for a run archive: {error.strerror}") from error


class ArchiveSink:
    """Write one run's folder; raises ArchiveError (disk full), after which what was written can still be read."""

    def __init__(self, folder: Path, line_ns: int = LINE_NS) -> None:
        self.folder = folder
        self._line_ns = line_ns
        self._log: HlogWriter | None = None
        self._stages: tuple[Stage, ...] = ()
        self._interval_ns = 1
        self._lines: dict[int, dict[str, Counts]] = {}  # by line number, then tag
        self._spans: dict[int, tuple[int, int]] = {}  # the intervals [first, last] of each

    def open(self, run: Run) -> None:
        """Write `run.json` with the status running, keep room for that of the end, and begin the log."""
        self._interval_ns = run.interval_ns
        self._stages = run.stages
        write_document(self.folder, msgspec.structs.replace(document(Summary(run), "running"), validity=NOT_ENDED))
        _reserve(self.folder)
        self._log = HlogWriter(self.folder / LOG, run.started_ns)

    def write(self, interval: Interval) -> None:
        """Gather an interval; its line is written when a later line begins. Late data gets a line of its own."""
        number = interval.k * self._interval_ns // self._line_ns
        for earlier in [known for known in self._lines if known < number]:
            self._flush(earlier)
        first, last = self._spans.get(number, (interval.k, interval.k))
        self._spans[number] = min(first, interval.k), max(last, interval.k)
        tagged = self._lines.setdefault(number, {})
        for (metric, workload, stage), counts in interval.series.items():
            tag = f"{metric}.{workload}.{stage_name(self._stages, stage)}"
            tagged.setdefault(tag, Counts()).add(counts)

    def note(self, sentence: str) -> None:
        """Keep nothing: why a run ended is in `run.json`."""

    def close(self, document: Document) -> None:
        """Finish the log and replace `run.json`; where the log cannot be finished, `run.json` is still tried."""
        try:
            for number in sorted(self._lines):
                self._flush(number)
        finally:
            try:
                write_document(self.folder, document)
            except ArchiveError as error:
                raise ArchiveError(
                    f"{error}; with room on the disk `{shlex.join(['r1perf', 'recover', str(self.folder)])}` completes it"
                ) from error
            finally:
                if self._log is not None:  # the last, for it says that the run goes on
                    self._log.close()
                    self._log = None

    def _flush(self, number: int) -> None:
        tagged = self._lines.pop(number)
        first, last = self._spans.pop(number)
        if self._log is not None:
            self._log.write(first * self._interval_ns, (last + 1 - first) * self._interval_ns, tagged)
