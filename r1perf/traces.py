"""Recorded traffic: when requests came and how long they were. Formats are known by their header.

| format | file | time | prefix blocks |
|---|---|---|---|
| mooncake | JSON Lines `timestamp, input_length, output_length, hash_ids` | ms | 512 tokens |
| qwen-bailian | the same with `chat_id, parent_chat_id, type, turn` | s | 16 tokens |
| azure | CSV `TIMESTAMP,ContextTokens,GeneratedTokens` (2023, 2024) | date, 7 digits of a second | - |
| burstgpt | CSV `Timestamp,Model,Request tokens,Response tokens,...` (1, 2; 3 with `Session ID,Elapsed time`) | s | - |
"""

import csv
import hashlib
import re
from calendar import timegm
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from r1perf.errors import DatasetError
from r1perf.units import MOST_TOKENS

Ints = NDArray[np.int64]
Format = Literal["mooncake", "qwen-bailian", "azure", "burstgpt"]

MOST_NS = 2**62
"""146 years: the distance of any two times fits into 64 bits."""

ALLOWED = (
    "a Mooncake or Qwen-Bailian JSON Lines file (`timestamp`, `input_length`, `output_length`), an Azure CSV "
    "(`TIMESTAMP,ContextTokens,GeneratedTokens`) or a BurstGPT CSV (`Timestamp`, `Request tokens`, `Response tokens`)"
)


class Trace(NamedTuple):
    """A trace in order of time, one entry a request; offsets count from its first request."""

    format: Format
    offsets_ns: Ints
    input_tokens: Ints
    output_tokens: Ints
    blocks: tuple[Ints, Ints] | None  # all block ids, one request after the other; where each request's begin, and the end
    block_tokens: int
    left_out: int  # requests without input or output: failures
    digest: str

    def block_ids(self, row: int) -> list[int]:
        """Return the ids of the blocks that make a request's input; those of equal id have equal text."""
        if self.blocks is None:
            return []
        ids, starts = self.blocks
        found: list[int] = ids[starts[row] : starts[row + 1]].tolist()
        return found


class _Row(NamedTuple):
    time_ns: int
    inputs: int
    outputs: int
    blocks: list[int]


class _Recorded(msgspec.Struct):
    timestamp: float
    input_length: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
    output_length: Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
    hash_ids: list[Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]] = []
    chat_id: int | str | None = None


def read_trace(path: Path) -> Trace:
    """Read a trace file; raises DatasetError with file, line and reason.

    Arrivals and lengths of one run ask for the same file several times: it is read once, as long as it stays as it is.
    """
    try:
        if not path.is_file():
            raise DatasetError(f"{path}: {'not a file' if path.exists() else 'no such file'}")
        now = path.stat()
        return _read(path, now.st_size, now.st_mtime_ns)
    except UnicodeDecodeError as error:
        raise DatasetError(not_text(path)) from error
    except csv.Error as error:
        raise DatasetError(f"{path}: not a CSV file ({error})") from error
    except OSError as error:
        raise DatasetError(f"{path}: {error.strerror or error}") from error


