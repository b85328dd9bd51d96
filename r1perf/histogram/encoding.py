"""Write and read HdrHistogram's V2 compressed payloads, as its Java, C, Go and JavaScript tools do; the only user of hdrh."""

import base64
import binascii
import struct
import zlib

import numpy as np
from hdrh.histogram import HdrHistogram

from r1perf.histogram.buckets import BUCKETS, DIGITS, HIGHEST, highest, lowest

_ENCODED_LIMIT = 200_000
"""An encoded histogram of this geometry is at most 90,700 characters (all buckets, counts under 1e6)."""

_EXTERNAL = struct.Struct(">II")  # cookie, length of what follows
_PAYLOAD = struct.Struct(">IIIIQQd")  # cookie, length, index offset, digits, lowest, highest, ratio
_COMPRESSED_COOKIE, _PLAIN_COOKIE = 0x1C849304, 0x1C849303
_PAYLOAD_LIMIT = _PAYLOAD.size + 9 * BUCKETS


def encode(at: list[int], counts: list[int]) -> str:
    """Encode sorted bucket indices and the counts beside them ("HISTFAAA..."); raises ValueError of nothing.

    An empty histogram cannot be read back by the C library, and a count of 2**63 ends the process in hdrh's encoder.
    """
    count = sum(counts)
    if not count or count >= 1 << 63:
        raise ValueError(f"a histogram of {count} values cannot be encoded")
    histogram = HdrHistogram(1, HIGHEST, DIGITS)
    np.frombuffer(histogram.counts, dtype=np.uint64)[at] = counts
    histogram.total_count = count
    histogram.min_value, histogram.max_value = lowest(at[0]), highest(at[-1])
    encoded: bytes = histogram.encode()
    return encoded.decode("ascii")


def decode(text: str) -> tuple[list[int], list[int]]:
    """Return the bucket indices and counts of an encoded histogram of this geometry; raises ValueError for anything else.

    Sizes are checked before anything is unpacked: a small text can otherwise claim gigabytes.
    """
    return _unpack(_decompress(text))


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
