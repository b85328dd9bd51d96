"""Keep a run's past for the charts: a sink of the collector, of bounded size however long the run is."""

from collections.abc import Callable

import msgspec

from r1perf.summary import Document, Interval, Run
from r1perf.swarm.page.point import CHARTED, OUTCOME, RANKS, Point

WIDTHS = (1, 10, 100, 1000)
"""How many intervals a point of each level holds."""

KEPT = 600
"""How many points each level keeps, and so the most that an answer holds: 10 minutes, 100 minutes, 17 hours, a week at 1 s."""

OPEN = {1: 30}
"""How many of the newest points of a level can still take late data into their percentiles; 2 where nothing is said."""

NOTES = 100

Column = list[float | None]


class Note(msgspec.Struct, frozen=True):
    """Something that people were told, and when."""

    wall_ns: int
    text: str


class Points(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Points that changed after a revision, as columns beside `number`. What is nothing but gaps or zeros is left out.

    `length` is how many intervals have come for a point. Percentiles (`RANKS`) are in ms; counters are sums over the point;
    requests in flight are means. `shares` are of the busiest worker, `lag_ms` and `delay_ms` maxima.
    """

    width: int
    revision: int
    number: list[int]
    length: list[int]
    percentiles: dict[str, list[Column]] = {}  # by metric, one column a rank
    counters: dict[str, Column] = {}
    outcomes: dict[str, Column] = {}
    in_flight: dict[str, Column] = {}  # by workload, whatever is selected
    chunks: dict[str, Column] = {}
    tokens: dict[str, Column] = {}  # of requests that were not streamed: counted when they ended
    cpu: Column = []
    lag_ms: Column = []
    delay_ms: Column = []


class Level:
    """The latest points of one width."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.points: dict[int, Point] = {}
        self._open: set[int] = set()

    def add(self, interval: Interval, revision: int) -> None:
        """Add an interval; one that is older than all that is kept is nowhere to be drawn."""
        number = interval.k // self.width
        newest = max(self.points, default=number)
        if number <= newest - KEPT:
            return
        point = self.points.get(number)
        if point is None:
            point = self.points[number] = Point(number)
            self._open.add(number)
            for past in [n for n in self._open if n <= number - OPEN.get(self.width, 2)]:
                self.points[past].freeze()
                self._open.discard(past)
            for gone in [n for n in self.points if n <= number - KEPT]:
                del self.points[gone]
        point.add(interval)
        point.revision = revision


class History:
    """The past of the run that goes on, or went on last; `wall_ns` dates its notes."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self.begin()

    def begin(self) -> None:
        """Forget the last run: another one is prepared."""
        self.run: Run | None = None
        self.document: Document | None = None
        self.notes: list[Note] = []
        self._levels = {width: Level(width) for width in WIDTHS}
        self._revision = 0
        self._tokens: dict[str, tuple[int, int]] = {}  # by workload: tokens, and the chunks that held them

    # --- The sink ---

    def open(self, run: Run) -> None:
        """Take what is known of the run."""
        self.run = run

    def write(self, interval: Interval) -> None:
        """Add an interval to the points of every width."""
        self._revision += 1
        for level in self._levels.values():
            level.add(interval, self._revision)
        for (name, workload, _), n in interval.counters.items():
            if name in ("window_output_tokens", "counted_chunks"):
                tokens, chunks = self._tokens.get(workload, (0, 0))
                self._tokens[workload] = (tokens + n, chunks) if name == "window_output_tokens" else (tokens, chunks + n)

    def note(self, sentence: str) -> None:
        """Keep the latest of what people were told."""
        self.notes = [*self.notes, Note(self._wall_ns(), sentence)][-NOTES:]

    def close(self, document: Document) -> None:
        """Take the final figures."""
        self.document = document

    # --- What is asked ---

    @property
    def workloads(self) -> tuple[str, ...]:
        """The run's workloads."""
        return self.run.workloads if self.run is not None else ()

    def tokens_per_chunk(self) -> dict[str, float]:
        """Return how many tokens a chunk of each workload has held so far; nothing where no request has told."""
        return {workload: tokens / chunks for workload, (tokens, chunks) in self._tokens.items() if chunks}

    def points(self, width: int, workload: str | None, since: int) -> Points:
        """Return the points of a width that changed after revision `since`: `KEPT` at most."""
        level = self._levels[width]
        points = sorted((point for point in level.points.values() if point.revision > since), key=lambda point: point.number)
        by_rank = {metric: [point.percentiles(metric, workload) for point in points] for metric in CHARTED}
        outcomes = sorted({name for point in points for name in point.counters if name.startswith(OUTCOME)})
        return Points(
            width=width,
            revision=self._revision,
            number=[point.number for point in points],
            length=[point.length for point in points],
            percentiles={
                metric: [_ms([row[n] for row in rows]) for n in range(len(RANKS))]
                for metric, rows in by_rank.items()
                if any(value is not None for row in rows for value in row)
            },
            counters=_told({name: _counted(points, name, workload) for name in ("scheduled", "sent", "completed")}),
            outcomes=_told({name.removeprefix(OUTCOME): _counted(points, name, workload) for name in outcomes}),
            in_flight=_told({name: [round(point.in_flight(name), 2) for point in points] for name in self.workloads}),
            chunks=_told({name: _counted(points, "chunks", name) for name in self.workloads}),
            tokens=_told({name: [_whole(point, name) for point in points] for name in self.workloads}),
            cpu=[None if point.cpu is None else round(point.cpu, 4) for point in points],
            lag_ms=[point.lag_max_ns / 1e6 for point in points],
            delay_ms=[point.delay_max_ns / 1e6 for point in points],
        )


def _ms(values_us: list[int | None]) -> Column:
    return [None if value is None else value / 1000 for value in values_us]


def _counted(points: list[Point], name: str, workload: str | None) -> Column:
    return [point.count(name, workload) for point in points]


def _whole(point: Point, workload: str) -> int:
    """Return tokens that came without chunks."""
    return 0 if point.count("chunks", workload) else point.count("window_output_tokens", workload)


def _told(columns: dict[str, Column]) -> dict[str, Column]:
    return {name: column for name, column in columns.items() if any(column)}
