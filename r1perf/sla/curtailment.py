"""Prove a fail before all that was planned was sent: it has to stand however the rest turns out.

Misses only grow, but what they prove does not: 60 misses in a row among 60 attempts say nothing of how attempts hang together, and once
others meet the limit the same 60 are one lump. So the plan is carried on in every way that is kind to the clause: the rest meets the
limit, or it does until some last part of it misses in one lump (of given sums, lumps vary the most). The fail is proven where
each of these would be one at the end. Then a look after every interval fails what the end would fail, and no correction for peeking is
due (curtailed sampling; Alling 1963).
"""

from collections.abc import Iterator

import msgspec

from r1perf.sla.binomial import at_least, fails
from r1perf.sla.dependence import BATCHES, Clusters, Interval, Worth, batch, worth
from r1perf.sla.evidence import Attempts

_MOST = 2000
"""So many intervals are carried on at most; more are merged."""


class Ending(msgspec.Struct, frozen=True):
    """A run with all of its attempts: how many missed, and what they are worth."""

    n: int
    over: int
    worth: Worth

    def p_fail(self, allowed: float) -> float:
        """Return the p-value of a fail."""
        scale = self.worth.n_eff / self.n
        return at_least(self.over * scale, self.worth.n_eff, allowed)


def kindest(seen: Attempts, now: Worth, allowed: float, alpha: float) -> Ending:
    """Return the ending of a run, carried on to its `planned` attempts, that proves a fail the least; `now` is what it is worth so far.

    The rest comes evenly in what is left of the planned window; where nothing is left, or its end is not known, at the rate so far.
    Without intervals, or where the misses would not even do if all attempts were independent, it ends as it is, all others met.
    """
    planned = max(seen.planned or 0, seen.n)
    known = sum(n for n, _ in seen.intervals)
    if planned == seen.n or not known or not fails(seen.over_certain, planned, allowed, alpha):
        return Ending(planned, seen.over_certain, msgspec.structs.replace(now, n_eff=planned * now.n_eff / seen.n))
    return max(_endings(seen, planned, known, alpha), key=lambda ending: ending.p_fail(allowed))


def _endings(seen: Attempts, planned: int, known: int, alpha: float) -> Iterator[Ending]:
    rest, intervals, interval_s = planned - seen.n, seen.intervals, seen.interval_s
    more = max(0, (seen.planned_intervals or 0) - len(intervals)) or -(-rest * len(intervals) // known)
    if len(intervals) + more > _MOST:
        count = max(1, len(intervals) * _MOST // (len(intervals) + more))
        more = max(1, more * count // len(intervals))
        interval_s *= len(intervals) / count
        intervals = tuple(batch(intervals, count))
    to_come = [rest * (i + 1) // more - rest * i // more for i in range(more)]
    lumps = {*range(0, more, max(1, (len(intervals) + more) // BATCHES)), more}
    for lump in sorted(lumps):
        tail: list[Interval] = [(n, n if i >= more - lump else 0) for i, n in enumerate(to_come)]
        missed = sum(x for _, x in tail)
        found = worth(
            planned, alpha=alpha, intervals=(*intervals, *tail), interval_s=interval_s, residence_s=seen.residence_p90_s,
            conversations=None if seen.conversations is None else seen.conversations + _like(seen.conversations, rest, missed),
        )  # fmt: skip
        yield Ending(planned, seen.over_certain + missed, found)


def _like(so_far: Clusters, rest: int, missed: int) -> Clusters:
    """Put the rest into conversations as long as those so far, each of which misses as a whole or not at all."""
    size = max(1, round(so_far.m / so_far.clusters)) if so_far.clusters else 1
    all_of, hit = rest // size, missed // size
    return Clusters(all_of, all_of * size, hit * size, all_of * size**2, hit * size**2, hit * size**2, hit)
