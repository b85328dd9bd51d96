"""Tell a run in lines, as its intervals come: while it goes on, or afterwards from its archive."""

from collections.abc import Iterable

from r1perf.schedule import begins_ns
from r1perf.schedule.model import DRAIN
from r1perf.sinks.influxdb.gather import Gatherer, Group
from r1perf.sinks.influxdb.points import Points
from r1perf.summary import Document, Interval, Run


class Story:
    """What is written of one run, as bytes of whole lines. `group_ns` is how much of the run one point holds."""

    def __init__(self, run: Run, group_ns: int) -> None:
        self._run = run
        self._points = Points(run, group_ns)
        self._gatherer = Gatherer(run.interval_ns, group_ns)
        self._unannounced = list(run.stages)
        self._ended: dict[int, int] = {}
        self._last_note_ms = 0

    def begin(self) -> bytes:
        """Write that the run begins."""
        return _bytes(self._points.begin())

    def interval(self, interval: Interval, spool_bytes: int | None = None) -> bytes:
        """Take an interval: groups that it ends are written, and stages that it reaches. Afterwards nothing waits in a spool: None."""
        groups = [self._group(group, spool_bytes) for group in self._gatherer.add(interval)]
        return b"".join([*groups, *self._stages(interval)])

    def note(self, sentence: str, time_ms: int) -> bytes:
        """Write what people were told; two in one millisecond would be one point, so the second comes a millisecond later."""
        self._last_note_ms = max(time_ms, self._last_note_ms + 1)
        return self._points.event("note", sentence, self._last_note_ms).encode()

    def end(self, document: Document, spool_bytes: int | None = None) -> bytes:
        """Write what is left, and how the run ended."""
        groups = [self._group(group, spool_bytes) for group in self._gatherer.rest()]
        end_ms = (self._run.started_ns + int(document.elapsed_s * 1e9)) // 1_000_000
        ended = self._points.event("end", document.reason or document.status, end_ms)
        return b"".join([*groups, ended.encode(), _bytes(self._points.end(document))])

    def _group(self, group: Group, spool_bytes: int | None) -> bytes:
        return _bytes(self._points.group(group, lambda: self._gatherer.reserve(group.number), spool_bytes))

    def _stages(self, interval: Interval) -> Iterable[bytes]:
        """Write an event for each stage that has begun by the end of this interval."""
        self._ended |= interval.ended
        reached_ns = (interval.k + 1) * self._run.interval_ns
        for stage in list(self._unannounced):
            begin_ns = begins_ns(stage, self._run.stages, self._ended)
            if begin_ns is None or begin_ns >= reached_ns:
                continue
            early = stage.name == DRAIN and begin_ns < stage.start_ns  # or a stage of the web UI runs, which was not planned
            if not early or any(index == stage.index for _, _, index in interval.counters):
                self._unannounced.remove(stage)
                begin_ms = (self._run.started_ns + begin_ns) // 1_000_000
                yield self._points.event("stage", f"{stage.name}: {stage.says}", begin_ms).encode()


def _bytes(lines: Iterable[str]) -> bytes:
    return "".join(lines).encode()
