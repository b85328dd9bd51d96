"""Closed-loop sessions that somebody outside starts and ends while a run goes on: each has a seat."""

from collections.abc import Callable

from r1perf.loop import Loop


class Seat:
    """Where one session waits until it is taken; it ends its session, between two conversations, when it is left."""

    def __init__(self, loop: Loop) -> None:
        self.taken = loop.event()
        self.left = loop.event()


class Seats:
    """The seats of one worker, taken in order: the n-th is that of the n-th session of the worker's shard.

    `beyond`, where set, is told of seats that are taken behind the planned ones.
    """

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._seats: list[Seat] = []
        self._taken = 0
        self._beyond: Callable[[int, Seat], None] | None = None

    def seat(self, n: int) -> Seat:
        """Return the n-th seat, taken or not."""
        while len(self._seats) <= n:
            self._seats.append(Seat(self._loop))
        return self._seats[n]

    def join(self) -> Callable[[], None]:
        """Take the next seat; return what leaves it again."""
        n = self._taken
        self._taken += 1
        seat = self.seat(n)
        seat.taken.set()
        if self._beyond is not None:
            self._beyond(n, seat)
        return seat.left.set

    def follow(self, beyond: Callable[[int, Seat], None]) -> None:
        """Call `beyond` for every seat that has been taken, and will be."""
        self._beyond = beyond
        for n in range(self._taken):
            beyond(n, self._seats[n])

    def close(self) -> None:
        """Let everybody leave, those too who have not come."""
        for seat in self._seats:
            seat.taken.set()
            seat.left.set()
