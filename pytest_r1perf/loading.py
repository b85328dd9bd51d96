"""Have a load carried out by a process of its own, show how it goes, and end it in order on Ctrl-C."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, BinaryIO

import msgspec

from pytest_r1perf.messages import INTERRUPT, Done, Note, Order, Progress, Said

TICK_S = 0.2

_INTERRUPTS_MOST = 2
"""The first Ctrl-C drains, the second cuts; the next one kills, and the archive has to be recovered."""


class Interrupted(Exception):
    """Say that Ctrl-C has ended a load, and how; nothing is known of one that had to be killed."""

    def __init__(self, done: Done | None) -> None:
        super().__init__("by Ctrl-C")
        self.done = done


def carry_out(order: Order, tell: Callable[[Note | Progress], None]) -> Done:
    """Run the order to its end and return how it ended; after a Ctrl-C raise Interrupted when the archive is complete."""
    with tempfile.TemporaryFile() as log, _interrupts() as came:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest_r1perf.load"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            bufsize=0,
            start_new_session=True,  # a Ctrl-C at the terminal reaches pytest alone, which then says so to the load
        )
        try:
            done = _followed(process, order, tell, came)
        finally:
            _end(process)
        if came:
            raise Interrupted(done)
        return done if done is not None else Done(2, f"the load's process ended early: {_last_words(log, process)}", None)


def _followed(
    process: "subprocess.Popen[bytes]", order: Order, tell: Callable[[Note | Progress], None], came: list[int]
) -> Done | None:
    assert process.stdin is not None
    assert process.stdout is not None
    _write(process, msgspec.json.encode(order) + b"\n")
    told, unread = 0, b""
    done: Done | None = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while True:
            while told < len(came):
                told += 1
                _interrupt(process, told, tell)
            if not selector.select(TICK_S):
                continue
            data = os.read(process.stdout.fileno(), 1 << 16)
            if not data:
                return done
            *lines, unread = (unread + data).split(b"\n")
            for line in lines:
                said = msgspec.json.decode(line, type=Said)
                if isinstance(said, Done):
                    done = said
                else:
                    tell(said)


def _interrupt(process: "subprocess.Popen[bytes]", number: int, tell: Callable[[Note | Progress], None]) -> None:
    if number > _INTERRUPTS_MOST:
        process.kill()
        return
    tell(Note("interrupted: the load ends and its archive is completed" if number == 1 else "interrupted again: cut now"))
    _write(process, INTERRUPT)


def _write(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended; what it said last is still to be read
        process.stdin.write(data)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Let the process end: without its pipe it cuts the load and completes the archive."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()


@contextlib.contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect Ctrl-C instead of dying of it halfway; only the main thread can."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield came
        return

    def note(number: int, frame: FrameType | None) -> None:
        came.append(number)

    before: Any = signal.signal(signal.SIGINT, note)
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


def _last_words(log: BinaryIO, process: "subprocess.Popen[bytes]") -> str:
    log.seek(0)
    lines = log.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else f"exit code {process.returncode}"
