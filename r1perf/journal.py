"""Append a worker's results and snapshots to its own files, and read them back whatever state they were left in.

`requests.<worker>.jsonl` holds one result a line; `snapshots.<worker>` holds the encoded snapshots, each behind its length
(4 bytes, big-endian). A record that was cut by a crash can only be the last one; readers leave it out and say so.
`scheduled.<worker>.jsonl` holds one ticket a line while the worker lives: which requests a killed one had in flight.
"""

import os
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import BufferedReader
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from r1perf import snapshot as snapshots
from r1perf.client import Ticket
from r1perf.errors import ArchiveError
from r1perf.result import Result
from r1perf.snapshot import Snapshot

_LENGTH = struct.Struct(">I")
_RECORD_LIMIT = 256 << 20  # a longer record is damage: a snapshot is some kilobytes

_encode_result = msgspec.json.Encoder().encode
_decode_result = msgspec.json.Decoder(Result).decode
_encode_ticket = msgspec.json.Encoder().encode
_decode_ticket = msgspec.json.Decoder(Ticket).decode

Damage = Callable[[str], None]
"""Told, in one sentence, what a reader left out."""


def requests_path(folder: Path, worker: str) -> Path:
    """Name the file of a worker's results."""
    return folder / f"requests.{worker}.jsonl"


def snapshots_path(folder: Path, worker: str) -> Path:
    """Name the file of a worker's snapshots."""
    return folder / f"snapshots.{worker}"


def scheduled_path(folder: Path, worker: str) -> Path:
    """Name the file of what a worker has scheduled."""
    return folder / f"scheduled.{worker}.jsonl"


class Appender:
    """A file that only grows, by whole records: what `flush` could not write whole is cut off again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting = bytearray()
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._size = os.fstat(self._fd).st_size
        except OSError as error:
            raise ArchiveError(f"{path} cannot be opened: {error.strerror}") from error

    def append(self, record: bytes) -> None:
        """Take a record; it is in the file after the next `flush`."""
        self._waiting += record

    def flush(self) -> None:
        """Hand what waits to the operating system; raises ArchiveError (disk full), after which the file ends whole."""
        if not self._waiting:
            return
        data = memoryview(bytes(self._waiting))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError as error:
            os.ftruncate(self._fd, self._size)
            raise ArchiveError(f"{self.path} cannot be written: {error.strerror}") from error
        self._size += written
        del self._waiting[: len(data)]  # more may have been appended meanwhile: `flush` runs on a thread

    def close(self) -> None:
        """Flush and close; the file is closed even where that fails."""
        if self._fd < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        """Close at the end."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Close the file."""
        self.close()


class RequestsJournal(Appender):
    """`requests.<worker>.jsonl`."""

    def __init__(self, folder: Path, worker: str) -> None:
        super().__init__(requests_path(folder, worker))

    def write(self, result: Result) -> None:
        """Take one ended request."""
        self.append(_encode_result(result) + b"\n")


class ScheduledJournal(Appender):
    """`scheduled.<worker>.jsonl`."""

    def __init__(self, folder: Path, worker: str) -> None:
        super().__init__(scheduled_path(folder, worker))

    def write(self, ticket: Ticket) -> None:
        """Take one request that became due."""
        self.append(_encode_ticket(ticket) + b"\n")


class SnapshotsJournal(Appender):
    """`snapshots.<worker>`."""

    def __init__(self, folder: Path, worker: str) -> None:
        super().__init__(snapshots_path(folder, worker))

    def write(self, encoded: bytes) -> None:
        """Take one encoded snapshot."""
        self.append(_LENGTH.pack(len(encoded)) + encoded)


class Journals:
    """A worker's files, open to be written; raises ArchiveError where one cannot be opened."""

    def __init__(self, folder: Path, worker: str) -> None:
        with ExitStack() as opened:
            self.snapshots = opened.enter_context(SnapshotsJournal(folder, worker))
            self.requests = opened.enter_context(RequestsJournal(folder, worker))
            self.scheduled = opened.enter_context(ScheduledJournal(folder, worker))
            self._opened = opened.pop_all()

    def flush(self) -> None:
        """Hand what waits to the operating system, what a later one of the files counts on first; see `Appender`."""
        try:
            self.scheduled.flush()
        finally:  # results are worth more
            self.requests.flush()
            self.snapshots.flush()

    def close(self) -> None:
        """Flush and close all, whatever becomes of one; where all is well, every request has its line, and what was scheduled goes."""
        self._opened.close()
        self.scheduled.path.unlink(missing_ok=True)


class _LeftOut:
    """What a reader leaves out of a file for one kind of reason: told once, however much it is."""

    def __init__(self, path: Path, what: str, damage: Damage) -> None:
        self._name, self._what, self._damage = path.name, what, damage
        self._count, self._first = 0, ""

    def add(self, at: int, why: str) -> None:
        """Leave one out."""
        self._count += 1
        self._first = self._first or f"{self._what} {at} was left out: {why}"

    def tell(self) -> None:
        """Tell the first, and how many more there are."""
        if self._count:
            more = f"; and {self._count - 1:,} more for such a reason" if self._count > 1 else ""
            self._damage(f"{self._name}: {self._first}{more}")


def read_requests(path: Path, damage: Damage = lambda sentence: None) -> Iterator[Result]:
    """Go through the results of a file, in the order in which they ended, each once."""
    seen = set[str]()
    damaged, doubled = _LeftOut(path, "line", damage), _LeftOut(path, "line", damage)
    with _opened(path) as file:
        for number, line in enumerate(file, 1):
            try:
                if not line.endswith(b"\n"):
                    raise msgspec.DecodeError("the line is cut")
                result = _decode_result(line)
            except msgspec.MsgspecError as error:
                damaged.add(number, str(error))
                continue
            if result.id in seen:
                doubled.add(number, f"request {result.id} has a line already")
                continue
            seen.add(result.id)
            yield result
    damaged.tell()
    doubled.tell()


def read_scheduled(path: Path) -> Iterator[Ticket]:
    """Go through the requests that became due, in their order; a line that was cut is the last one, and is left out."""
    with _opened(path) as file:
        for line in file:
            try:
                yield _decode_ticket(line)
            except msgspec.MsgspecError:
                return


def read_snapshots(path: Path, damage: Damage = lambda sentence: None) -> Iterator[Snapshot]:
    """Go through the snapshots of a file, each interval once; nothing can be found behind a damaged one."""
    seen = set[int]()
    doubled = _LeftOut(path, "record at byte", damage)
    with _opened(path) as file:
        while head := file.read(_LENGTH.size):
            at = file.tell() - len(head)
            length = _LENGTH.unpack(head)[0] if len(head) == _LENGTH.size else -1
            data = file.read(length) if 0 < length <= _RECORD_LIMIT else b""
            try:
                if not data or len(data) != length:
                    raise msgspec.DecodeError("the record is cut")
                snapshot = snapshots.decode(data)
            except msgspec.MsgspecError as error:
                damage(f"{path.name}: what follows byte {at} was left out: {error}")
                break
            if snapshot.k in seen:
                doubled.add(at, f"interval {snapshot.k} has one already")
                continue
            seen.add(snapshot.k)
            yield snapshot
    doubled.tell()


def _opened(path: Path) -> BufferedReader:
    try:
        return path.open("rb")
    except OSError as error:
        raise ArchiveError(f"{path} cannot be read: {error.strerror}") from error
