"""The sink: what the collector hands over goes to the spool at once, and from there to InfluxDB, whenever that is."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from r1perf import clock
from r1perf.errors import R1perfError
from r1perf.sinks.influxdb.server import Server
from r1perf.sinks.influxdb.settings import Settings
from r1perf.sinks.influxdb.spool import REJECTED, Spool, State, again
from r1perf.sinks.influxdb.story import Story
from r1perf.sinks.influxdb.writer import Writer
from r1perf.summary import Document, Interval, Run

TOLD_S = 1.0
"""So long the end waits for the server in silence."""


class _Open(msgspec.Struct):
    """What there is while the run goes on."""

    story: Story
    spool: Spool
    writer: Writer
    problem: str | None = None  # of the spool, as far as it was told


class InfluxSink:
    """Write a run to InfluxDB. It never raises and never ends a run: what goes wrong is told to `tell`, and the spool stays.

    `interrupts` counts the Ctrl-C so far: one that comes while the end waits for the server, or a second one, ends the waiting.
    `connect` makes the server; a test has another one.
    """

    def __init__(
        self,
        settings: Settings,
        folder: Path,
        tell: Callable[[str], None],
        connect: Callable[[Settings], Server] = Server,
        interrupts: Callable[[], int] = lambda: 0,
    ) -> None:
        self._interrupts = interrupts
        self._settings, self._folder, self._tell, self._connect = settings, folder, tell, connect
        self._open: _Open | None = None
        self._early: list[tuple[str, int]] = []  # notes from before the run's beginning

    def open(self, run: Run) -> None:
        """Begin the spool and the thread that delivers it."""
        settings = self._settings
        try:
            spool = Spool(self._folder, State(url=settings.url, org=settings.org, bucket=settings.bucket), settings.spool_bytes)
        except R1perfError as error:
            self._tell(f"nothing is written to InfluxDB: {error}")
            return
        writer = Writer(spool, lambda: self._connect(settings).write)
        self._open = opened = _Open(Story(run, settings.interval_ns), spool, writer)
        self._keep(opened, opened.story.begin() + b"".join(opened.story.note(*early) for early in self._early))
        writer.start()
        if settings.caution is not None:
            self._tell(settings.caution)

    def write(self, interval: Interval) -> None:
        """Take an interval; its point is written when a later one begins."""
        if self._open is not None:
            self._keep(self._open, self._open.story.interval(interval, self._open.spool.waiting))
            self._report(self._open)

    def note(self, sentence: str) -> None:
        """Keep an event of the run."""
        now_ms = clock.wall_ns() // 1_000_000
        if self._open is None:
            self._early.append((sentence, now_ms))
        else:
            self._keep(self._open, self._open.story.note(sentence, now_ms))

    def close(self, document: Document) -> None:
        """Write the end, and wait for what is not delivered yet, as long as the settings say."""
        if self._open is None:
            return
        opened, self._open = self._open, None
        spool = opened.spool
        self._keep(opened, opened.story.end(document, spool.waiting))
        spool.complete = True
        opened.writer.finish(self._settings.deadline_ns / 1e9, self._enough())
        self._report(opened)
        spool.close()
        left, missing = spool.waiting, []
        if left:
            missing.append(f"{left / 1000:.0f} kB of points are not in InfluxDB yet")
        if spool.rejected:
            missing.append(f"{spool.rejected} points were refused and are in {REJECTED}")
        sends = f"`{again(self._folder)}` sends them"
        if spool.lost:
            missing.append(f"{spool.lost} points found no room on the disk")
            sends = f"`{again(self._folder, whole=True)}` sends the whole run, as far as its archive has it"
        if missing:
            self._tell(f"{' and '.join(missing)}; once that is put right, {sends}")

    def _enough(self) -> Callable[[float], bool]:
        """Return what tells whether people have waited enough for the end; it says what they wait for."""
        before, told = self._interrupts(), False

        def enough(waited_s: float) -> bool:
            nonlocal told
            now = self._interrupts()
            if now > min(before, 1):
                return True
            if waited_s >= TOLD_S and not told:
                told = True
                most = self._settings.deadline_ns / 1e9
                self._tell(f"waiting up to {most:g} s for InfluxDB; {'once more' if now else 'Ctrl-C'} to stop at once")
            return False

        return enough

    def _keep(self, opened: _Open, lines: bytes) -> None:
        opened.spool.append(lines)
        if opened.spool.problem != opened.problem:
            opened.problem = opened.spool.problem
            if opened.problem is not None:
                self._tell(opened.problem)
        opened.writer.wake()

    def _report(self, opened: _Open) -> None:
        """Tell what the writing thread has to say: only this thread may talk to whoever watches."""
        while opened.writer.said:
            self._tell(opened.writer.said.popleft())
