"""Number HdrHistogram's buckets: 1 us to 1 h at 3 significant digits, each at most 1/1000 of its values wide.

The layout is HdrHistogram's own (hdrhistogram.org): 2048 linear sub-buckets, then 1024 for each doubling.
"""

import numpy as np
import numpy.typing as npt

HIGHEST = 3_600_000_000
"""The highest value with a bucket of its own kind: 1 h in us. Higher ones are counted there, and as `clamped`."""

DIGITS = 3
BUCKETS = 23_552
_HALF_BITS = 10  # half of 2048 linear sub-buckets
_HALF = 1 << _HALF_BITS
_MASK = 2 * _HALF - 1

IntArray = npt.NDArray[np.int64]


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
