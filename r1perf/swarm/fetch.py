"""Fetch a worker's own files at the end of a run, piece by piece."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from r1perf import messages
from r1perf.journal import requests_path, snapshots_path
from r1perf.swarm import wire

ASK_AGAIN_NS = 3_000_000_000
GIVE_UP_NS = 30_000_000_000
"""A worker that answers nothing for so long keeps its files."""


class Fetching:
    """The files of one worker, whose last word was `done`; they stay where they are unless they are `wanted`."""

    def __init__(self, folder: Path, worker: str, now_ns: Callable[[], int], done: messages.Done, wanted: bool = True) -> None:
        self.done = done
        self._now_ns = now_ns
        self._paths = [requests_path(folder, worker), snapshots_path(folder, worker)]
        self._offset = 0
        self._asked_ns: int | None = None  # of what is not answered yet
        self._answered_ns = now_ns()
        self._failed = not wanted

    @property
    def whole(self) -> bool:
        """Tell whether every file has come."""
        return not self._paths

    @property
    def ended(self) -> bool:
        """Tell whether there is nothing left to ask for: all has come, or was given up."""
        return self.whole or self._failed or self._now_ns() - self._answered_ns > GIVE_UP_NS

    def ask(self) -> wire.Fetch | None:
        """Return what to ask for now; None where an answer is waited for, or nothing is left."""
        if self.ended or (self._asked_ns is not None and self._now_ns() - self._asked_ns < ASK_AGAIN_NS):
            return None
        self._asked_ns = self._now_ns()
        return wire.Fetch(self._paths[0].name, self._offset)

    def take(self, piece: wire.Piece) -> None:
        """Write a piece that was asked for; one that has come before changes nothing."""
        if self.ended or piece.name != self._paths[0].name or piece.offset != self._offset:
            return
        self._asked_ns, self._answered_ns = None, self._now_ns()
        path = self._paths[0]
        part = path.with_name(f".{path.name}.part")
        try:
            with part.open("ab" if self._offset else "wb") as file:
                file.write(piece.data)
            self._offset += len(piece.data)
            if self._offset >= piece.size or not piece.data:
                part.replace(path)
                self._paths.pop(0)
                self._offset = 0
        except OSError:
            self._failed = True
            with contextlib.suppress(OSError):
                part.unlink()
