"""What a worker hands over at each flip: sparse counts that merge by addition, in any order and any grouping."""

import msgspec

NO_TALLIES = msgspec.Raw(b"\x90")
"""An empty MessagePack list."""


class Series(msgspec.Struct, frozen=True, array_like=True):
    """The values of one metric, workload and stage in one interval, as sparse histogram counts.

    `indices` are sorted bucket indices of `histogram`, `counts` stand beside them; `count`, `total`, `least` and `most` are
    exact, in the metric's unit (us or tokens). `clamped` values lay outside of the histogram's range.
    """

    metric: str
    workload: str
    stage: int
    indices: list[int]
    counts: list[int]
    count: int
    total: int
    least: int
    most: int
    clamped: int = 0


class Counter(msgspec.Struct, frozen=True, array_like=True):
    """How many of something there were in one interval: outcomes, tokens, chunks, reconnects, conversations.

    The names are in `metrics.COUNTERS`.
    """

    name: str
    workload: str
    stage: int
    n: int


class Health(msgspec.Struct, frozen=True, array_like=True):
    """How the generator itself fared in one interval."""

    in_flight: int  # at the flip
    waiting: int  # arrivals that wait for `max_in_flight`, at the flip
    cpu_ns: int  # CPU of the worker process in the interval
    wall_ns: int  # length of the interval
    loop_lag_max_ns: int  # the longest that the loop was late for a timer
    delay_max_ns: int  # the longest schedule delay
    rss_bytes: int
    stalled_ns: int | None = None  # for how long it stood still in all (`health.STALL_NS`); None: not told, as by early archives


class Snapshot(msgspec.Struct, frozen=True):
    """Interval `k` of one worker: [t0 + k D, t0 + (k+1) D)."""

    worker: str
    k: int
    series: list[Series]
    counters: list[Counter]
    health: Health
    in_flight: list[tuple[str, int]]  # per workload, at the flip
    ended: list[tuple[int, int]]  # stages that ended in the interval: (stage, offset from t0 in ns)
    t0_ns: int = 0  # the worker's monotonic time of t0: the origin of the stamps in its requests file
    clock_step_ns: int = 0  # how far the worker's wall clock has moved against its monotonic clock since t0
    tallies: msgspec.Raw = NO_TALLIES  # MessagePack list of `sla.Tally`, the counts of the clauses: whoever judges reads it
    ahead: msgspec.Raw = NO_TALLIES  # the same of requests in flight at the flip whose miss is certain already: a gauge


encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Snapshot).decode
