"""Turn streams and results into one snapshot an interval.

A value is entered when it happens, so that live figures show the present however long answers last: schedule delay when a
request was sent, TTFT and service TTFT at its first chunk, ITL gap by gap, the rest when it ends. TTFT, service TTFT and
schedule delay therefore include streams that fail later (the failure counts apart, and lies over every limit); ttfo,
thinking, e2e, service_e2e, tpot, itl_max and the tokens' distributions are those of requests that ended well.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Protocol

import msgspec
import numpy as np

from r1perf.histogram import Counts, IntArray
from r1perf.recorder.ending import apportion, values
from r1perf.recorder.fold import Fold, fold, fold_one
from r1perf.recorder.timeline import Timeline
from r1perf.result import CENSORED, FAILED, Outcome, Result, Stream
from r1perf.schedule import Stage
from r1perf.snapshot import NO_TALLIES, Counter, Health, Series, Snapshot

__all__ = ["LATE_NS", "STALLED", "Recorder", "Tallies"]

LATE_NS = 5_000_000
"""A request that is sent so long after its time counts as `late`."""

STALLED = frozenset({Outcome.TIMEOUT, Outcome.STREAM_BROKEN, Outcome.STREAM_ERROR})
"""Outcomes whose last gap was still open: it counts as a gap, since the user waited for it."""

_FOLD_TOKENS = ("input_tokens", "output_tokens", "reasoning_tokens", "cached_tokens")


class Tallies(Protocol):
    """What counts requests, gaps and conversations against the clauses of an SLA, which the recorder knows nothing of."""

    judged: set[int]  # indices of judged stages; one that is added while the run goes on is added here too

    def ended(self, result: Result, k: int, *, grade: str | None = None, request: Hashable = None) -> None:
        """Count a request that ended; `k` is the interval in which it was scheduled."""

    def fold(
        self, workload: str, requests: Sequence[Hashable], heads: IntArray, gaps_ns: IntArray, stages: IntArray, k: int
    ) -> None:
        """Count the gaps between chunks that happened in interval `k`; see `fold.Gaps`."""

    def ahead(
        self, open_: Mapping[str, Collection[Stream]], now_ns: int, t0_ns: int, interval_ns: int
    ) -> Sequence[msgspec.Struct]:
        """Return what is certain already of the requests in flight."""

    def conversation_over(self, arrival: int) -> None:
        """Note that no turn of a conversation comes any more."""

    def close(self) -> None:
        """Note that nothing comes any more."""

    def take(self) -> Sequence[msgspec.Struct]:
        """Return the counts since the last call."""


class Recorder:
    """Record one worker's part of a run.

    `t0_ns` is the monotonic time of interval 0's start; interval k is [t0 + k D, t0 + (k+1) D). `scheduled` is never counted
    here, so that `scheduled = outcomes + in flight` checks one count against another: whoever makes a request due counts it
    with `count`.
    """

    def __init__(
        self,
        worker: str,
        stages: Sequence[Stage],
        t0_ns: int,
        interval_ns: int,
        record_chunks: bool = False,
        tallies: Tallies | None = None,
    ) -> None:
        self.timeline = Timeline(stages, t0_ns)
        self._tallies = tallies
        self._worker = worker
        self._t0_ns = t0_ns
        self._interval_ns = interval_ns
        self._record_chunks = record_chunks
        self._k = -1
        self._open: dict[str, dict[Stream, None]] = {}
        self._unsent: dict[Stream, None] = {}
        self._values: dict[tuple[str, str, int], list[int]] = {}
        self._gaps: dict[tuple[str, int], list[IntArray]] = {}
        self._counters: dict[tuple[str, str, int], int] = {}
        self._delay_max_ns = 0
        self._warm_up()

    @property
    def drain(self) -> int:
        """The index of the reserved last stage."""
        return self.timeline.drain

    @property
    def in_flight(self) -> int:
        """Count the streams that are open."""
        return sum(map(len, self._open.values()))

    def open(self, workload: str, stage: int, scheduled_ns: int) -> Stream:
        """Begin to watch a request that is about to be sent; every opened stream is given back to `add`."""
        stream = Stream(workload, stage, scheduled_ns, record_chunks=self._record_chunks)
        self._open.setdefault(workload, {})[stream] = None
        self._unsent[stream] = None
        return stream

    def count(self, name: str, workload: str, stage: int, n: int = 1) -> None:
        """Count `n` of something; the names are in `metrics.COUNTERS`."""
        key = (name, workload, stage)
        self._counters[key] = self._counters.get(key, 0) + n

    def begin(self, stage: int, at_ns: int) -> None:
        """Note that a stage, or the drain, begins at `at_ns`: for boundaries that the plan does not fix."""
        self.timeline.begin(stage, at_ns)

    def judge(self, stage: int) -> None:
        """Let a stage that was not planned count for the clauses too."""
        if self._tallies is not None:
            self._tallies.judged.add(stage)

    def conversation_over(self, arrival: int) -> None:
        """Note that no turn of a conversation comes any more, whatever ended it."""
        if self._tallies is not None:
            self._tallies.conversation_over(arrival)

    def add(self, result: Result, stream: Stream | None, grade: str | None = None) -> Result:
        """Enter a request's end and return its result with what only the recorder knows.

        `stream` is None for a request that was never opened (dropped) or whose stream is gone (lost). `grade` is its answer's, where
        it has one.
        """
        if stream is not None:
            result = self._close(result, stream)
        workload, stage = result.workload, result.stage
        if self._tallies is not None:
            self._tallies.ended(result, self._interval(result.scheduled_ns), grade=grade, request=stream)
        if grade is not None:
            self.count(f"grade.{grade}", workload, stage)
        self.count(f"outcome.{result.outcome}", workload, stage)
        if result.reason:
            self.count(f"reason.{result.outcome}.{result.reason}", workload, stage)
        if result.stray_events:
            self.count("stray_events", workload, stage, result.stray_events)
        if result.connect_ns is not None:
            self.count("connections", workload, stage)
            self._value("connect", workload, stage, result.connect_ns // 1000)
        if result.sent_ns is not None:
            self.count("busy_ns", workload, stage, result.done_ns - result.sent_ns)
        well = result.outcome not in FAILED and result.outcome not in CENSORED
        if well:
            self.count("completed", workload, self.timeline.at(result.done_ns))
            for metric, value in values(result):
                self._value(metric, workload, stage, value)
            for flag, raised in (
                ("no_answer", result.answer_chunks == 0),
                ("length_mismatch", result.length_mismatch),
                ("reasoning_hidden", result.reasoning_hidden),
                ("not_streamed", not result.streamed),
                ("partly_cached", result.usage.warmth == "partly"),
            ):
                if raised:
                    self.count(flag, workload, stage)
        self._count_tokens(result)
        return result

    def flip(
        self, end_ns: int, *, waiting: int = 0, cpu_ns: int = 0, wall_ns: int | None = None, loop_lag_max_ns: int = 0,
        stalled_ns: int | None = None, rss_bytes: int = 0, clock_step_ns: int = 0, last: bool = False,
    ) -> Snapshot:  # fmt: skip
        """End the interval that ends at `end_ns` and return what happened in it.

        Stamps at or after `end_ns` stay for the next one. `waiting` counts arrivals that wait for `max_in_flight`; CPU, loop
        lag and the like are the worker's own readings over the interval; `wall_ns` is its true length (default: the planned
        one). An interval is never returned twice: after an early flip the numbering goes on from there. `last`: nothing comes any
        more.
        """
        in_flight = []
        for workload, streams in self._open.items():
            self._enter(workload, fold(streams, self.timeline, end_ns), self._interval(end_ns - 1))
            if streams:
                in_flight.append((workload, len(streams)))
        for stream in [stream for stream in self._unsent if 0 < stream.sent_ns < end_ns]:
            self._sent(stream, stream.sent_ns)
        self._k = max(self._k + 1, self._interval(end_ns - 1))
        health = Health(
            in_flight=self.in_flight,
            waiting=waiting,
            cpu_ns=cpu_ns,
            wall_ns=self._interval_ns if wall_ns is None else wall_ns,
            loop_lag_max_ns=loop_lag_max_ns,
            delay_max_ns=self._delay_max_ns,
            rss_bytes=rss_bytes,
            stalled_ns=stalled_ns,
        )
        snapshot = Snapshot(
            worker=self._worker,
            k=self._k,
            series=self._series(),
            counters=[Counter(*key, n) for key, n in self._counters.items() if n],
            health=health,
            in_flight=in_flight,
            ended=self.timeline.ended(end_ns),
            t0_ns=self._t0_ns,
            clock_step_ns=clock_step_ns,
            tallies=self._taken(last),
            ahead=self._certain(end_ns),
        )
        self._values, self._gaps, self._counters, self._delay_max_ns = {}, {}, {}, 0
        return snapshot

    def skip_to(self, k: int) -> None:
        """Let interval `k` be the last that was returned: for recovery."""
        self._k = k

    def replay(self, result: Result, since_ns: int) -> None:
        """Enter a recorded request whose end no snapshot holds; what happened before `since_ns` is in one already.

        For recovery: the gaps between its last chunks are not known any more.
        """
        if result.sent_ns is not None and result.sent_ns >= since_ns:
            self._send(result.workload, result.stage, result.sent_ns, result.scheduled_ns)
        if result.streamed and result.first_ns is not None and result.first_ns >= since_ns:
            self._first(result.workload, result.stage, result.first_ns, result.scheduled_ns, result.sent_ns)
        self.add(result, None, result.grade)

    def _close(self, result: Result, stream: Stream) -> Result:
        """Fold the rest of an ended stream, stop watching it, and complete its result."""
        self._open[stream.workload].pop(stream)
        if stream in self._unsent:
            if result.sent_ns is None:
                del self._unsent[stream]
            else:
                self._sent(stream, result.sent_ns)
        k = self._interval(stream.pending[-1]) if stream.pending else 0
        self._enter(stream.workload, fold_one(stream, self.timeline), k)
        chunks = sum(stream.chunks_by_stage.values())
        if result.outcome in STALLED and chunks and (gap := result.done_ns - stream.folded_ns) > 0:
            stream.itl_max_ns = max(stream.itl_max_ns, gap)
            key = (stream.workload, self.timeline.at(result.done_ns))
            self._gaps.setdefault(key, []).append(np.array([gap], dtype=np.int64))
        return msgspec.structs.replace(
            result,
            chunks=chunks,
            coalesced=stream.coalesced,
            chunks_by_stage=dict(stream.chunks_by_stage),
            itl_max_ns=stream.itl_max_ns or None,
            stamps_ns=stream.stamps_ns,
        )

    def _interval(self, moment_ns: int) -> int:
        """Return the interval of a moment."""
        return (moment_ns - self._t0_ns) // self._interval_ns

    def _taken(self, last: bool) -> msgspec.Raw:
        if self._tallies is None:
            return NO_TALLIES
        if last:
            self._tallies.close()
        return msgspec.Raw(msgspec.msgpack.encode(self._tallies.take()))

    def _certain(self, end_ns: int) -> msgspec.Raw:
        if self._tallies is None:
            return NO_TALLIES
        return msgspec.Raw(msgspec.msgpack.encode(self._tallies.ahead(self._open, end_ns, self._t0_ns, self._interval_ns)))

    def _enter(self, workload: str, folded: Fold, k: int) -> None:
        if self._tallies is not None and (gaps := folded.gaps) is not None:
            self._tallies.fold(workload, gaps.streams, gaps.heads, gaps.gaps_ns, gaps.stages, k)
        for stream, first_ns in folded.began:
            if stream in self._unsent:  # a first chunk in the interval of its sending
                self._sent(stream, stream.sent_ns)
            self._first(workload, stream.stage, first_ns, stream.scheduled_ns, stream.sent_ns)
        for stage, what in folded.stages.items():
            self.count("chunks", workload, stage, what.chunks)
            self.count("coalesced", workload, stage, what.coalesced)
            if len(what.gaps_ns):
                self._gaps.setdefault((workload, stage), []).append(what.gaps_ns)

    def _sent(self, stream: Stream, sent_ns: int) -> None:
        del self._unsent[stream]
        self._send(stream.workload, stream.stage, sent_ns, stream.scheduled_ns)

    def _send(self, workload: str, stage: int, sent_ns: int, scheduled_ns: int) -> None:
        delay_ns = sent_ns - scheduled_ns
        self._delay_max_ns = max(self._delay_max_ns, delay_ns)
        self._value("schedule_delay", workload, stage, delay_ns // 1000)
        self.count("sent", workload, stage)
        if delay_ns > LATE_NS:
            self.count("late", workload, stage)

    def _first(self, workload: str, stage: int, first_ns: int, scheduled_ns: int, sent_ns: int | None) -> None:
        self.count("first_chunks", workload, self.timeline.at(first_ns))
        self._value("ttft", workload, stage, (first_ns - scheduled_ns) // 1000)
        if sent_ns:
            self._value("service_ttft", workload, stage, (first_ns - sent_ns) // 1000)

    def _value(self, metric: str, workload: str, stage: int, value: int) -> None:
        self._values.setdefault((metric, workload, stage), []).append(value)

    def _count_tokens(self, result: Result) -> None:
        """Count a request's tokens, whatever its outcome: they were produced, and paid for."""
        workload, stage = result.workload, result.stage
        for name in _FOLD_TOKENS:
            tokens = getattr(result.usage, name)
            if tokens:
                self.count(name, workload, stage, tokens)
        if result.untold:
            self.count("untold", workload, stage)
            self.count("untold_output_tokens", workload, stage, result.usage.output_tokens or 0)
            self.count("untold_input_most", workload, stage, result.input_most or 0)
            if not result.streamed and result.usage.output_tokens is None:  # of a stream, chunks are counted
                most = result.length_ordered or result.output_most
                self.count("untold_unbounded" if most is None else "untold_output_most", workload, stage, most or 1)
        if result.token_source is not None:
            self.count(f"tokens_from_{result.token_source}", workload, stage)
        if result.usage.input_tokens and result.usage.cached_tokens is not None:
            self.count("cache_told_tokens", workload, stage, result.usage.input_tokens)
        if result.usage.input_tokens:
            began_ns = result.first_ns or result.last_ns or result.done_ns
            self.count("window_input_tokens", workload, self.timeline.at(began_ns), result.usage.input_tokens)
            self.count("counted_first_chunks", workload, stage, int(result.first_ns is not None))
        if result.usage.output_tokens:
            chunks = result.chunks_by_stage or {self.timeline.at(result.last_ns or result.done_ns): 1}
            for stage, tokens in apportion(result.usage.output_tokens, chunks).items():
                self.count("window_output_tokens", workload, stage, tokens)
            self.count("counted_chunks", workload, result.stage, result.chunks)

    def _warm_up(self) -> None:
        """Fold once in vain: numpy's first calls take 10 ms, which the first flip must not."""
        streams = [Stream("", 0, self._t0_ns) for _ in range(400)]
        for stream in streams:
            stream.pending.extend(range(self._t0_ns, self._t0_ns + 50))
        for folded in fold(streams, self.timeline, self._t0_ns + 100).stages.values():
            Counts.of(folded.gaps_ns // 1000)

    def _series(self) -> list[Series]:
        series = []
        for (metric, workload, stage), entered in self._values.items():
            series.append(_as_series(metric, workload, stage, Counts.of(entered)))
        for (workload, stage), gaps in self._gaps.items():
            series.append(_as_series("itl", workload, stage, Counts.of(np.concatenate(gaps) // 1000)))
        return series


def _as_series(metric: str, workload: str, stage: int, counts: Counts) -> Series:
    at, n = counts.sparse()
    assert counts.least is not None
    assert counts.most is not None
    return Series(metric, workload, stage, at, n, counts.count, counts.total, counts.least, counts.most, counts.clamped)
