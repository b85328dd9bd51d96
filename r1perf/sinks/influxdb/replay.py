"""Send a run to InfluxDB after its end: what is left of its spool, or all of it, made from its archive."""

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import msgspec

from r1perf import clock
from r1perf.errors import ArchiveError, DatabaseError, UsageError
from r1perf.scenario import InfluxDb
from r1perf.scenario.decode import convert
from r1perf.sinks.influxdb.delivery import NOT_LET_IN, Delivery
from r1perf.sinks.influxdb.points import COUNTERS, figures
from r1perf.sinks.influxdb.query import Bucket
from r1perf.sinks.influxdb.server import Server
from r1perf.sinks.influxdb.settings import URL, Settings, check_url, settings
from r1perf.sinks.influxdb.spool import REJECTED, SPOOL, Spool, State, read_state
from r1perf.sinks.influxdb.story import Story
from r1perf.sinks.influxdb.tally import Unequal, of_intervals, of_points, unequal
from r1perf.summary import Document, load, read_document
from r1perf.summary.archived import goes_on, intervals, unlose

Tell = Callable[[str], None]


class Elsewhere(msgspec.Struct, frozen=True):
    """Another place than the run's own; None keeps the run's own."""

    url: str | None = None
    org: str | None = None
    bucket: str | None = None

    def __bool__(self) -> bool:
        """Whether anything is another."""
        return self != Elsewhere()


class Sent(msgspec.Struct, frozen=True):
    """What came of a replay: `left` bytes could not be sent, `rejected` points are refused, `lost` ones are in no spool.

    Without `complete` there never was a point of all of the run: its process was killed, or its disk was full. `short` is what
    the archive has less of than the run had, where points were made from it.
    """

    points: int
    rejected: int
    left: int
    lost: int = 0
    complete: bool = True
    short: Unequal | None = None


def replay(folder: Path, environ: Mapping[str, str], tell: Tell, *, elsewhere: Elsewhere, everything: bool = False) -> Sent:
    """Send what InfluxDB did not get of a run, and what it refused; all of it where it never got any, or on request.

    Points that are there already are written over by themselves. Raises UsageError (nowhere to send it to), ArchiveError.
    """
    if goes_on(folder):  # its end would be a false one, and fields of it would stay beside those of the true one
        raise ArchiveError(f"the points of {folder} are being written by another process: the run goes on")
    written, state = read_document(folder), read_state(folder)
    table = _table(written, state, elsewhere)
    to = settings(table, environ)
    if to is None:
        raise UsageError(f"the run had no InfluxDB, and {URL} is not set in the environment")
    if to.caution is not None:
        tell(to.caution)
    there = _there(written.run_id, to) if everything or elsewhere else 0
    if elsewhere:
        with TemporaryDirectory() as place:
            return _send(*_told(folder, Path(place), None, to, tell, there), to, tell)
    if everything or state is None:
        return _send(*_told(folder, folder, state, to, tell, there), to, tell)
    if not (folder / SPOOL).exists() and not (folder / REJECTED).exists():
        return Sent(0, 0, 0, state.lost, state.complete)
    spool = Spool(folder, state, to.spool_bytes)
    _readmit(spool, tell)
    return _send(spool, None, to, tell)


def _there(run_id: str, to: Settings) -> int:
    """Return how many requests of the run the bucket has.

    Raises UsageError where it has late data as parts of their own: made from the archive they would count twice.
    """
    with closing(Server(to)) as server:
        try:
            rows = Bucket(server, to.bucket).points(COUNTERS, run_id)
        except DatabaseError as error:
            raise DatabaseError(
                "before a whole run is sent the bucket must be read, for late data would count twice, and it cannot be"
                f"{' (may the token read?)' if error.status in NOT_LET_IN else ''}: {error}",
                says=error.says,
                status=error.status,
            ) from error
        if any(row.tags.get("part", "0") != "0" for row in rows):
            raise UsageError(
                f"bucket {to.bucket} has late data of run {run_id}, which a whole run would count twice; delete the run there first"
            )
    return of_points(rows, ())["requests"]


def _table(written: Document, state: State | None, elsewhere: Elsewhere) -> InfluxDb | None:
    """Return where to: elsewhere, else where the run went, else where its scenario says; the environment fills in the rest."""
    found = written.scenario.get("sinks", {}).get("influxdb")
    if found is None and state is None and not elsewhere:
        return None
    table = convert(found or {}, InfluxDb, "sinks.influxdb")
    if state is not None:
        table = msgspec.structs.replace(table, url=state.url, org=state.org, bucket=state.bucket)
    if elsewhere.url is not None:
        check_url(elsewhere.url, "--url")
    given = {name: value for name, value in msgspec.structs.asdict(elsewhere).items() if value is not None}
    return msgspec.structs.replace(table, **given)


def _told(folder: Path, place: Path, state: State | None, to: Settings, tell: Tell, there: int) -> tuple[Spool, Unequal | None]:
    """Make a spool of a whole run from its archive, behind what is in that of `state`: late data is no part of its own there.

    Return too what its archive has less of than `run.json`: after a full disk, or where workers keep their files elsewhere.
    Raises UsageError where the bucket has more, `there` requests: its points would be replaced by less.
    """
    ended, kept = load(folder), intervals(folder, damage=tell)
    added = of_intervals(kept, {row.plan.index for row in ended.stages if row.plan.judged})
    if there > added["requests"]:
        raise UsageError(
            f"bucket {to.bucket} has {there:,} requests of run {ended.run_id}, and its archive only {added['requests']:,}: "
            "sent, they would replace more than they are"
        )
    wrong = unequal(added, figures(ended, None))
    short = wrong if wrong is not None and wrong.there < wrong.of else None
    unlose((interval.counters for interval in kept), ended)
    spool = Spool(place, state or State(url=to.url, org=to.org, bucket=to.bucket), to.spool_bytes)
    try:
        spool.lost, spool.complete = 0, False  # the points that found no room are made again
        _readmit(spool, tell)
        story = Story(read_document(folder).run(), to.interval_ns)
        spool.append(story.begin(), limited=False)
        for interval in kept:
            spool.append(story.interval(interval), limited=False)
        spool.append(story.end(ended), limited=False)
    except BaseException:
        spool.close()
        raise
    spool.complete = short is None
    if spool.problem is not None:
        tell(spool.problem)
    return spool, short


def _readmit(spool: Spool, tell: Tell) -> None:
    """Have what was refused sent once more, where the disk has room for it."""
    try:
        spool.readmit()
    except ArchiveError as error:
        tell(str(error))


def _send(spool: Spool, short: Unequal | None, to: Settings, tell: Tell) -> Sent:
    """Send a spool; give up where nothing goes through for as long as a run's end would wait."""
    with closing(Server(to)) as server:
        delivery = Delivery(spool, server.write, tell, Random())
        delivery.hurry()
        until_ns = clock.monotonic_ns() + to.deadline_ns
        while (wait_ns := delivery.step()) is not None and not delivery.shut_out:
            if wait_ns == 0:
                until_ns = clock.monotonic_ns() + to.deadline_ns
            elif clock.monotonic_ns() + wait_ns > until_ns:
                break
            clock.sleep(wait_ns / 1e9)
    spool.close()
    return Sent(delivery.points, len(spool.refused()), spool.waiting, spool.lost, spool.complete, short)
