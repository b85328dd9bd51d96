"""Read a run's archive: its `run.json`, or all that its workers' own files still tell."""

import fcntl
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import msgspec

from r1perf.client import Ticket
from r1perf.errors import ArchiveError
from r1perf.journal import (
    Damage,
    read_requests,
    read_scheduled,
    read_snapshots,
    requests_path,
    scheduled_path,
    snapshots_path,
)
from r1perf.recorder import Recorder
from r1perf.result import CENSORED, FAILED, Outcome, Result
from r1perf.schedule import Stage, stage_name
from r1perf.schedule.model import DRAIN
from r1perf.snapshot import Snapshot
from r1perf.summary.document import Document, decode, document
from r1perf.summary.interval import Interval, Key
from r1perf.summary.merged import Summary
from r1perf.summary.rates import per_chunk
from r1perf.summary.validity import Validity

RUN_JSON, LOG = "run.json", "intervals.hlog"

GOES_ON = "the run goes on; rebuilt from what its workers have written so far"
NO_END = "the run did not come to its end; rebuilt from what its workers had written"


def read_document(folder: Path) -> Document:
    """Read `run.json`; raises ArchiveError where there is none, or where it is damaged."""
    path = folder / RUN_JSON
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ArchiveError(f"{folder} is not a run archive: {RUN_JSON} cannot be read ({error.strerror})") from error
    return decode(data, str(path))