@lru_cache(maxsize=4)
def _read(path: Path, size: int, mtime_ns: int) -> Trace:
    """Read a file in the state that its size and time stand for."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        first = file.readline(1 << 20)
    if first.startswith(BINARY):
        raise DatasetError(not_text(path))
    kind, rows = _json_rows(path) if first.lstrip(b"\xef\xbb\xbf \t").startswith(b"{") else _csv_rows(path)
    return _trace(path, kind, rows, digest)


def _trace(path: Path, kind: Format, rows: Iterator[_Row], digest: str) -> Trace:
    times: list[int] = []
    inputs: list[int] = []
    outputs: list[int] = []
    ids: list[int] = []
    starts: list[int] = []
    left_out = 0
    for row in rows:
        if row.inputs < 1 or row.outputs < 1:
            left_out += 1
            continue
        times.append(row.time_ns)
        inputs.append(row.inputs)
        outputs.append(row.outputs)
        starts.append(len(ids))
        ids.extend(row.blocks)
    if not times:
        raise DatasetError(f"{path}: has no request with input and output")
    order = np.argsort(np.array(times), kind="stable")
    sorted_times = np.array(times)[order]
    blocks = None
    if ids:
        ends = np.array([*starts[1:], len(ids)])
        sizes = (ends - np.array(starts))[order]
        flat = np.array(ids)
        moved = (
            np.concatenate([flat[starts[row] : ends[row]] for row in order]) if (order != np.arange(len(order))).any() else flat
        )
        blocks = (moved, np.concatenate([[0], np.cumsum(sizes)]))
    return Trace(
        kind,
        sorted_times - sorted_times[0],
        np.array(inputs)[order],
        np.array(outputs)[order],
        blocks,
        16 if kind == "qwen-bailian" else 512,
        left_out,
        digest,
    )


def _json_rows(path: Path) -> tuple[Format, Iterator[_Row]]:
    decoder = msgspec.json.Decoder(_Recorded)

    def lines() -> Iterator[tuple[int, bytes]]:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                text = line.removeprefix(b"\xef\xbb\xbf").strip()
                if text:
                    yield number, text

    def rows(unit_ns: int) -> Iterator[_Row]:
        for number, text in lines():
            try:
                row = decoder.decode(text)
                yield _Row(_in_time(row.timestamp * unit_ns), row.input_length, row.output_length, row.hash_ids)
            except msgspec.MsgspecError as error:
                raise DatasetError(f"{path} line {number}: {error}; allowed: {ALLOWED}") from error
            except RecursionError as error:
                raise DatasetError(f"{path} line {number}: is nested too deeply") from error
            except ValueError as error:
                raise DatasetError(f"{path} line {number}: `timestamp` {error}") from error

    bailian = any(b'"chat_id"' in text for _, text in islice(lines(), 1))
    return ("qwen-bailian", rows(10**9)) if bailian else ("mooncake", rows(10**6))


def _csv_rows(path: Path) -> tuple[Format, Iterator[_Row]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        header = [name.strip().lower() for name in next(csv.reader(file), [])]
    if header == ["timestamp", "contexttokens", "generatedtokens"]:
        return "azure", _cells(path, (0, 1, 2), _clock())
    if {"timestamp", "request tokens", "response tokens"} <= set(header):
        columns = (header.index("timestamp"), header.index("request tokens"), header.index("response tokens"))
        return "burstgpt", _cells(path, columns, _seconds_ns)
    raise DatasetError(f"{path} line 1: not the header of a known trace; allowed: {ALLOWED}")


def _cells(path: Path, columns: tuple[int, int, int], time_ns: Callable[[str], int]) -> Iterator[_Row]:
    when, inputs, outputs = columns
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        next(reader)
        for row in reader:
            if not row:
                continue
            try:
                if len(row) <= max(columns):
                    raise ValueError(f"it has {len(row)} cells")
                yield _Row(time_ns(row[when]), _tokens(row[inputs]), _tokens(row[outputs]), [])
            except ValueError as error:
                said = ",".join(row)
                said = said if len(said) <= 80 else said[:77] + "..."
                raise DatasetError(f"{path} line {reader.line_num}: {said!r} is no row of a trace ({error})") from error


def _tokens(text: str) -> int:
    number = text.strip()
    if not (number.isascii() and number.isdecimal() and len(number) <= 18 and int(number) <= MOST_TOKENS):
        raise ValueError(f"a length must be a whole number of tokens from 0 to {MOST_TOKENS:,}")
    return int(number)


def _seconds_ns(text: str) -> int:
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError("its time must be a number of seconds") from None
    return _in_time(seconds * 10**9)


def _in_time(ns: float) -> int:
    """Return whole ns; raises ValueError beyond some hundred years, and for what is no time at all."""
    if not abs(ns) < MOST_NS:
        raise ValueError("is no time within 146 years")
    return round(ns)


def _clock() -> Callable[[str], int]:
    """Make a reader of "2023-11-16 18:15:46.6805900", with or without "+00:00", to the last of up to 9 digits.

    `datetime` knows six digits only; the whole second is read by it once and remembered, as many rows share one.
    """
    seconds: dict[str, int] = {}

    def read(text: str) -> int:
        second, _, rest = text.strip().partition(".")
        fraction = re.match("[0-9]*", rest)[0]  # type: ignore[index]  # it always matches
        zone = rest[len(fraction) :]
        whole = seconds.get(second + zone)
        if whole is None:
            seconds.clear()
            try:
                moment = datetime.fromisoformat(second + zone)
                whole = seconds[second + zone] = timegm((moment - (moment.utcoffset() or timedelta())).timetuple())
            except (ValueError, OverflowError):
                raise ValueError("its time must be a date such as 2023-11-16 18:15:46.6805900") from None
        return _in_time(whole * 10**9) + int(fraction[:9].ljust(9, "0"))

    return read


_GZIP, _UTF_16 = b"\x1f\x8b", (b"\xff\xfe", b"\xfe\xff")
BINARY = (_GZIP, *_UTF_16)
"""How files begin that are no UTF-8 text, whatever their name says."""


def not_text(path: Path) -> str:
    """Say why a file is not UTF-8 text: what it is instead, or in which line it stops to be."""
    with path.open("rb") as file:
        start = file.read(4)
        if start.startswith(_GZIP):
            return f"{path}: is compressed (gzip); unpack it first"
        if start.startswith(_UTF_16):
            return f"{path}: is UTF-16 text; allowed: UTF-8"
        file.seek(0)
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return f"{path} line {number}: is not UTF-8 text (byte 0x{line[error.start]:02x})"
    return f"{path}: is not UTF-8 text"
