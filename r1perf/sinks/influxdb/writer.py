"""Write a spool to the server from a thread of its own, so that no server can make anybody wait."""

import threading
from collections import deque
from collections.abc import Callable
from random import Random

from r1perf import clock
from r1perf.errors import R1perfError
from r1perf.sinks.influxdb.delivery import Delivery
from r1perf.sinks.influxdb.spool import Spool

LOOK_S = 0.1
"""How often the end looks up while it waits."""


class Writer:
    """One thread, a greenlet where gevent has patched the process. What it has to say waits in `said` for whoever asks.

    `connect` makes what writes: it is called in the thread, where a slow import does not matter.
    """

    def __init__(self, spool: Spool, connect: Callable[[], Callable[[bytes], None]]) -> None:
        self.said: deque[str] = deque()
        self._connect = connect
        self._post: Callable[[bytes], None] | None = None
        self._delivery = Delivery(spool, self._posted, self.said.append, Random())
        self._changed = threading.Condition()
        self._news = True
        self._ending = False
        self._gave_up = False
        self._thread = threading.Thread(target=self._run, name="influxdb", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def wake(self) -> None:
        """Say that there is more to write."""
        with self._changed:
            self._news = True
            self._changed.notify()

    def finish(self, seconds: float, enough: Callable[[float], bool] = lambda waited_s: False) -> None:
        """Write what is left, for at most so long; then give up, even in the middle of a write.

        `enough` is asked a few times a second whether to give up before, and told how long it has been.
        """
        with self._changed:
            self._ending = True
            self._delivery.hurry()
            self._changed.notify()
        began_ns = clock.monotonic_ns()
        while (
            self._thread.is_alive() and (waited_s := (clock.monotonic_ns() - began_ns) / 1e9) < seconds and not enough(waited_s)
        ):
            self._thread.join(min(LOOK_S, seconds - waited_s))
        with self._changed:
            self._gave_up = True
            self._changed.notify()

    def _posted(self, lines: bytes) -> None:
        if self._post is None:
            self._post = self._connect()
        self._post(lines)

    def _run(self) -> None:
        tried_ending = False
        while not self._gave_up:
            tried_ending = self._ending
            with self._changed:
                self._news = False
            try:
                wait_ns = self._delivery.step()
            except (R1perfError, OSError) as error:
                self.said.append(f"no more points are written to InfluxDB: {error}")
                return
            except Exception as error:  # noqa: BLE001 - a thread that ends in silence would leave people waiting for points
                # Its words may quote a header, and so the token.
                self.said.append(f"no more points are written to InfluxDB: an unforeseen {type(error).__name__}")
                return
            if wait_ns == 0:
                continue
            if tried_ending and (wait_ns is None or self._delivery.shut_out):
                return
            self._wait(wait_ns, tried_ending)

    def _wait(self, wait_ns: int | None, tried_ending: bool) -> None:
        """Wait for the next step: until its time, or, where nothing is left, for news; the run's end cuts both short."""
        until_ns = None if wait_ns is None else clock.monotonic_ns() + wait_ns
        with self._changed:
            while not self._gave_up and self._ending == tried_ending:
                if until_ns is None:
                    if self._news:
                        return
                    self._changed.wait()
                else:
                    left_ns = until_ns - clock.monotonic_ns()
                    if left_ns <= 0:
                        return
                    self._changed.wait(left_ns / 1e9)
