"""Rows of JSON files that stay where they are: memory-mapped, an offset a row, so 100,000 lines cost 2 MB beside the page cache.

A file must stay as it is until the run has ended: each read looks whether it has, since a page that is gone would end the process.
"""

import hashlib
import mmap
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from weakref import finalize

import msgspec
import numpy as np

from r1perf.errors import DatasetError
from r1perf.traces import BINARY, not_text

_OBJECT = msgspec.json.Decoder(dict[str, Any])
_MARK = b"\xef\xbb\xbf"  # a byte order mark


def digest_of(path: Path) -> str:
    """Hash a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Mapped:
    """A file's bytes, and whether they are still those that were mapped. A file that is replaced or removed stays readable."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        finalize(self, os.close, self._fd)
        self._state = self._now()
        self.data = mmap.mmap(self._fd, 0, access=mmap.ACCESS_READ)
        if self.data[:4].startswith(BINARY):
            raise DatasetError(not_text(path))
        self.start = len(_MARK) if self.data[:3] == _MARK else 0

    def check(self, where: str) -> None:
        """Raise DatasetError where the file was written to since."""
        if self._now() != self._state:
            raise DatasetError(f"{where}: the file was changed after it was read; it must stay as it is until the run has ended")

    def _now(self) -> tuple[int, int]:
        now = os.fstat(self._fd)
        return now.st_size, now.st_mtime_ns


class JsonLines:
    """One JSON object a line; blank lines don't count."""

    size = 0

    def __init__(self, path: Path) -> None:
        self._path, self.digest = path, digest_of(path)
        self._mapped = _Mapped(path)
        self._data = self._mapped.data
        starts, ends, lines = [], [], []
        position = self._mapped.start
        for line, end in enumerate(self._line_ends(), start=1):
            if self._data[position:end].strip():
                starts.append(position)
                ends.append(end)
                lines.append(line)
            position = end + 1
        self._starts, self._ends, self._lines = np.array(starts), np.array(ends), np.array(lines)

    def _line_ends(self) -> Iterator[int]:
        step, size = 1 << 22, len(self._data)
        for start in range(0, size, step):
            block = np.frombuffer(self._data[start : start + step], dtype=np.uint8)
            yield from (np.flatnonzero(block == 10) + start).tolist()
        if self._data[size - 1] != 10:
            yield size

    def __len__(self) -> int:
        return len(self._starts)

    def row(self, index: int) -> dict[str, Any]:
        self._mapped.check(self.where(index))
        return _OBJECT.decode(self._data[self._starts[index] : self._ends[index]])

    def where(self, index: int) -> str:
        return f"{self._path} line {self._lines[index]}"


class JsonList:
    """One JSON list of objects."""

    size = 0

    def __init__(self, path: Path) -> None:
        self._path, self.digest = path, digest_of(path)
        self._mapped = _Mapped(path)
        try:
            # Each Raw is a view into the mapped file: nothing is copied.
            self._items = msgspec.json.decode(memoryview(self._mapped.data)[self._mapped.start :], type=list[msgspec.Raw])
        except msgspec.MsgspecError as error:
            raise DatasetError(f"{path}: not a JSON list of objects ({error})") from error
        except RecursionError as error:
            raise DatasetError(f"{path}: is nested too deeply") from error

    def __len__(self) -> int:
        return len(self._items)

    def row(self, index: int) -> dict[str, Any]:
        self._mapped.check(self.where(index))
        return _OBJECT.decode(self._items[index])

    def where(self, index: int) -> str:
        return f"{self._path} item {index + 1}"
