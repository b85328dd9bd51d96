"""Carry messages over a way that may lose, repeat and reorder them: each arrives once, and in order."""

from collections.abc import Callable

from r1perf.swarm.wire import Frame

RESEND_NS = 3_000_000_000
"""What has not been acknowledged for so long is sent again."""


class Numbered:
    """One end of one run's conversation. `transmit` sends a frame, perhaps; `tick` is called about once a second."""

    def __init__(self, run: str, transmit: Callable[[Frame], None], now_ns: Callable[[], int]) -> None:
        self._run, self._transmit, self._now_ns = run, transmit, now_ns
        self._sent = 0
        self._unseen: dict[int, bytes] = {}  # sent, and not known to have come
        self._sent_ns = 0
        self._seen = 0
        self._early: dict[int, bytes] = {}  # came before one that was sent before it
        self._owes = False  # something has come that has not been acknowledged

    @property
    def settled(self) -> bool:
        """Tell whether all that was sent is known to have come."""
        return not self._unseen

    def send(self, body: bytes) -> None:
        """Send a message that arrives once, after those sent before it."""
        self._sent += 1
        self._unseen[self._sent] = body
        self._sent_ns = self._now_ns()
        self._put(self._sent, body)

    def post(self, body: bytes) -> None:
        """Send a message that may be lost, repeated or late: it has an acknowledgement of its own."""
        self._put(0, body)

    def take(self, frame: Frame) -> list[bytes]:
        """Take what has come; return the messages that are to be handled now, in order."""
        for number in [number for number in self._unseen if number <= frame.seen]:
            del self._unseen[number]
        if frame.number == 0:
            return [frame.body] if frame.body else []
        self._owes = True
        if frame.number > self._seen:
            self._early[frame.number] = frame.body
        ready = []
        while self._seen + 1 in self._early:
            self._seen += 1
            ready.append(self._early.pop(self._seen))
        return ready

    def tick(self) -> None:
        """Repeat what has not been acknowledged for too long; acknowledge what nothing else has acknowledged yet."""
        now_ns = self._now_ns()
        if self._unseen and now_ns - self._sent_ns >= RESEND_NS:
            self._sent_ns = now_ns
            for number, body in self._unseen.items():
                self._put(number, body)
        elif self._owes:
            self._put(0, b"")

    def _put(self, number: int, body: bytes) -> None:
        self._owes = False
        self._transmit(Frame(self._run, number, self._seen, body))
