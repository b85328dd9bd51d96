"""Count values in HdrHistogram's buckets: 1 us to 1 h at 3 significant digits; the only module that knows hdrh.

A bucket's width is at most 1/1000 of its values. Values are integers, in us or in tokens. Counts merge by addition, in any
order and any grouping; `count`, `total`, `least` and `most` are exact. The layout is HdrHistogram's own (hdrhistogram.org),
so that an encoded histogram can be read by its Java, C, Go and JavaScript tools.
"""

import base64
import binascii
import struct
import zlib
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hdrh.histogram import HdrHistogram

HIGHEST = 3_600_000_000
"""The highest value with a bucket of its own kind: 1 h in us. Higher ones are counted there, and as `clamped`."""

DIGITS = 3
BUCKETS = 23_552
_HALF_BITS = 10  # half of 2048 linear sub-buckets
_HALF = 1 << _HALF_BITS
_MASK = 2 * _HALF - 1

_FEW = 256
"""Below so many values plain Python is faster than numpy's fixed cost."""

_ENCODED_LIMIT = 200_000
"""An encoded histogram of this geometry is at most 90,700 characters (all buckets, counts under 1e6)."""

_EXTERNAL = struct.Struct(">II")  # cookie, length of what follows
_PAYLOAD = struct.Struct(">IIIIQQd")  # cookie, length, index offset, digits, lowest, highest, ratio
_COMPRESSED_COOKIE, _PLAIN_COOKIE = 0x1C849304, 0x1C849303
_PAYLOAD_LIMIT = _PAYLOAD.size + 9 * BUCKETS

IntArray = npt.NDArray[np.int64]
Rank = int | str | Fraction
"""A percentile, exact: 95, "99.9" or a Fraction; never a float, whose 99.9 is a little more than 999/10."""


def index(value: int) -> int:
    """Return the bucket of one value, clamped to the range."""
    value = min(max(value, 0), HIGHEST)
    bucket = (value | _MASK).bit_length() - _HALF_BITS - 1
    return ((bucket + 1) << _HALF_BITS) + (value >> bucket) - _HALF


def indices(values: IntArray) -> IntArray:
    """Return the bucket of each value, clamped to the range."""
    clamped = np.clip(values, 0, HIGHEST)
    # frexp's exponent of an integer below 2**53 is its bit length.
    bucket = np.frexp((clamped | _MASK).astype(np.float64))[1].astype(np.int64) - (_HALF_BITS + 1)
    return ((bucket + 1) << _HALF_BITS) + (clamped >> bucket) - _HALF


def lowest(at: int) -> int:
    """Return the lowest value that falls into a bucket."""
    bucket = max((at >> _HALF_BITS) - 1, 0)
    return (at - (bucket << _HALF_BITS)) << bucket


def highest(at: int) -> int:
    """Return the highest value that falls into a bucket: its highest equivalent."""
    return lowest(at + 1) - 1


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
        and most narrow them where they can.
        """
        if self.least is None or self.most is None or self.most <= limit:
            return 0, 0
        if self.least > limit:
            return self.count, self.count
        at = index(limit)
        surely = sum(n for bucket, n in self.buckets.items() if bucket > at)
        inside = self.buckets.get(at, 0) if limit < highest(at) else 0
        # The least value is not over the limit and the most is: wherever these two lie, they are no longer in doubt.
        return max(surely, 1), min(surely + inside, self.count - 1)

    def encode(self) -> str:
        """Write the counts as a base64 HdrHistogram V2 compressed payload ("HISTFAAA..."); raises ValueError of nothing.

        An empty histogram cannot be read back by the C library, and a count of 2**63 ends the process in hdrh's encoder.
        """
        if not self.count or self.count >= 1 << 63:
            raise ValueError(f"a histogram of {self.count} values cannot be encoded")
        histogram = HdrHistogram(1, HIGHEST, DIGITS)
        at, counts = self.sparse()
        np.frombuffer(histogram.counts, dtype=np.uint64)[at] = counts
        histogram.total_count = self.count
        histogram.min_value, histogram.max_value = max(lowest(at[0]), 1) if at[0] else 0, highest(at[-1])
        encoded: bytes = histogram.encode()
        return encoded.decode("ascii")

    @classmethod
    def decode(cls, text: str) -> "Counts":
        """Read an encoded histogram of this geometry; raises ValueError for anything else.

        `total`, `least` and `most` are then those of the buckets (middle, lower and upper edge), since the encoding carries no
        exact ones. Sizes are checked before anything is unpacked: a small text can otherwise claim gigabytes.
        """
        at, counts = _unpack(_decompress(text))
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


def _decompress(text: str) -> bytes:
    """Undo base64 and zlib, each within the size that this geometry can need."""
    if len(text) > _ENCODED_LIMIT:
        raise ValueError(f"an encoded histogram of {len(text)} characters is not one of ours")
    try:
        packed = base64.b64decode(text, validate=True)
        cookie, length = _EXTERNAL.unpack_from(packed)
    except (binascii.Error, struct.error) as error:
        raise ValueError(f"the encoded histogram is damaged ({error})") from error
    if cookie & ~0xF0 != _COMPRESSED_COOKIE or length != len(packed) - _EXTERNAL.size:
        raise ValueError("the encoded histogram is damaged (its header does not fit)")
    inflater = zlib.decompressobj()
    try:
        payload = inflater.decompress(packed[_EXTERNAL.size :], _PAYLOAD_LIMIT + 1)
    except zlib.error as error:
        raise ValueError(f"the encoded histogram is damaged ({error})") from error
    if not inflater.eof or len(payload) > _PAYLOAD_LIMIT:
        raise ValueError("the encoded histogram is damaged (it is cut, or larger than it can be)")
    return payload


def _unpack(payload: bytes) -> tuple[list[int], list[int]]:
    """Read a V2 payload: LEB128 zigzag words, a negative one standing for so many empty buckets."""
    if len(payload) < _PAYLOAD.size:
        raise ValueError("the encoded histogram is damaged (it is cut)")
    cookie, length, offset, digits, low, high, _ = _PAYLOAD.unpack_from(payload)
    if cookie & ~0xF0 != _PLAIN_COOKIE or length != len(payload) - _PAYLOAD.size:
        raise ValueError("the encoded histogram is damaged (its payload's header does not fit)")
    if (offset, digits, low, high) != (0, DIGITS, 1, HIGHEST):
        raise ValueError(f"the histogram is not of 1 us to 1 h with {DIGITS} digits")
    at: list[int] = []
    counts: list[int] = []
    bucket, position = 0, _PAYLOAD.size
    while position < len(payload):
        word, position = _word(payload, position)
        if word < 0:
            bucket -= word
            continue
        if word:
            at.append(bucket)
            counts.append(word)
        bucket += 1
    if bucket > BUCKETS:
        raise ValueError("the encoded histogram is damaged (it has more buckets than its range)")
    return at, counts


def _word(payload: bytes, position: int) -> tuple[int, int]:
    """Read one zigzag LEB128 word of up to 9 bytes, the ninth whole; return it and the position behind it."""
    value = 0
    for shift in range(0, 63, 7):
        if position >= len(payload):
            raise ValueError("the encoded histogram is damaged (a count is cut)")
        byte = payload[position]
        position += 1
        if shift == 56:
            value |= byte << shift
            break
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
    return (value >> 1) ^ -(value & 1), position
