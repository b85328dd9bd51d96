"""Count values in HdrHistogram's buckets. Values are integers, in us or in tokens; the only package that knows hdrh."""

from r1perf.histogram.buckets import BUCKETS, HIGHEST, IntArray, highest, index, indices, lowest
from r1perf.histogram.counts import Counts, Rank, rank

__all__ = ["BUCKETS", "HIGHEST", "Counts", "IntArray", "Rank", "highest", "index", "indices", "lowest", "rank"]
