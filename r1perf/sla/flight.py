"""Say which requests in flight miss a clause whatever is still to come of them.

An answer that began late is late however long it lasts, so a run that is to fail fast need not wait for its end. Many requests are
looked at together, since it is done at every flip: about 1 us each.
"""

import math
from collections.abc import Collection, Sequence
from operator import attrgetter

import numpy as np
import numpy.typing as npt

from r1perf.histogram import IntArray
from r1perf.result import Stream
from r1perf.sla.limits import Limit

Flags = npt.NDArray[np.bool_]


class Flight:
    """The streams of one workload, by the names of what they note: `flight["first_ns"]`."""

    def __init__(self, streams: Collection[Stream]) -> None:
        self._streams = streams
        self._columns: dict[str, IntArray] = {}

    def __getitem__(self, name: str) -> IntArray:
        """Return one column."""
        if name not in self._columns:
            self._columns[name] = np.fromiter(map(attrgetter(name), self._streams), np.int64, len(self._streams))
        return self._columns[name]


def missed_already(limits: Sequence[Limit], flight: Flight, now_ns: int, *, streamed: bool) -> Flags:
    """Say of each request whether it surely misses limits that must all hold.

    `streamed` False: responses may come in one piece, for which metrics of first chunks are not applicable.
    """
    missed: Flags = np.logical_or.reduce([_missed(limit, flight, now_ns, streamed) for limit in limits])
    return missed


def _missed(limit: Limit, flight: Flight, now_ns: int, streamed: bool) -> Flags:
    """Hold a limit against what the metric will be at least, or is for good.

    A request may end without another chunk: the gap that is open now need not be one, and its last chunk may have come.
    """
    start = flight["sent_ns" if limit.metric.startswith("service_") else "scheduled_ns"]
    begun = flight["first_ns"] > 0
    for_good = np.zeros_like(begun)
    match limit.metric:
        case "ttft" | "service_ttft":
            low, known, for_good = _since(start, flight["first_ns"], now_ns), begun | streamed, begun
        case "ttfo":  # a later reasoning chunk would move it out
            low, known = _since(start, flight["first_answer_ns"], now_ns), begun | streamed
        case "e2e" | "service_e2e":
            low, known = _since(start, flight["last_ns"], now_ns), ~for_good
        case "itl_max":
            low, known = flight["itl_max_ns"], ~for_good
        case _:
            return for_good
    most = for_good | (not limit.holds(math.inf))  # what can still grow misses an upper limit only
    return known & (start > 0) & ~limit.hold(low) & most


def _since(start: IntArray, stamp: IntArray, now_ns: int) -> IntArray:
    return np.where(stamp > 0, stamp, now_ns) - start
