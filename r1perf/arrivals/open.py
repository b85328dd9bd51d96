"""What open-loop processes of one constant rate share."""

from abc import abstractmethod
from typing import Literal

import msgspec
import numpy as np

from r1perf.arrivals.gaps import Gaps, Seconds, Stream, unit_times
from r1perf.arrivals.process import Process
from r1perf.units import Rate

Per = Literal["conversation", "request"]


class Open(Process, frozen=True, kw_only=True):
    """An open-loop process: arrivals come whatever the responses do."""

    per: Per = "conversation"

    @abstractmethod
    def times(self, stream: Stream, *, until: float, count: int | None, turns: float) -> Seconds:
        """Return the arrival times in seconds from the process's start, in order: all below `until`, at most `count`.

        `turns` is the expected number of turns of a conversation; it divides the rate where `per` is "request".
        """

    @abstractmethod
    def rates(self) -> tuple[Rate, Rate]:
        """Return the rate at the start and at the end."""

    @abstractmethod
    def at_rate(self, rate: Rate) -> "Open":
        """Return the process with the same law of gaps at one constant rate: for warmup and cooldown."""

    @abstractmethod
    def says(self) -> str:
        """Say in a few words what it does."""

    def _divisor(self, turns: float) -> float:
        return turns if self.per == "request" else 1.0

    def _per(self) -> str:
        return " requests" if self.per == "request" else ""


class Steady(Open, frozen=True, kw_only=True):
    """An open-loop process with one rate."""

    rate: Rate

    @abstractmethod
    def gaps_law(self) -> Gaps:
        """Return the law of the gaps."""

    def times(self, stream: Stream, *, until: float, count: int | None, turns: float) -> Seconds:
        """Scale a process of rate 1."""
        rate = self.rate / self._divisor(turns)
        if rate == 0:
            return np.empty(0)
        return unit_times(stream, self.gaps_law(), until * rate, count) / rate

    def rates(self) -> tuple[Rate, Rate]:
        """Return the one rate twice."""
        return self.rate, self.rate

    def at_rate(self, rate: Rate) -> "Steady":
        """Return the same process at another rate."""
        return msgspec.structs.replace(self, rate=rate, name=None, duration=None, requests=None, judged=None)
