"""Take SIGINT while a run goes on: a KeyboardInterrupt in the midst of a shutdown would lose what is not written yet."""

import signal
from collections.abc import Callable

import gevent


class Interrupts:
    """Answers SIGINT in this process: `interrupt(again)` while `running()`, Locust's own end otherwise.

    `interrupt` may wait; with `ends` the process ends after it. To be made in the main greenlet.
    """

    def __init__(self, running: Callable[[], bool], interrupt: Callable[[bool], None], *, ends: bool) -> None:
        self._main = gevent.getcurrent()
        self._running, self._interrupt, self._ends = running, interrupt, ends
        self._times = 0
        gevent.signal_handler(signal.SIGINT, self._come)

    def _come(self) -> None:
        if not self._running():
            self._times = 0
            gevent.kill(self._main, KeyboardInterrupt)
            return
        self._times += 1
        first = self._times == 1
        self._interrupt(not first)
        if first and self._ends:
            gevent.kill(self._main, KeyboardInterrupt)
