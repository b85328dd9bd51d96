"""Count the gaps between chunks of a recorded run from what its archive keeps of them: histograms, and each request's longest.

The bucket that holds a limit counts both ways. A stream that stalled has its open gap in the histogram; a clause counts that request's
failure instead, so it is taken out again. How the misses lie over the requests is not kept: they are spread over those whose longest gap missed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from r1perf.histogram import Counts
from r1perf.recorder import STALLED
from r1perf.result import FAILED, Result
from r1perf.sla.dependence import Clusters
from r1perf.sla.limits import Watch
from r1perf.sla.recorded import bracket
from r1perf.sla.tally import Tally
from r1perf.snapshot import Series, Snapshot
from r1perf.summary import Summary

Place = tuple[str, int, str, int]
"""Worker, interval, workload, stage."""


def stages_of(summary: Summary, watch: Watch) -> set[int]:
    """Return the stages that a clause covers."""
    return {stage.index for stage in summary.judged} if watch.stages is None else set(watch.stages)


def open_gaps(summary: Summary, results: Iterable[tuple[str, Result]], origins: Mapping[str, int]) -> dict[Place, list[int]]:
    """Return the open gaps (ns) of stalled streams, where the histograms have them; `origins` are the workers' t0."""
    windows = [(stage.index, window) for stage in summary.stages if (window := summary.window(stage)) is not None]
    found: dict[Place, list[int]] = {}
    for worker, result in results:
        gap_ns = _open(result)
        if gap_ns is None or worker not in origins:
            continue
        at_ns = result.done_ns - origins[worker]
        for stage, (begin, end) in windows:
            if begin <= at_ns < end:
                place = (worker, at_ns // summary.run.interval_ns, result.workload, stage)
                found.setdefault(place, []).append(gap_ns)
    return found


def counted(
    summary: Summary, snapshots: Iterable[Snapshot], watches: Sequence[Watch], stalled: Mapping[Place, Sequence[int]]
) -> Iterator[Tally]:
    """Count the gaps of each interval against each clause."""
    for snapshot in snapshots:
        for series in (one for one in snapshot.series if one.metric == "itl"):
            counts = _counts(series)
            apart = stalled.get((snapshot.worker, snapshot.k, series.workload, series.stage), ())
            for watch in watches:
                if watch.workload in (None, series.workload) and series.stage in stages_of(summary, watch):
                    yield _row(watch, snapshot.k, counts, apart)


def clusters(summary: Summary, results: Iterable[tuple[str, Result]], watch: Watch, slow: int) -> Tally:
    """Make clusters of requests and conversations for a clause with so many `slow` gaps."""
    stages, sizes = stages_of(summary, watch), list[tuple[int, int, bool, bool]]()
    for _, result in results:
        if watch.workload not in (None, result.workload):
            continue
        gaps = _gaps(result, stages)
        failed = result.outcome in FAILED and result.stage in stages
        if gaps or failed:
            sizes.append((result.arrival, gaps, bool(gaps) and _slow(result, watch), failed))
    whole = sum(gaps for _, gaps, hit, _ in sizes if hit)
    conversations: dict[int, tuple[int, int]] = {}
    requests = []
    for arrival, gaps, hit, failed in sizes:
        m, x = gaps + failed, (max(1, min(gaps, round(slow * gaps / whole))) if hit else 0) + failed
        requests.append((m, x))
        before = conversations.get(arrival, (0, 0))
        conversations[arrival] = (before[0] + m, before[1] + x)
    return Tally(watch.clause, -1, requests=Clusters.of(requests), conversations=Clusters.of(conversations.values()))


def _gaps(result: Result, stages: set[int]) -> int:
    """Count the gaps of a request in these stages; of chunks that shared a read only the sum is kept, which is parted evenly."""
    inside = sum(n for stage, n in result.chunks_by_stage.items() if stage in stages)
    if not inside:
        return 0
    first = min(result.chunks_by_stage) in stages  # it ends no gap
    return max(0, inside - first - result.coalesced * inside // result.chunks)


def _slow(result: Result, watch: Watch) -> bool:
    """Say whether a request may have had a gap that missed."""
    limit, longest = watch.limits[0], result.itl_max_ns or 0
    return limit.op in (">", ">=") or (not limit.holds(longest) and longest != _open(result))


def _open(result: Result) -> int | None:
    """Return how long a stream had stalled when it failed; None where it had not."""
    if result.outcome not in STALLED or not result.chunks or result.last_ns is None or result.done_ns <= result.last_ns:
        return None
    return result.done_ns - result.last_ns


def _counts(series: Series) -> Counts:
    counts = Counts()
    counts.add_sparse(series.indices, series.counts, series.count, series.total, series.least, series.most, series.clamped)
    return counts


def _row(watch: Watch, k: int, counts: Counts, apart: Sequence[int]) -> Tally:
    """Bracket an interval's gaps without those that stand `apart`, whose lengths are known."""
    limit = watch.limits[0]
    least, most = bracket(counts, limit)
    missed = sum(not limit.holds(gap_ns) for gap_ns in apart)
    n = counts.count - len(apart)
    least, most = max(0, least - missed), min(n, most - missed)
    return Tally(
        watch.clause, k, n=n, over=least, unknown=most - least, valued=n, total=counts.total * 1000 - sum(apart),
        causes={"slow": least} if least else {},
    )  # fmt: skip
