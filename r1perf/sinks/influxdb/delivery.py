"""Deliver a spool: what to send next, and when, whatever the server does. Knows no clock and no thread."""

from collections.abc import Callable
from random import Random

from r1perf.errors import DatabaseError
from r1perf.sinks.influxdb.spool import Batch, Spool

FIRST_NS, LONGEST_NS = 250_000_000, 30_000_000_000
"""A pause after a failure doubles from the first to the longest."""

HURRIED_NS = 1_000_000_000
"""No pause is longer while the run's end waits."""

PAUSE_NS = 30_000_000_000
"""How long a server is left alone that does not let us in."""

RETRY_AFTER_NS = 300_000_000_000
"""No pause is longer, whatever the server asks for."""

NOT_LET_IN = (401, 403, 404)
"""Token, rights, organization or bucket are wrong: sending again does not help, somebody has to do something."""

BAD_LINES = (400, 413, 422)
"""Something in the batch is refused: find out which lines."""


class Delivery:
    """Sends a spool, a piece at a time. `post` raises DatabaseError; `say` is told, once each, what goes wrong and what is well again."""

    def __init__(self, spool: Spool, post: Callable[[bytes], None], say: Callable[[str], None], jitter: Random) -> None:
        self._spool, self._post, self._say, self._jitter = spool, post, say, jitter
        self._batch: Batch | None = None
        self._pieces: list[bytes] = []  # what is left of the batch, the next piece last
        self._failures = 0
        self._hurried = False
        self._told: str | None = None  # the trouble that people know of
        self.points = 0  # delivered
        self.shut_out = False  # the last answer was one of NOT_LET_IN

    def hurry(self) -> None:
        """Make pauses short: the run's end waits."""
        self._hurried = True
        self._failures = 0

    def step(self) -> int | None:
        """Send one piece; return how long to wait before the next step in ns, None where nothing is left to send."""
        if not self._pieces:
            self._batch = self._spool.read()
            if self._batch is None:
                return None
            self._pieces = [self._batch.lines]
        piece = self._pieces[-1]
        try:
            self._post(piece)
        except DatabaseError as error:
            return self._failed(piece, error)
        self._answered()
        if self._told is not None:
            self._say(f"InfluxDB takes points again after: {self._told}")
            self._told = None
        self.points += piece.count(b"\n")
        self._sent()
        return 0

    def _failed(self, piece: bytes, error: DatabaseError) -> int:
        if error.status in BAD_LINES:
            self._answered()
            lines = piece.splitlines(keepends=True)
            if len(lines) > 1:
                half = len(lines) // 2
                self._pieces[-1:] = [b"".join(lines[half:]), b"".join(lines[:half])]
                return 0
            if not self._spool.rejected:
                self._say(f"{error}; the points that it refuses are put aside")
            self._spool.reject(piece, f"HTTP {error.status}: {error.says}")
            self._sent()
            return 0
        self.shut_out = error.status in NOT_LET_IN
        if self._told is None:
            wait = "no more is sent until that is put right" if self.shut_out else "it is tried again"
            self._say(f"{error}; points are kept, and {wait}")
        self._told = str(error)
        if self.shut_out:
            return PAUSE_NS
        return self._pause(error.retry_after_s)

    def _pause(self, retry_after_s: float | None) -> int:
        """Double the pause each time, and take between half of it and all of it, so that runs do not come back together."""
        longest = HURRIED_NS if self._hurried else LONGEST_NS
        pause_ns = min(FIRST_NS << min(self._failures, 20), longest)
        self._failures += 1
        pause_ns -= self._jitter.randrange(pause_ns // 2)
        if retry_after_s is not None and not self._hurried:
            pause_ns = max(pause_ns, int(min(retry_after_s, RETRY_AFTER_NS / 1e9) * 1e9))
        return pause_ns

    def _answered(self) -> None:
        self._failures = 0
        self.shut_out = False

    def _sent(self) -> None:
        """Have done with a piece, and with its batch where it was the last one."""
        self._pieces.pop()
        if not self._pieces and self._batch is not None:
            self._spool.done(self._batch)
            self._batch = None
