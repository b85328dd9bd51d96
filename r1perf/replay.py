"""Choose what of a trace is replayed, and when: a window, a speed, a mean rate. The same for every seed and on every worker."""

import hashlib
from typing import NamedTuple

import numpy as np

from r1perf.errors import DatasetError
from r1perf.traces import MOST_NS, Ints, Trace

MOST_REQUESTS = 50_000_000
"""Requests that fit into the memory of any machine."""


class Replay(NamedTuple):
    """Requests in order of time: which row of the trace each is, its offset from the replay's start, and which copy of its row it is."""

    rows: Ints
    offsets_ns: Ints
    length_ns: int
    copies: Ints | None = None  # 0 for the first; None: no row comes twice


def replay(
    trace: Trace, *, start_ns: int = 0, length_ns: int | None = None, speed: float = 1.0, rate: float | None = None
) -> Replay:
    """Choose a trace's requests. Raises DatasetError where none is left.

    The window [start, start + length) is in the trace's own time. `speed` divides all times: 2 replays twice as fast. `rate` is the
    mean rate of the replay in requests/s; it changes how many requests there are and leaves the curve of the rate over time
    as it is. Below the trace's own rate, so many requests are kept, evenly drawn; above it, each is repeated, the copies
    placed at random between it and the next request: bursts stay where they are and as long as they are.
    """
    end_ns = int(trace.offsets_ns[-1]) + 1 if length_ns is None else start_ns + length_ns
    if max(start_ns, end_ns, (end_ns - start_ns) / speed) > MOST_NS:
        raise DatasetError("the replay would last longer than 146 years")
    first, last = np.searchsorted(trace.offsets_ns, [start_ns, end_ns])
    rows = np.arange(first, last)
    if not len(rows):
        window = f"after {start_ns / 1e9:g} s" if length_ns is None else f"from {start_ns / 1e9:g} s to {end_ns / 1e9:g} s"
        raise DatasetError(f"the trace has no request {window}; its last one comes at {trace.offsets_ns[-1] / 1e9:g} s")
    offsets_ns = trace.offsets_ns[first:last] - start_ns
    span_ns = end_ns - start_ns
    if rate is not None:
        wanted = round(rate * span_ns / speed / 1e9)
        if not wanted:
            raise DatasetError(f"at {rate:g} requests/s the trace's window of {span_ns / speed / 1e9:g} s holds no request")
        if wanted > MOST_REQUESTS:
            raise DatasetError(f"at {rate:g} requests/s the replay would have {wanted:,} requests; allowed: {MOST_REQUESTS:,}")
        rows, offsets_ns = _at_rate(trace, rows, offsets_ns, span_ns, wanted)
    offsets_ns = np.rint(offsets_ns / speed).astype(np.int64)
    length_ns = max(round(span_ns / speed), int(offsets_ns[-1]) + 1)  # rounding must not leave the last one out
    return Replay(rows, offsets_ns, length_ns, _copies(rows) if len(rows) > last - first else None)


def _copies(rows: Ints) -> Ints:
    """Number the appearances of each row, from 0."""
    order = np.argsort(rows, kind="stable")
    inside = np.arange(len(rows))
    firsts = np.flatnonzero(np.diff(rows[order], prepend=-1))
    numbers = np.empty_like(inside)
    numbers[order] = inside - np.repeat(firsts, np.diff(firsts, append=len(rows)))
    return numbers


def _at_rate(trace: Trace, rows: Ints, offsets_ns: Ints, span_ns: int, wanted: int) -> tuple[Ints, Ints]:
    """Draw `wanted` requests out of or around those of the window."""
    count = len(rows)
    key = np.frombuffer(hashlib.blake2b(trace.digest.encode(), digest_size=16).digest(), dtype="<u8")
    random = np.random.Generator(np.random.Philox(key=key))
    times, more = divmod(wanted, count)
    extra = np.sort(random.permutation(count)[:more])
    if not times:
        return rows[extra], offsets_ns[extra]
    copied = np.concatenate([np.repeat(np.arange(count), times - 1), extra])
    gaps = np.diff(offsets_ns, append=span_ns)
    placed = offsets_ns[copied] + (random.random(len(copied)) * gaps[copied]).astype(np.int64)
    all_rows, all_offsets = np.concatenate([rows, rows[copied]]), np.concatenate([offsets_ns, placed])
    order = np.argsort(all_offsets, kind="stable")
    return all_rows[order], all_offsets[order]
