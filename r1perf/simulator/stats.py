"""Keep the truth of what the simulator did: counts, and times as they were when each chunk was written."""

import resource
from collections import Counter
from typing import Any

BUCKET_NS = 10_000
"""Times are counted in buckets of 10 microseconds."""

LATE_NS = 1_000_000
"""A step that ends more than a millisecond after it was due counts as late."""


class Times:
    """Count durations in buckets of `BUCKET_NS`."""

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.sum_ns = 0
        self.max_ns = 0

    def add(self, ns: int) -> None:
        """Add one duration."""
        bucket = ns // BUCKET_NS
        buckets = self.buckets
        buckets[bucket] = buckets.get(bucket, 0) + 1
        self.sum_ns += ns
        self.max_ns = max(self.max_ns, ns)

    @property
    def count(self) -> int:
        """Count the durations."""
        return sum(self.buckets.values())

    def percentile(self, per_mille: int) -> float | None:
        """Return the value of rank ceil(p * n / 1000), in ms: the upper end of its bucket; None of nothing."""
        count = self.count
        if not count:
            return None
        left = -(-per_mille * count // 1000)
        for bucket in sorted(self.buckets):
            left -= self.buckets[bucket]
            if left <= 0:
                return (bucket + 1) * BUCKET_NS / 1e6
        raise AssertionError("a rank lies beyond the count")

    def summary(self) -> dict[str, float]:
        """Return count, mean, p50, p90, p95, p99, max in ms; only the count where there is nothing."""
        count = self.count
        if not count:
            return {"count": 0}
        ranks = {f"p{mille // 10}": self.percentile(mille) or 0.0 for mille in (500, 900, 950, 990)}
        return {"count": count, "mean": self.sum_ns / count / 1e6, **ranks, "max": self.max_ns / 1e6}


class Stats:
    """Hold the ground truth that `GET /r1sim/stats` shows and `POST /r1sim/reset` forgets."""

    def __init__(self) -> None:
        self.active = 0  # requests being answered; survives a reset
        self.reset()

    def reset(self) -> None:
        """Forget everything but what is going on now."""
        self.requests = 0
        self.endings: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.finishes: Counter[str] = Counter()
        self.max_active = self.active
        self.chunks = 0
        self.connections = 0
        self.prompt_tokens = self.cached_tokens = self.output_tokens = self.reasoning_tokens = 0
        self.steps = self.late_steps = 0
        self.ttft, self.itl, self.e2e, self.late = Times(), Times(), Times(), Times()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._cpu_before = usage.ru_utime + usage.ru_stime

    def begin(self) -> None:
        """Count a request that came in."""
        self.requests += 1
        self.active += 1
        self.max_active = max(self.max_active, self.active)

    def end(self, ending: str, fault: str | None, status: int | None, finish: str | None) -> None:
        """Count a request that ended."""
        self.active -= 1
        self.endings[ending] += 1
        if fault is not None:
            self.faults[fault] += 1
        if status is not None:
            self.statuses[status] += 1
        if finish is not None:
            self.finishes[finish] += 1

    def step_late(self, ns: int) -> None:
        """Count a step and how late it ended."""
        self.steps += 1
        self.late.add(max(0, ns))
        if ns > LATE_NS:
            self.late_steps += 1

    def as_json(self) -> dict[str, Any]:
        """Return the summary; `requests` = the sum of `endings` + `active`, unless requests were under way at a reset."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": self.requests,
            "active": self.active,
            "max_active": self.max_active,
            "connections": self.connections,
            "done": self.endings["complete"],
            "aborted": self.endings["aborted"],
            "endings": dict(self.endings),
            "faults": dict(self.faults),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "finish_reasons": dict(self.finishes),
            "chunks": self.chunks,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "reasoning_tokens": self.reasoning_tokens,
            "ttft_ms": self.ttft.summary(),
            "itl_ms": self.itl.summary(),
            "e2e_ms": self.e2e.summary(),
            "steps": self.steps,
            "late_steps": self.late_steps,
            "late_ms": self.late.summary(),
            "cpu_s": usage.ru_utime + usage.ru_stime - self._cpu_before,
        }
