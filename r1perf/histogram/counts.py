"""Count values by bucket: counts merge by addition, in any order and any grouping; their figures are exact."""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from r1perf.histogram import encoding
from r1perf.histogram.buckets import HIGHEST, IntArray, highest, index, indices, lowest

_FEW = 256
"""Below so many values plain Python is faster than numpy's fixed cost."""

_LAST = index(HIGHEST)  # whatever lies above its edge is counted there too

Rank = int | str | Fraction
"""A percentile, exact: 95, "99.9" or a Fraction; never a float, whose 99.9 is a little more than 999/10."""


class Counts:
    """How many values there were of each size."""

    __slots__ = ("buckets", "clamped", "count", "least", "most", "total")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.total = 0
        self.least: int | None = None
        self.most: int | None = None
        self.clamped = 0  # values outside of 0 .. HIGHEST, which lie in the first or last bucket

    @classmethod
    def of(cls, values: Sequence[int] | IntArray) -> "Counts":
        """Count these values."""
        counts = cls()
        counts.record(values)
        return counts

    @classmethod
    def merged(cls, parts: Iterable["Counts"]) -> "Counts":
        """Add up any number of counts."""
        counts = cls()
        for part in parts:
            counts.add(part)
        return counts

    def record(self, values: Sequence[int] | IntArray) -> None:
        """Count these values as well; many at once cost 0.05 us each, few 1 us each."""
        if not len(values):
            return
        if isinstance(values, np.ndarray) or len(values) >= _FEW:
            array = np.asarray(values, dtype=np.int64)
            filled = np.bincount(indices(array), minlength=0)
            at = np.flatnonzero(filled)
            least, most = int(array.min()), int(array.max())
            clamped = int(np.count_nonzero((array < 0) | (array > HIGHEST))) if least < 0 or most > HIGHEST else 0
            self.add_sparse(at.tolist(), filled[at].tolist(), len(array), int(array.sum()), least, most, clamped)
            return
        buckets = self.buckets
        for value in values:
            at_one = index(value)
            buckets[at_one] = buckets.get(at_one, 0) + 1
            self.clamped += not 0 <= value <= HIGHEST
        self._widen(min(values), max(values))
        self.count += len(values)
        self.total += sum(values)

    def add(self, other: "Counts") -> None:
        """Add another's counts."""
        if other.least is None or other.most is None:
            return
        self.add_sparse(
            other.buckets.keys(), other.buckets.values(), other.count, other.total, other.least, other.most, other.clamped
        )

    def add_sparse(
        self, at: Iterable[int], counts: Iterable[int], count: int, total: int, least: int, most: int, clamped: int = 0
    ) -> None:
        """Add counts beside their bucket indices, as a snapshot carries them; they are not empty."""
        buckets = self.buckets
        for bucket, n in zip(at, counts, strict=True):
            buckets[bucket] = buckets.get(bucket, 0) + n
        self.count += count
        self.total += total
        self.clamped += clamped
        self._widen(least, most)

    def sparse(self) -> tuple[list[int], list[int]]:
        """Return the sorted bucket indices and the counts beside them."""
        at = sorted(self.buckets)
        return at, [self.buckets[bucket] for bucket in at]

    @property
    def mean(self) -> float | None:
        """The exact mean; None of nothing."""
        return self.total / self.count if self.count else None

    def percentile(self, p: Rank) -> int | None:
        """Return the value of rank ceil(p n / 100): the highest equivalent of its bucket; None of nothing.

        The rank is computed in integers. The value is the bucket's upper edge even where `most` is known to be lower, so
        that it equals what other HdrHistogram tools find in the same counts: at most 1/1000 above the true value.
        """
        return self.percentiles((p,))[0]

    def value_at(self, at: int) -> int | None:
        """Return the value of the at-th smallest (from 1), as `percentile` does; None where there are not so many."""
        if not 1 <= at <= self.count:
            return None
        buckets, counts = self.sparse()
        return highest(buckets[int(np.searchsorted(np.cumsum(np.array(counts, dtype=np.int64)), at))])

    def percentiles(self, ps: Sequence[Rank]) -> list[int | None]:
        """Return several percentiles for the cost of one."""
        if not self.count:
            return [None] * len(ps)
        at, counts = self.sparse()
        reached = np.cumsum(np.array(counts, dtype=np.int64))
        return [highest(at[int(np.searchsorted(reached, rank(p, self.count)))]) for p in ps]

    def count_over(self, limit: int) -> tuple[int, int]:
        """Bracket how many values lie over `limit` (for those at or over it, ask for `limit - 1`).

        The two differ by the values that share the limit's own bucket, where the limit lies inside of it; the exact least
        and most narrow them where they can. Of clamped values the last bucket knows no more than that.
        """
        if self.least is None or self.most is None or self.most <= limit:
            return 0, 0
        if self.least > limit:
            return self.count, self.count
        at = index(limit)
        surely = sum(n for bucket, n in self.buckets.items() if bucket > at)
        inside = self.buckets.get(at, 0) if limit < highest(at) or at == _LAST else 0
        # The least value is not over the limit and the most is: wherever these two lie, they are no longer in doubt.
        return max(surely, 1), min(surely + inside, self.count - 1)

    def encode(self) -> str:
        """Write the counts as a base64 HdrHistogram V2 compressed payload ("HISTFAAA..."); raises ValueError of nothing."""
        return encoding.encode(*self.sparse())

    @classmethod
    def decode(cls, text: str) -> "Counts":
        """Read an encoded histogram of this geometry; raises ValueError for anything else.

        `total`, `least` and `most` are then those of the buckets (middle, lower and upper edge), since the encoding carries no
        exact ones.
        """
        at, counts = encoding.decode(text)
        if not at:
            raise ValueError("the histogram is empty")
        result = cls()
        total = sum(n * ((lowest(bucket) + highest(bucket)) // 2) for bucket, n in zip(at, counts, strict=True))
        result.add_sparse(at, counts, sum(counts), total, lowest(at[0]), highest(at[-1]))
        return result

    def _widen(self, least: int, most: int) -> None:
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def __eq__(self, other: object) -> bool:
        """Compare everything; the order of buckets does not matter."""
        return isinstance(other, Counts) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the exact figures, not the buckets."""
        return f"Counts(count={self.count}, total={self.total}, least={self.least}, most={self.most}, clamped={self.clamped})"


def rank(p: Rank, n: int) -> int:
    """Return ceil(p n / 100), at least 1, in integer arithmetic; raises ValueError outside of 0 to 100."""
    if isinstance(p, float):
        raise TypeError("a percentile is exact: write 99.9 as a string")
    exact = Fraction(p)
    if not 0 <= exact <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not {p}")
    return max(-(-(exact.numerator * n) // (exact.denominator * 100)), 1)
