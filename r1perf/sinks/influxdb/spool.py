"""Keep points on disk until the server has them: a file that grows, and a small one that says how far it is delivered.

`influxdb.spool` holds line protocol, whole lines only. It is written without buffering and without fsync: what was appended
outlives this process, and where the machine itself stops, the workers' own files still have the run. `influxdb.json` is
replaced at once after each delivery; where it is older than the truth, points are sent again, which changes nothing.
`influxdb.rejected` holds what the server refuses, each line below a comment that says why.
"""

import fcntl
import os
import shlex
import threading
from pathlib import Path

import msgspec

from r1perf.errors import ArchiveError

SPOOL, STATE, REJECTED = "influxdb.spool", "influxdb.json", "influxdb.rejected"

BATCH = 400_000
"""Bytes of one write; InfluxDB likes some thousand points, and a proxy may not like a megabyte."""

RECLAIM = 64 << 20
"""A spool that is delivered whole is emptied where it is larger."""

MEMORY = 32 << 20
"""So many bytes wait in memory where the disk is full."""


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Where a run's points go, and how far they are delivered (bytes of the spool). Without a spool beside it: to the end.

    `lost` points found no room: they are neither delivered nor in the spool. `complete` is a run of which every point is
    either: it is written at the run's end alone, so it is not there where the process was killed or the disk was full.
    """

    url: str
    org: str
    bucket: str
    offset: int = 0
    lost: int = 0
    complete: bool = False


class Batch(msgspec.Struct, frozen=True):
    """Whole lines to deliver; `end` is where the spool goes on behind them, None of lines that wait in memory."""

    lines: bytes
    end: int | None


class Spool:
    """The spool of one run's folder. Appending and delivering may happen in two threads, but not in two processes.

    Raises ArchiveError where another process has it.
    """

    def __init__(self, folder: Path, state: State, limit: int) -> None:
        self.path, self.rejected_path = folder / SPOOL, folder / REJECTED
        self.lost = state.lost  # points that found no room
        self.rejected = 0  # points that the server refused
        self.problem: str | None = None  # why the last append did not reach the disk, and what becomes of the points
        self.complete = state.complete  # to be set once the run's end is appended
        self._state_path = folder / STATE
        self._state, self._limit = state, limit
        self._lock = threading.Lock()
        self._folder = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # One process at a time: a replay would take the spool of a run that still goes on away from under it.
            fcntl.flock(self._folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._folder)
            raise ArchiveError(f"the points of {folder} are being written by another process") from error
        self._memory: list[bytes] = []
        self._fd: int | None = None
        self._size = self._whole() if self.path.exists() else 0
        if state.offset > self._size:
            self._state = msgspec.structs.replace(state, offset=0)
        self._save()

    @property
    def waiting(self) -> int:
        """How many bytes are not delivered yet."""
        with self._lock:
            return self._size - self._state.offset + sum(map(len, self._memory))

    def append(self, lines: bytes, *, limited: bool = True) -> None:
        """Take whole lines. Never raises: where the disk is full they wait in memory, where there is no room they are lost."""
        if not lines:
            return
        with self._lock:
            held = sum(map(len, self._memory))
            if limited and self._size - self._state.offset + held + len(lines) > self._limit:
                self.problem = f"the spool has reached its limit of {self._limit >> 20} MB; what does not fit is lost to InfluxDB"
                self.lost += lines.count(b"\n")
                return
            self._memory.append(lines)
            try:
                while self._memory:
                    self._write(self._memory[0])
                    self._memory.pop(0)
                self.problem = None
            except OSError as error:
                self.problem = f"{self.path} cannot be written: {error.strerror}; points for InfluxDB wait in memory, as far as they find room there"
                if held + len(lines) > MEMORY:
                    self._memory.pop()
                    self.lost += lines.count(b"\n")

    def read(self) -> Batch | None:
        """Return the next lines to deliver; None where all are delivered."""
        with self._lock:
            offset, size = self._state.offset, self._size
            if offset >= size:
                return Batch(self._memory[0], None) if self._memory else None
        with self.path.open("rb") as file:
            file.seek(offset)
            data = file.read(min(BATCH, size - offset))
            if not data.endswith(b"\n"):
                data = data[: data.rfind(b"\n") + 1] or data + file.readline()
        return Batch(data, offset + len(data))

    def done(self, batch: Batch) -> None:
        """Note that a batch needs no more delivery."""
        with self._lock:
            if batch.end is None:
                if self._memory and self._memory[0] is batch.lines:
                    self._memory.pop(0)
                return
            self._state = msgspec.structs.replace(self._state, offset=batch.end)
            if batch.end == self._size > RECLAIM and self._fd is not None:
                # The offset first: a crash in between sends all again, the other way round would lose what comes.
                self._state = msgspec.structs.replace(self._state, offset=0)
                self._save()
                os.ftruncate(self._fd, 0)
                self._size = 0
            self._save()

    def reject(self, line: bytes, why: str) -> None:
        """Put a line that the server refuses aside."""
        self.rejected += 1
        try:
            with self.rejected_path.open("ab") as file:
                file.write(f"# {why}\n".encode() + line)
        except OSError as error:
            self.problem = (
                f"{self.rejected_path} cannot be written: {error.strerror}; points that InfluxDB refuses are lost to it"
            )
            self.lost += 1

    def refused(self) -> list[bytes]:
        """Return the lines that were put aside."""
        if not self.rejected_path.exists():
            return []
        return [line for line in self.rejected_path.read_bytes().splitlines(keepends=True) if not line.startswith(b"#")]

    def readmit(self) -> int:
        """Take the lines that were refused once more; return how many.

        Raises ArchiveError where the disk has no room for them: memory would end with the process, so they stay where they are.
        """
        lines = self.refused()
        if not lines:
            return 0
        with self._lock:
            try:
                self._write(b"".join(lines))
            except OSError as error:
                raise ArchiveError(
                    f"{self.path} cannot be written: {error.strerror}; {len(lines)} refused points stay in {REJECTED}"
                ) from error
        self.rejected_path.unlink(missing_ok=True)
        return len(lines)

    def close(self) -> bool:
        """Close the spool, and remove it where all of it is delivered; return whether it is. What waits in memory is lost."""
        with self._lock:
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None
            delivered = self._state.offset >= self._size and not self._memory
            self.lost += sum(lines.count(b"\n") for lines in self._memory)
            self._memory.clear()
            self.complete = self.complete and not self.lost
            self._state = msgspec.structs.replace(self._state, lost=self.lost, complete=self.complete)
            saved = self._save()
            if delivered and (saved or not self.lost):  # an older state without a spool would say that all is there
                self.path.unlink(missing_ok=True)
            fcntl.flock(self._folder, fcntl.LOCK_UN)  # where gevent has patched it, closing may come later
            os.close(self._folder)
            return delivered

    def _write(self, lines: bytes) -> None:
        """Append to the file, whole or not at all."""
        if self._fd is None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        view, written = memoryview(lines), 0
        try:
            while written < len(view):
                written += os.write(self._fd, view[written:])
        except OSError:
            if written:
                os.ftruncate(self._fd, self._size)
            raise
        self._size += written

    def _whole(self) -> int:
        """Cut off a last line that was not written whole, and return the size."""
        with self.path.open("rb+") as file:
            size = file.seek(0, os.SEEK_END)
            end = size
            while end > 0:
                begin = max(end - 65_536, 0)
                file.seek(begin)
                at = file.read(end - begin).rfind(b"\n")
                if at >= 0:
                    end = begin + at + 1
                    break
                end = begin
            if end < size:
                file.truncate(end)
            return end

    def _save(self) -> bool:
        """Replace the state; where the disk is full the older one stays, which only sends points again. Return whether it could."""
        fresh = self._state_path.with_name(f".{STATE}.new")
        try:
            fresh.write_bytes(msgspec.json.encode(self._state) + b"\n")
            fresh.replace(self._state_path)
        except OSError:
            fresh.unlink(missing_ok=True)
            return False
        return True


def again(folder: Path, *, whole: bool = False) -> str:
    """Return the command that sends what is missing, or the whole run, as a shell takes it."""
    return shlex.join(["r1perf", "influx", "replay", *(["--all"] if whole else []), str(folder)])


def read_state(folder: Path) -> State | None:
    """Read where a run's points went; None of a run that never had an InfluxDB. Raises ArchiveError where it is damaged."""
    path = folder / STATE
    try:
        return msgspec.json.decode(path.read_bytes(), type=State)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise ArchiveError(f"{path} cannot be read: {error}") from error