def goes_on(folder: Path) -> bool:
    """Tell whether a process of this machine still writes a run's archive: it holds the log's lock."""
    try:
        with (folder / LOG).open("rb") as log:
            fcntl.flock(log, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # there is no log, or no locks
        return False
    return False


def standing(*folders: Path) -> tuple[Document, bool]:
    """Read a run's `run.json`, and tell whether the run goes on; raises ArchiveError."""
    alive = any(map(goes_on, folders))  # first: a run that ends now has its run.json before it lets go
    written = read_document(_told(folders))
    return written, alive and written.status == "running"


def load(folder: Path, damage: Damage = lambda sentence: None) -> Document:
    """Return a run's document: that of `run.json`, or a rebuilt one where the run never came to its end, or has not yet."""
    written = read_document(folder)
    if written.status != "running":
        return written
    return rebuilt(folder, damage=damage)


def rebuilt(*folders: Path, damage: Damage = lambda sentence: None) -> Document:
    """Rebuild a run's document from what its workers had written, in these folders.

    A run that never came to its end says so, as does one that goes on, and one of whose workers nothing is here is invalid: nobody knows what it measured.
    Raises ArchiveError where the folders are not those of one run.
    """
    written, alive = standing(*folders)
    summary = recover(*folders, damage=damage, lost=not alive)
    if written.status == "running":
        built = unended(summary, alive=alive)
        if alive:
            return built
    else:
        built = msgspec.structs.replace(document(summary, written.status, written.reason), early=written.early)
    there = {worker for worker, _ in workers(*folders, known=written.workers)}
    reasons = [f"worker {worker}'s files are missing" for worker in written.workers if worker not in there]
    reasons += built.validity.reasons
    return msgspec.structs.replace(built, validity=Validity(not reasons, reasons))


def unended(summary: Summary, *, alive: bool) -> Document:
    """Return the document of a run without an end: it goes on, and so may not be judged yet, or was interrupted."""
    if alive:
        summary.per_chunk = per_chunk((name, workload, n) for (name, workload, _), n in summary.counters.items())
        return msgspec.structs.replace(document(summary, "running", GOES_ON), validity=Validity(False, [GOES_ON]))
    return msgspec.structs.replace(document(summary, "interrupted", NO_END), early=True)


def recover(*folders: Path, damage: Damage = lambda sentence: None, lost: bool = True) -> Summary:
    """Rebuild the summary of one run from the snapshots and requests files of these folders.

    A worker writes a line for every result that it gives to its recorder, in the same order; so as many lines as its
    snapshots hold outcomes are in them already, and the rest ended after its last snapshot. What was due and has neither
    counts as `lost`, unless that is not so. Of the lines behind the last snapshot only the gaps between chunks are not known any more.
    """
    written = read_document(_told(folders))
    summary = Summary(written.run())
    for worker, folder in workers(*folders, known=written.workers, damage=damage):
        recover_worker(summary, folder, worker, damage)
        if lost and summary.pending(worker):
            summary.lose(worker)
    _add_live(summary)
    return summary


def _add_live(summary: Summary) -> None:
    """Add the web UI's stages, which no `run.json` has that was written at the start: each began when the one before it ended."""
    known = {stage.index for stage in summary.stages} | {summary.drain}
    for index in sorted({stage for _, _, stage in (*summary.series, *summary.counters)} - known):
        start_ns = max((at_ns for stage, at_ns in summary.ended.items() if stage < index and stage != summary.drain), default=0)
        name = stage_name(summary.run.stages, index)
        summary.add_stage(Stage(index, name, start_ns, None, judged=True, says="set in the web UI"))


def intervals(folder: Path, damage: Damage = lambda sentence: None) -> list[Interval]:
    """Rebuild the intervals that the sinks of a run were given, in order of time, from the files of its folder."""
    written = read_document(folder)
    summary, found = Summary(written.run()), dict[int, Interval]()
    for worker, place in workers(folder, known=written.workers, damage=damage):
        snapshots = recover_worker(summary, place, worker, damage)
        for snapshot in snapshots:
            found.setdefault(snapshot.k, Interval(snapshot.k)).add(snapshot)
        if snapshots and (lost := summary.losses(worker)):
            found[snapshots[-1].k].lose(lost)
    return [interval for _, interval in sorted(found.items())]


def unlose(kept: Iterable[dict[Key, int]], written: Document) -> None:
    """Take requests back from those that counters call lost, where a run's last `run.json` knows that they ended.

    A rebuilt run counts as lost what was in flight in its last snapshot; after a full disk that came long before its end. `run.json`
    counts by workload and by stage, not by both.
    """
    left = {row.plan.index: row.counts.get(Outcome.LOST, 0) for row in written.stages}
    left_of = {row.name: row.counts.get(Outcome.LOST, 0) for row in written.workloads}
    for counters in kept:
        for key in sorted(key for key in counters if key[0] == f"outcome.{Outcome.LOST}"):
            _, workload, stage = key
            lost = min(counters.pop(key), left.get(stage, 0), left_of.get(workload, 0))
            if lost:
                counters[key] = lost
                left[stage] -= lost
                left_of[workload] -= lost


def _told(folders: Sequence[Path]) -> Path:
    """Return the first folder with a `run.json`; raises ArchiveError where another one's is of another run."""
    told = [folder for folder in folders if (folder / RUN_JSON).exists()]
    for other in told[1:]:
        ids = [read_document(folder).run_id for folder in (told[0], other)]
        if ids[0] != ids[1]:
            raise ArchiveError(f"{told[0]} and {other} hold two runs, {ids[0]} and {ids[1]}")
    return told[0] if told else folders[0]


def workers(*folders: Path, known: Collection[str] = (), damage: Damage = lambda sentence: None) -> list[tuple[str, Path]]:
    """Find the workers that have written into these folders; raises ArchiveError where one has into two of them.

    Where some are `known` (run.json names all of its run), files of others do not belong there and are left out.
    """
    found = dict[str, Path]()
    for folder in folders:
        for prefix, suffix in (("snapshots.", ""), ("requests.", ".jsonl")):
            for path in sorted(folder.glob(f"{prefix}*{suffix}")):
                worker = path.name.removeprefix(prefix).removesuffix(suffix)
                if not found.setdefault(worker, folder).samefile(folder):
                    raise ArchiveError(
                        f"{found[worker]} and {folder} both hold files of a worker {worker}: a worker writes into one"
                    )
    strays = sorted(set(found) - set(known)) if known else []
    for worker in strays:
        damage(f"{found.pop(worker)}: the files of a worker {worker} were left out: the run had none")
    return sorted(found.items())


def recover_worker(summary: Summary, folder: Path, worker: str, damage: Damage = lambda sentence: None) -> list[Snapshot]:
    """Merge what a worker has written and the summary does not hold yet; return the snapshots that were new."""
    covered, counted, last, merged = 0, 0, None, []
    done, well = Counter[str](), Counter[str]()  # by workload: whole conversations, requests that ended well
    path = snapshots_path(folder, worker)
    for snapshot in read_snapshots(path, damage) if path.exists() else ():
        if summary.merge(snapshot):
            merged.append(snapshot)
        for counter in snapshot.counters:
            covered += counter.n if counter.name.startswith("outcome.") else 0
            counted += counter.n if counter.name == "scheduled" else 0
            done[counter.workload] += counter.n if counter.name == "conversations_done" else 0
        last = snapshot
    path, rest, several = requests_path(folder, worker), list[Result](), set[str]()
    for n, result in enumerate(read_requests(path, damage) if path.exists() else ()):
        if n >= covered:
            rest.append(result)
        elif _well(result):
            well[result.workload] += 1
        if result.turn:
            several.add(result.workload)
    path = scheduled_path(folder, worker)
    due = _due(path, counted, rest) if path.exists() else [result for result in rest if _late(result, last, summary)]
    if rest or due:
        # Conversations have one turn where each request that ended well was the end of one.
        single = {workload for workload, n in well.items() if n == done[workload]} - several
        replayed = _replayed(summary, worker, due, rest, last, single)
        if summary.merge(replayed):
            merged.append(replayed)
    return merged


def _well(result: Result) -> bool:
    return result.outcome not in FAILED and result.outcome not in CENSORED


def _due(path: Path, counted: int, rest: Sequence[Result]) -> list[Ticket | Result]:
    """Return what became due after the last snapshot: snapshots count the first lines of the file, in its order."""
    unseen = {result.id: result for result in rest}  # the file may end a moment before that of the results does
    due = list[Ticket | Result]()
    for n, ticket in enumerate(read_scheduled(path)):
        unseen.pop(ticket.id, None)
        if n >= counted:
            due.append(ticket)
    return [*due, *unseen.values()]


def _late(result: Result, last: Snapshot | None, summary: Summary) -> bool:
    """Tell whether an ended request became due after the last snapshot, by its time: where no file tells."""
    return last is None or result.scheduled_ns >= _end_ns(last, summary)


def _end_ns(last: Snapshot, summary: Summary) -> int:
    return last.t0_ns + (last.k + 1) * summary.run.interval_ns


def _replayed(
    summary: Summary,
    worker: str,
    due: Sequence[Ticket | Result],
    rest: Sequence[Result],
    last: Snapshot | None,
    single: Collection[str],
) -> Snapshot:
    """Make the snapshot that the worker did not live to make: requests that became `due` after its last one, and those that ended (`rest`).

    No line says how many turns its conversation has: those of the `single` workloads have one, others are not counted as done.
    """
    interval_ns = summary.run.interval_ns
    t0_ns = last.t0_ns if last is not None else min(each.scheduled_ns for each in (*due, *rest))
    since_ns = t0_ns if last is None else _end_ns(last, summary)
    recorder = Recorder(worker, summary.stages, t0_ns, interval_ns)
    for stage, offset_ns in sorted(summary.ended.items(), key=lambda item: item[1]):
        follows = [known.index for known in summary.stages if known.index > stage and known.name != DRAIN]
        recorder.begin(follows[0] if follows else recorder.drain, t0_ns + offset_ns)
    for each in due:
        recorder.count("scheduled", each.workload, each.stage)
        if not each.turn:
            recorder.count("conversations", each.workload, each.stage)
    for result in rest:
        if result.workload in single and _well(result):
            recorder.count("conversations_done", result.workload, result.stage)
        recorder.replay(result, since_ns)
    end_ns = max(since_ns + 1, *(each.scheduled_ns for each in due), *(result.done_ns for result in rest))
    recorder.skip_to(-1 if last is None else last.k)
    return recorder.flip(min(end_ns, since_ns + interval_ns), wall_ns=min(end_ns - since_ns, interval_ns))
