"""The sink: what the collector hands over goes to the spool at once, and from there to InfluxDB, whenever that is."""

from collections.abc import Callable, Iterable
from pathlib import Path

from r1perf import clock
from r1perf.sinks.influxdb.gather import Gatherer, Group
from r1perf.sinks.influxdb.points import Points
from r1perf.sinks.influxdb.server import Server
from r1perf.sinks.influxdb.settings import Settings
from r1perf.sinks.influxdb.spool import REJECTED, Spool, State
from r1perf.sinks.influxdb.writer import Writer
from r1perf.summary import Document, Interval, Run


class InfluxSink:
    """Write a run to InfluxDB. It never raises and never ends a run: what goes wrong is told to `tell`, and the spool stays.

    `connect` is the server; a test has another one.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        tell: Callable[[str], None],
        connect: Callable[[Settings], Server] = Server,
    ) -> None:
        self._settings, self._folder, self._tell, self._connect = settings, folder, tell, connect
        self._spool: Spool | None = None
        self._early: list[tuple[str, int]] = []  # notes from before the run's beginning

    def open(self, run: Run) -> None:
        """Begin the spool and the thread that delivers it."""
        settings = self._settings
        self._run = run
        self._points = Points(run, settings.interval_ns)
        self._gatherer = Gatherer(run.interval_ns, settings.interval_ns)
        self._unannounced = list(run.stages)
        self._ended: dict[int, int] = {}
        self._last_ms = 0
        self._problem: str | None = None
        self._spool = Spool(self._folder, State(url=settings.url, org=settings.org, bucket=settings.bucket), settings.spool_bytes)
        self._writer = Writer(self._spool, lambda: self._connect(settings).write)
        self._keep(self._points.begin())
        for sentence, time_ms in self._early:
            self._event("note", sentence, time_ms)
        self._writer.start()

    def write(self, interval: Interval) -> None:
        """Gather an interval; its point is written when a later one begins."""
        for group in self._gatherer.add(interval):
            self._keep_group(group)
        self._announce(interval)
        self._report()

    def note(self, sentence: str) -> None:
        """Keep an event of the run."""
        now_ms = clock.wall_ns() // 1_000_000
        if self._spool is None:
            self._early.append((sentence, now_ms))
        else:
            self._event("note", sentence, now_ms)

    def close(self, document: Document) -> None:
        """Write the end, and wait for what is not delivered yet, as long as the settings say."""
        spool = self._spool
        if spool is None:
            return
        for group in self._gatherer.rest():
            self._keep_group(group)
        end_ms = (self._run.started_ns + int(document.elapsed_s * 1e9)) // 1_000_000
        self._event("end", document.reason or document.status, end_ms)
        self._keep(self._points.end(document))
        self._writer.finish(self._settings.deadline_ns / 1e9)
        self._report()
        left, delivered = spool.waiting, spool.close()
        if spool.lost:
            self._tell(
                f"{spool.lost} points for InfluxDB found no room on the disk and are lost to it; the archive has all of them"
            )
        if not delivered or spool.rejected:
            what = f"{left / 1000:.0f} kB of points are not in InfluxDB yet" if not delivered else ""
            refused = f"{spool.rejected} points were refused (see {REJECTED})" if spool.rejected else ""
            self._tell(
                f"{' and '.join(filter(None, (what, refused)))}; `r1perf influx replay {self._folder}` sends them once that is put right"
            )

    def _keep_group(self, group: Group) -> None:
        assert self._spool is not None
        self._keep(self._points.group(group, lambda: self._gatherer.reserve(group.number), self._spool.waiting))

    def _keep(self, lines: Iterable[str]) -> None:
        assert self._spool is not None
        self._spool.append("".join(lines).encode())
        if self._spool.problem != self._problem:
            self._problem = self._spool.problem
            if self._problem is not None:
                self._tell(f"{self._problem}; points for InfluxDB wait in memory, as far as they find room there")
        self._writer.wake()

    def _announce(self, interval: Interval) -> None:
        """Write an event for each stage that has begun."""
        self._ended |= interval.ended
        reached_ns = (interval.k + 1) * self._run.interval_ns
        for stage in list(self._unannounced):
            base_ns = 0 if stage.follows is None else self._ended.get(stage.follows)
            if base_ns is not None and base_ns + stage.start_ns < reached_ns:
                self._unannounced.remove(stage)
                begin_ms = (self._run.started_ns + base_ns + stage.start_ns) // 1_000_000
                self._event("stage", f"{stage.name}: {stage.says}", begin_ms)

    def _event(self, kind: str, text: str, time_ms: int) -> None:
        """Write an annotation; two of the same kind and time would be one, so the second is a millisecond later."""
        if kind == "note":
            time_ms = self._last_ms = max(time_ms, self._last_ms + 1)
        self._keep([self._points.event(kind, text, time_ms)])

    def _report(self) -> None:
        """Tell what the writing thread has to say: only this thread may talk to whoever watches."""
        while self._writer.said:
            self._tell(self._writer.said.popleft())
