"""Say what the target's prefix cache served, and what it did for the time to the first token."""

import msgspec

from r1perf.summary.merged import Summary


class Caching(msgspec.Struct, frozen=True, kw_only=True):
    """What the server's own counts say of the judged window.

    `hit_ratio` is cached / all input tokens, over the requests whose cached tokens it told. `cold`, `partly` and `warm` count requests that
    ended well by the share of the prompt that was cached: under 5 %, between, half or more.
    """

    hit_ratio: float
    cold: int
    partly: int
    warm: int


def caching(summary: Summary, workload: str | None = None) -> Caching | None:
    """Return what the cache served of one workload or all; None where the server never told."""
    told = summary.counter("cache_told_tokens", workload)
    if not told:
        return None
    return Caching(
        hit_ratio=summary.counter("cached_tokens", workload) / told,
        cold=summary.counts("ttft_cold", workload).count,
        partly=summary.counter("partly_cached", workload),
        warm=summary.counts("ttft_warm", workload).count,
    )
