"""Write and read HdrHistogram logs (format 1.3, V2 payloads) with tags, as its Java, C, Go and JavaScript tools read them.

hdrh's own writer cannot: it writes no tags and no base time, and its maxima of microseconds come out as 0. Stamps are
relative to the base time, since its reader adds both. Lines are never empty histograms: the C library cannot read one.
"""

import fcntl
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path

import msgspec

from r1perf import clock
from r1perf.errors import ArchiveError
from r1perf.histogram import Counts

_LINE = re.compile(r"Tag=([^,\s]+),(\d+\.\d+),(\d+\.\d+),(\d+\.\d+),(\S+)\n")


class Line(msgspec.Struct, frozen=True):
    """One histogram of a log; seconds count from the log's base time."""

    tag: str
    start_s: float
    length_s: float
    counts: Counts


class HlogWriter:
    """A log that only grows, by whole lines. It is locked until it is closed, or its process ends: so others see that it still grows."""

    def __init__(self, path: Path, base_ns: int) -> None:
        self.path = path
        base = f"{base_ns / 1e9:.3f} (seconds since epoch)"
        says = clock.utc(base_ns).strftime("%a %b %d %H:%M:%S UTC %Y")
        try:
            self._file: FileIO = path.open("wb", buffering=0)
        except OSError as error:
            raise ArchiveError(f"{path} cannot be opened: {error.strerror}") from error
        with suppress(OSError):  # a file system without locks
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            self.lines([
                "#[Logged by r1perf; tags are metric.workload.stage; values in us, those of token metrics in tokens]",
                "#[Histogram log format version 1.3]",
                f"#[StartTime: {base}, {says}]",
                f"#[BaseTime: {base}]",
                '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"',
            ])  # fmt: skip
        except ArchiveError:
            self._file.close()
            raise

    def write(self, start_ns: int, length_ns: int, tagged: dict[str, Counts]) -> None:
        """Append the histograms of one stretch of time, by tag; those without values are left out."""
        self.lines([
            line(tag, start_ns, length_ns, counts) for tag, counts in sorted(tagged.items()) if counts.count
        ])  # fmt: skip

    def lines(self, lines: list[str]) -> None:
        """Append whole lines; raises ArchiveError (disk full), after which the file still ends with a whole line."""
        data = "".join(text + "\n" for text in lines).encode("ascii")
        size = self._file.tell()
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:]) or 0
        except OSError as error:
            self._file.truncate(size)
            raise ArchiveError(f"{self.path} cannot be written: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def line(tag: str, start_ns: int, length_ns: int, counts: Counts) -> str:
    """Format one line, without its end; Interval_Max is in ms (of token metrics: in thousands)."""
    assert counts.most is not None
    return f"Tag={tag},{start_ns / 1e9:.3f},{length_ns / 1e9:.3f},{counts.most / 1000:.3f},{counts.encode()}"


def read(path: Path, damage: Callable[[str], None] = lambda sentence: None) -> Iterator[Line]:
    """Go through the histograms of a log written by r1perf; cut or damaged lines are left out and told."""
    try:
        file = path.open(encoding="ascii", errors="replace", newline="\n")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from error
    with file:
        for number, text in enumerate(file, 1):
            if text.startswith(("#", '"')):
                continue
            match = _LINE.fullmatch(text)
            try:
                if match is None:
                    raise ValueError("the line is cut or not one of ours")
                counts = Counts.decode(match[5])
            except ValueError as error:
                damage(f"{path.name}: line {number} was left out: {error}")
                continue
            yield Line(match[1], float(match[2]), float(match[3]), counts)
