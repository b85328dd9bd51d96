"""The handing over of a worker's snapshots: in order, one report at a time, until the collector has acknowledged all."""

from collections import deque
from collections.abc import Sequence
from itertools import accumulate, islice, takewhile
from typing import Protocol

from r1perf import messages
from r1perf.loop import Loop

RESEND_NS = 5_000_000_000
"""A report that was not acknowledged for so long is sent again; the collector merges each snapshot once."""

REPORT_BYTES = 256 * 1024
"""A report holds no more snapshots than make up so much, but always one: a collector that was paused takes the rest in parts."""


class Link(Protocol):
    """The way to the collector."""

    def send(self, message: messages.ToCollector) -> None:
        """Send without waiting."""

    def receive(self) -> "messages.ToWorker | None":
        """Wait for the next message; None when the collector is gone."""

    @property
    def unsent(self) -> bool:
        """Tell whether something that was sent still waits on this side: it will come, and need not be sent again."""


class Handover:
    """Hands snapshots over through a link. `give_up` ends it where nobody is left to acknowledge."""

    def __init__(self, loop: Loop, link: Link) -> None:
        self._loop, self._link = loop, link
        self._unacknowledged: deque[tuple[int, bytes]] = deque()
        self._resend_ns = 0  # when the outstanding report is sent again; 0: none is outstanding
        self._heard = loop.event()  # an acknowledgement has come, or never will
        self._given_up = False

    def add(self, taken: Sequence[tuple[int, bytes]]) -> None:
        """Take the next snapshots, each as its interval and its encoding, and send what may be sent."""
        self._unacknowledged += taken
        self._report()

    def acknowledged(self, k: int) -> None:
        """Forget what is merged up to interval `k` and send what comes next; one that acknowledges nothing new changes nothing."""
        before = len(self._unacknowledged)
        while self._unacknowledged and self._unacknowledged[0][0] <= k:
            self._unacknowledged.popleft()
        if len(self._unacknowledged) < before:
            self._resend_ns = 0
            self._report()
            self._heard.set()

    def give_up(self) -> None:
        """Note that nobody is left to acknowledge."""
        self._given_up = True
        self._heard.set()

    def settle(self) -> None:
        """Wait until all is acknowledged, or it was given up."""
        while self._unacknowledged and not self._given_up:
            self._heard.clear()
            self._report()
            self._heard.wait(self._loop.now_ns() + RESEND_NS)

    def _report(self) -> None:
        """Send the first of what is not acknowledged, unless a report is outstanding that may still be."""
        now_ns = self._loop.now_ns()
        if self._unacknowledged and now_ns >= self._resend_ns and not self._link.unsent:
            self._resend_ns = now_ns + RESEND_NS
            sizes = accumulate(len(encoded) for _, encoded in self._unacknowledged)
            count = max(1, sum(1 for _ in takewhile(lambda size: size <= REPORT_BYTES, sizes)))
            self._link.send(messages.Report([encoded for _, encoded in islice(self._unacknowledged, count)]))
