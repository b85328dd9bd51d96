"""Carry one load out in a process of its own: `python -m pytest_r1perf.load`, an Order on standard input.

The test process keeps its threads, its signals and its locks: what measures is patched by gevent, and this process (the
collector of the run) takes SIGINT for itself.
"""

import _thread
import os
import signal
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import msgspec

from pytest_r1perf.messages import Done, Note, Order, Progress, Said
from r1perf import clock
from r1perf.errors import R1perfError
from r1perf.launch.run import run
from r1perf.report import live_line, window_s
from r1perf.scenario import load
from r1perf.summary import Summary

LINE_NS = 1_000_000_000

AGAIN_S = 0.5
"""How long an interrupt has to be noticed before the next one."""


class _View:
    """Tell the test process what a terminal would show, once a second."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._due_ns = 0

    def note(self, sentence: str) -> None:
        say(self._out, Note(sentence))

    def show(self, summary: Summary, phase: str) -> None:
        now_ns = clock.monotonic_ns()
        if summary.elapsed_ns and now_ns >= self._due_ns:
            self._due_ns = now_ns + LINE_NS
            say(self._out, Progress(f"{phase} | {live_line(summary, window_s(summary))}"))


def say(out: BinaryIO, message: Said) -> None:
    """Write one message; when the test process has died, nobody needs it."""
    try:
        out.write(msgspec.json.encode(message) + b"\n")
        out.flush()
    except BrokenPipeError:
        pass


def main() -> int:
    """Run the ordered scenario to its end."""
    # What anything prints by mistake goes to the log, not into a message.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        order = msgspec.json.decode(sys.stdin.buffer.readline(), type=Order)
        threading.Thread(target=_listen, args=(sys.stdin.buffer,), daemon=True).start()
        done = carried_out(order, out)
    except KeyboardInterrupt:  # from `_listen`, before the run has taken the signal for itself
        done = Done(130, "interrupted before the run began", None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    say(out, done)
    out.close()
    return done.code


def carried_out(order: Order, out: BinaryIO) -> Done:
    """Carry an order out, telling how it goes; return how it ended."""
    try:
        scenario = load(order.scenario)
        ran = run(scenario, base=Path(order.base), runs=Path(order.runs), view=_View(out), workers=order.workers)
    except R1perfError as error:
        return Done(2, str(error), None)
    return Done(ran.verdict.code, ran.verdict.sentence, None if ran.folder is None else str(ran.folder))


def _listen(pipe: BinaryIO) -> None:
    """Interrupt this process for each line, and when the test process is gone until it ends: the second time cuts what is in flight."""
    for _ in pipe:
        _thread.interrupt_main(signal.SIGINT)
    while True:
        _thread.interrupt_main(signal.SIGINT)
        clock.sleep(AGAIN_S)


if __name__ == "__main__":
    raise SystemExit(main())
