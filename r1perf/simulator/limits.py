"""Limit requests a minute and at a time, as hosted endpoints do."""

from collections import deque

MINUTE_NS = 60_000_000_000


class RateLimit:
    """Let at most `per_minute` requests begin in any 60 s, and at most `concurrent` be answered at a time."""

    def __init__(self, per_minute: int | None, concurrent: int | None) -> None:
        self.per_minute = per_minute
        self.concurrent = concurrent
        self._begun: deque[int] = deque()

    def refuse(self, now_ns: int, active: int) -> float | None:
        """Return None and count the request, or the seconds after which to try again."""
        while self._begun and now_ns - self._begun[0] >= MINUTE_NS:
            self._begun.popleft()
        if self.per_minute is not None and len(self._begun) >= self.per_minute:
            return (self._begun[0] + MINUTE_NS - now_ns) / 1e9
        if self.concurrent is not None and active > self.concurrent:
            return 1.0
        if self.per_minute is not None:
            self._begun.append(now_ns)
        return None

    def headers(self, now_ns: int) -> list[tuple[str, str]]:
        """Return the `x-ratelimit-` headers; none where requests a minute are not limited."""
        if self.per_minute is None:
            return []
        left = max(0, self.per_minute - len(self._begun))
        reset = (self._begun[0] + MINUTE_NS - now_ns) / 1e9 if self._begun else 0.0
        return [
            ("x-ratelimit-limit-requests", str(self.per_minute)),
            ("x-ratelimit-remaining-requests", str(left)),
            ("x-ratelimit-reset-requests", f"{max(0.0, reset):.3f}s"),
        ]
