"""Rows of a data file: JSON Lines, a JSON list, CSV, Parquet or plain text, each row a dict, each with its place for error messages.

JSON stays in the file (`mapped`); CSV, Parquet and text are read into memory.
"""

import csv
from collections.abc import Callable, Iterator
from math import isnan
from pathlib import Path
from typing import Any, Protocol, TypeVar

from r1perf.datasets import Told, silent
from r1perf.datasets.mapped import JsonLines, JsonList, digest_of
from r1perf.errors import DatasetError
from r1perf.traces import not_text

T = TypeVar("T")

ALLOWED = ".jsonl, .ndjson, .json (a list), .csv, .parquet or .txt"


class Rows(Protocol):
    """The rows of one source, at least one."""

    digest: str
    size: int  # bytes of the file

    def __len__(self) -> int:
        """Return how many rows there are."""

    def row(self, index: int) -> dict[str, Any]:
        """Return one row; raises ValueError with a reason where it cannot be read, DatasetError where its file is not that any more."""

    def where(self, index: int) -> str:
        """Name a row's place, for people."""


LARGE = 256 << 20
"""A file of so many bytes or more is told of while it is read."""

STEPS = 4
"""How often its progress is told."""


def open_rows(path: str, base: Path | None, told: Told = silent) -> Rows:
    """Open a data file by its name's ending; raises DatasetError with file and reason."""
    full = (base or Path()) / Path(path).expanduser()
    kind = _KINDS.get(full.suffix.lower())
    if kind is None:
        raise DatasetError(f"{path}: not a kind of data file that can be read; allowed: {ALLOWED}")
    try:
        if not full.is_file():
            raise DatasetError(f"{full}: {'not a file' if full.exists() else 'no such file'}")
        if not full.stat().st_size:
            raise DatasetError(f"{full}: is empty")
        size = full.stat().st_size
        if size >= LARGE:
            told(f"loading {full.name} ({size >> 20:,} MB)")
        rows = kind(full)
        rows.size = size
    except OSError as error:
        raise DatasetError(f"{full}: {error.strerror or error}") from error
    if not len(rows):
        raise DatasetError(f"{full}: has no rows")
    return rows


def read_all(rows: Rows, read: Callable[[dict[str, Any]], T], told: Told = silent) -> Iterator[T]:
    """Read every row once, so that a wrong one is told before the run, with its place."""
    count = len(rows)
    step = max(1, -(-count // STEPS)) if rows.size >= LARGE else count + 1
    for index in range(count):
        if index and index % step == 0:
            told(f"{index:,} of {count:,} rows are read")
        try:
            yield read(rows.row(index))
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise DatasetError(f"{rows.where(index)}: {error}") from error
        except RecursionError as error:
            raise DatasetError(f"{rows.where(index)}: is nested too deeply") from error


def text_of(row: dict[str, Any], *names: str) -> str:
    """Return the first of the named columns as text; raises ValueError that names what is allowed and what is there."""
    value = cell(row, *names)
    if isinstance(value, str) and value:
        return value
    if value is not None:
        name = next(name for name in names if cell(row, name) is not None)
        raise ValueError(f"`{name}` must be text that is not empty, not {shown(value)}")
    raise ValueError(f"has no {' or '.join(f'`{name}`' for name in names)} (it has {held(row)})")


def cell(row: dict[str, Any], *names: str) -> Any:
    """Return the first of the named columns that holds something, or None.

    A table in which some numbers are missing keeps them as floats: NaN is none, and 5.0 is 5.
    """
    for name in names:
        value = row.get(name)
        if isinstance(value, float):
            value = None if isnan(value) else int(value) if value.is_integer() else value
        if value is not None:
            return value
    return None


def whole(text: str) -> str | None:
    """Return the digits of a whole number without leading zeros, 5 for a table's "5.0" too; None for any other text."""
    digits, _, rest = text.strip().partition(".")
    return (digits.lstrip("0") or "0") if digits.isascii() and digits.isdecimal() and not rest.strip("0") else None


def held(row: dict[str, Any]) -> str:
    """Name the columns that hold something, for people."""
    return ", ".join(str(name) for name in row if cell(row, str(name)) is not None) or "nothing"


def shown(value: Any) -> str:
    """Write a wrong value for people: what is long is shortened."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


class Csv:
    """Comma-separated values under a header line."""

    size = 0

    def __init__(self, path: Path) -> None:
        self._path, self.digest = path, digest_of(path)
        self._rows: list[dict[str, Any]] = []
        self._lines: list[int] = []
        before = csv.field_size_limit(1 << 30)  # the default refuses prompts over 131,072 characters
        line = 1
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, strict=True)
                names = list(reader.fieldnames or ())
                columns = len(names)
                if twice := next((name for name in names if names.count(name) > 1), None):
                    raise DatasetError(f"{path} line 1: the header names `{twice}` more than once")
                line = reader.line_num + 1
                for row in reader:
                    if None in row or None in row.values():
                        raise DatasetError(f"{path} line {line}: has not as many cells as the header ({columns})")
                    self._rows.append(row)
                    self._lines.append(line)
                    line = reader.line_num + 1
        except UnicodeDecodeError as error:
            raise DatasetError(not_text(path)) from error
        except csv.Error as error:
            raise DatasetError(f"{path} line {line}: {error}") from error
        finally:
            csv.field_size_limit(before)

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        return self._rows[index]

    def where(self, index: int) -> str:
        return f"{self._path} line {self._lines[index]}"


class Parquet:
    """A Parquet table, by pyarrow."""

    size = 0

    def __init__(self, path: Path) -> None:
        try:
            from pyarrow import ArrowException, parquet
        except ImportError as error:
            raise DatasetError(f"{path}: Parquet needs pyarrow: pip install 'r1perf[parquet]'") from error
        self._path, self.digest = path, digest_of(path)
        try:
            self._table = parquet.read_table(path)
        except ArrowException as error:
            raise DatasetError(f"{path}: {str(error).splitlines()[0]}") from error

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def row(self, index: int) -> dict[str, Any]:
        row: dict[str, Any] = self._table.slice(index, 1).to_pylist()[0]
        return row

    def where(self, index: int) -> str:
        return f"{self._path} row {index + 1}"


class Text:
    """One prompt a line; blank lines don't count."""

    size = 0

    def __init__(self, path: Path) -> None:
        self._path, self.digest = path, digest_of(path)
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except UnicodeDecodeError as error:
            raise DatasetError(not_text(path)) from error
        self._rows = [(number, line.rstrip("\r")) for number, line in enumerate(lines, start=1) if line.strip()]

    def __len__(self) -> int:
        return len(self._rows)

    def row(self, index: int) -> dict[str, Any]:
        return {"prompt": self._rows[index][1]}

    def where(self, index: int) -> str:
        return f"{self._path} line {self._rows[index][0]}"


_KINDS: dict[str, Callable[[Path], Rows]] = {
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonList,
    ".csv": Csv,
    ".parquet": Parquet,
    ".txt": Text,
}
