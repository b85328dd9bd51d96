"""Say what goes between the test process and the process that carries a load out: one JSON object a line."""

from typing import Any

import msgspec


class Order(msgspec.Struct, frozen=True):
    """What to run: a scenario as `resolved()` gives it, and where its files are and its archive goes."""

    scenario: dict[str, Any]
    base: str
    runs: str
    workers: int = 1


class Note(msgspec.Struct, frozen=True, tag="note"):
    """A warning or an event."""

    sentence: str


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The present in one line."""

    line: str


class Done(msgspec.Struct, frozen=True, tag="done"):
    """How the run ended: r1perf's exit code, the sentence where it is not 0, the archive where there is one."""

    code: int
    sentence: str | None
    folder: str | None


Said = Note | Progress | Done

INTERRUPT = b"interrupt\n"
"""What the test process writes for a Ctrl-C; the end of the pipe (it has died) means two."""
