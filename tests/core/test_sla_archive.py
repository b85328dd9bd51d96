"""Recorded runs: the same verdicts as live, any other clauses, and what an archive must hold for them."""

import json
import re
import shutil

import msgspec
import pytest
from click.testing import CliRunner
from test_sla_account import SCENARIO
from virtual_run import MS, STAGES, T0, S, a_run, play, traffic

import r1perf.sla.archive
import r1perf.sla.recount
from r1perf.cli.check import command as check_command
from r1perf.cli.influx import command as influx_command
from r1perf.cli.judge import command as judge_command
from r1perf.cli.recover import command as recover_command
from r1perf.cli.run import command as run_command
from r1perf.cli.sides import against, worst
from r1perf.collector import Verdict as Ended
from r1perf.errors import ArchiveError, UsageError
from r1perf.journal import RequestsJournal, SnapshotsJournal, read_snapshots, requests_path, snapshots_path
from r1perf.launch.run import Ran
from r1perf.recorder import Recorder
from r1perf.report.verdicts import summed
from r1perf.result import Outcome, Result
from r1perf.scenario import resolved
from r1perf.schedule import Stage
from r1perf.sinks.archive import write_document
from r1perf.sinks.hlog import HlogWriter
from r1perf.sla import (
    ClauseError,
    Clusters,
    Limit,
    Standing,
    Tallier,
    Terms,
    Watch,
    entries,
    judge_archive,
    parse,
    read_verdicts,
    runs_in,
    terms,
)
from r1perf.sla.archive import passed_over
from r1perf.sla.gaps import clusters
from r1perf.sla.terms import outline
from r1perf.snapshot import encode
from r1perf.summary import Summary, document, read_document
from r1perf.summary.archived import GOES_ON, NO_END
from r1perf.summary.run import PlannedRequests
from r1perf.summary.validity import Validity

CLAUSES = (
    "p95(ttft) < 200ms", "p99(itl) < 25ms", "p99(itl){workload=chat} < 21ms during steady", "mean(e2e) < 3s", "mean(itl) < 25ms",
    "error_rate < 1%", "goodput(ttft<200ms, itl_max<40ms) >= 95%", "goodput(e2e<3s) >= 2/s", "max(tpot){workload=aime} < 1s",
    "throughput(output_tokens) >= 1/s", "cost_per_1m(total_tokens) < $9", "p95(interactivity) >= 30/s", "p95(ttfo) < baseline +10%",
)  # fmt: skip
JUDGED = {stage.index for stage in STAGES if stage.judged}


MADE, KEPT = {}, []


@pytest.fixture(scope="module", autouse=True)
def _kept(tmp_path_factory):
    """Keep each archive that is asked for, as long as these tests run."""
    KEPT.append(tmp_path_factory.mktemp("kept"))
    yield
    MADE.clear()
    KEPT.clear()


def archived(folder, clauses=CLAUSES, **options):
    """Write the archive of a run that was played, with its live verdicts in it; return these. The same one is made once.

    Each has an id of its own.
    """
    key = (tuple(clauses), tuple(sorted(options.items())))
    if key not in MADE:
        kept = KEPT[0] / str(len(MADE))
        kept.mkdir()
        MADE[key] = kept, written(kept, clauses, **options)
    shutil.copytree(MADE[key][0], folder)
    write_document(folder, msgspec.structs.replace(read_document(folder), run_id=f"{folder.parent.name}-{folder.name}"))
    return MADE[key][1]


def written(
    folder,
    clauses,
    *,
    workers=2,
    seed=3,
    slower=1.0,
    well=False,
    status="finished",
    reason=None,
    early=True,
    invalid=(),
    planned=(),
):
    """Do that."""
    scenario = msgspec.structs.replace(SCENARIO, sla=msgspec.structs.replace(SCENARIO.sla, clauses=tuple(clauses)))
    promised = terms(scenario, outline(scenario))
    run = a_run(scenario=resolved(scenario), workers=tuple(map(str, range(workers))), planned=planned)
    summary = Summary(run)
    standing = Standing(scenario, promised, summary)
    answers = [
        msgspec.structs.replace(one, ttft_ns=int(one.ttft_ns * slower))
        for one in traffic(seed)
        if not well or one.outcome is Outcome.OK
    ]
    for worker in map(str, range(workers)):
        with RequestsJournal(folder, worker) as requests, SnapshotsJournal(folder, worker) as snapshots:
            for taken in play(
                answers[int(worker) :: workers], seconds=50, worker=worker, on_result=requests.write,
                tallies=Tallier(promised.watches(STAGES), JUDGED),
            ):  # fmt: skip
                snapshots.write(encode(taken))
                summary.merge(taken)
                standing.add(taken)
    verdicts = standing.verdicts(invalid, reason)
    built = document(summary, status, reason, entries(verdicts))
    checked = Validity(not invalid, list(invalid))
    write_document(folder, msgspec.structs.replace(built, validity=checked, early=early and reason is not None))
    return {one.clause: one for one in verdicts}


def forgotten(folder):
    """Take the run's own verdicts out of its archive."""
    write_document(folder, msgspec.structs.replace(read_document(folder), sla=[]))


def test_recorded_verdicts_are_the_live_ones(tmp_path):
    live = archived(tmp_path / "run")
    forgotten(tmp_path / "run")
    recorded = {one.clause: one for one in judge_archive(tmp_path / "run")}
    assert list(recorded) == list(live)
    for clause, one in recorded.items():
        if "(itl)" not in clause:
            assert one == live[clause]


@pytest.mark.parametrize("clause", [clause for clause in CLAUSES if clause.startswith("p99(itl)")])
def test_recorded_gaps_are_bracketed(tmp_path, clause):
    live = archived(tmp_path / "run", [clause])[clause]
    forgotten(tmp_path / "run")
    (recorded,) = judge_archive(tmp_path / "run")
    assert (recorded.n, recorded.causes[1:]) == (live.n, live.causes[1:])
    assert recorded.over <= live.over == live.over_possible <= recorded.over_possible
    assert (recorded.clusters, recorded.n_eff) == (live.clusters, pytest.approx(live.n_eff, rel=0.02))
    assert recorded.over_possible - recorded.over < 0.02 * live.n


def test_a_limit_s_own_bucket_counts_both_ways_and_says_so(tmp_path):
    """The limit is 1 us above the gap of many streams: a bucket is 16 us wide there."""
    gaps_ns = sorted(one.gap_ns for one in traffic(3) if one.workload == "chat" and one.at_ns > 16 * S)
    gap_ns = gaps_ns[len(gaps_ns) // 2]
    clause = f"p50(itl){{workload=chat}} < {gap_ns // 1000 + 1}us"
    live = archived(tmp_path / "run", [clause])[clause]
    forgotten(tmp_path / "run")
    (recorded,) = judge_archive(tmp_path / "run")
    assert recorded.over <= live.over < recorded.over_possible
    doubt = recorded.over_possible - recorded.over
    assert f"{doubt:,} values in the limit's bucket: counted both ways" in recorded.notes


def test_failed_requests_are_clusters_of_gaps_once(tmp_path):
    archived(tmp_path / "run", [])
    written = read_document(tmp_path / "run")
    account, _ = r1perf.sla.recount.recount(tmp_path / "run", written, SCENARIO, Terms((parse("p99(itl) < 25ms"),)), print)
    seen = account.evidence(0)
    assert seen.requests.m == seen.conversations.m == seen.n


class TestGaps:
    """What is known of each request: how many gaps it had, its longest, how it ended."""

    LIMIT = Watch(0, (Limit("itl", "<", 60.0 * MS),), "chat", None, "gap")

    def clusters(self, *requests, slow):
        results = [("0", a_result(arrival=n, **one)) for n, one in enumerate(requests)]
        return clusters(Summary(a_run()), results, self.LIMIT, slow).requests

    def test_misses_are_spread_over_the_requests_whose_longest_gap_missed(self):
        """30 + 10 gaps had 8 misses: 6 and 2; the clean 20 have none."""
        found = self.clusters(
            {"chunks": 31, "itl_max_ns": 80 * MS},
            {"chunks": 11, "itl_max_ns": 70 * MS},
            {"chunks": 21, "itl_max_ns": 50 * MS},
            slow=8,
        )
        assert found == Clusters.of([(30, 6), (10, 2), (20, 0)])

    def test_a_failure_is_one_gap_that_missed(self):
        """The first had stalled: its longest gap is the open one, which its failure stands for. The second had no chunk."""
        stalled = {"chunks": 11, "itl_max_ns": 900 * MS, "outcome": Outcome.TIMEOUT, "last_ns": S, "done_ns": S + 900 * MS}
        refused = {"chunks": 0, "outcome": Outcome.OVERLOADED, "last_ns": None}
        assert self.clusters(stalled, refused, slow=0) == Clusters.of([(11, 1), (1, 1)])

    def test_only_what_is_covered(self):
        """Of 11 chunks, 2 shared a read and 5 came in the drain; other workloads do not count."""
        mixed = {"chunks": 11, "coalesced": 2, "chunks_by_stage": {2: 6, 3: 5}, "itl_max_ns": 10 * MS}
        assert self.clusters(mixed, {"workload": "aime", "chunks": 9}, slow=0) == Clusters.of([(4, 0)])

    def test_a_stream_that_began_before_has_a_gap_more(self):
        """Its first chunk of the judged stage ends a gap as well."""
        assert self.clusters({"chunks": 11, "chunks_by_stage": {0: 5, 1: 6}, "itl_max_ns": 1}, slow=0) == Clusters.of([(6, 0)])


def a_result(**changes):
    fields = {
        "turn": 0, "workload": "chat", "stage": 2, "item": 0, "outcome": Outcome.OK, "scheduled_ns": 0, "sent_ns": 0, "first_ns": 1,
        "last_ns": S, "done_ns": S, "id": f"{changes['arrival']}.0",
    }  # fmt: skip
    if "chunks_by_stage" not in changes and changes.get("chunks"):
        fields["chunks_by_stage"] = {2: changes["chunks"]}
    return Result(**fields | changes)


def test_answers_that_the_end_cut_count_both_ways_as_live(tmp_path):
    """60 right and 40 cut are not 60 of 60."""
    clause = "accuracy >= 70%"
    watches, run = Terms((parse(clause),)).watches(STAGES), a_run(scenario=resolved(SCENARIO))
    recorder = Recorder("0", STAGES, T0, S, tallies=Tallier(watches, JUDGED))
    at = {
        "scheduled_ns": T0 + 20 * S,
        "sent_ns": T0 + 20 * S,
        "first_ns": T0 + 20 * S + 1,
        "last_ns": T0 + 21 * S,
        "done_ns": T0 + 21 * S,
    }
    with RequestsJournal(tmp_path, "0") as requests, SnapshotsJournal(tmp_path, "0") as snapshots:
        for n in range(100):
            recorder.count("scheduled", "chat", 2)
            well = n < 60
            ended = a_result(arrival=n, outcome=Outcome.OK if well else Outcome.CANCELLED, grade="right" if well else None, **at)
            requests.write(recorder.add(ended, None, ended.grade))
        summary = Summary(run)
        standing = Standing(SCENARIO, Terms((parse(clause),)), summary)
        for k in range(22):
            taken = recorder.flip(T0 + (k + 1) * S, last=k == 21)
            snapshots.write(encode(taken))
            summary.merge(taken)
            standing.add(taken)
    (live,) = standing.verdicts((), None)
    write_document(tmp_path, document(summary))
    (recorded,) = judge_archive(tmp_path, [clause])
    assert recorded == live
    assert (live.verdict, live.n, live.over, live.over_possible) == ("inconclusive", 100, 0, 40)


def test_gaps_of_few_requests_are_worth_few_attempts(tmp_path):
    """Clean streams of 20 to 120 gaps: as many attempts as requests, as live, not as many as gaps."""
    live = archived(tmp_path / "run", ["p99.9(itl){workload=aime} < 9s"], workers=1)["p99.9(itl){workload=aime} < 9s"]
    forgotten(tmp_path / "run")
    (recorded,) = judge_archive(tmp_path / "run")
    assert live.n > 10 * live.n_eff
    assert recorded.n_eff == pytest.approx(live.n_eff, rel=0.1)


def test_a_declared_clause_keeps_its_live_verdict(tmp_path, monkeypatch):
    live = archived(tmp_path / "run", ["p99(itl) < 25ms"])["p99(itl) < 25ms"]
    assert judge_archive(tmp_path / "run") == [live]
    assert judge_archive(tmp_path / "run", ["p99( itl ) < 25ms"]) == [live]
    assert judge_archive(tmp_path / "run", confidence=0.9)[0].confidence == 0.9
    monkeypatch.setattr(r1perf.sla.archive, "recount", None)  # nothing is counted anew
    assert judge_archive(tmp_path / "run") == [live]


def test_other_clauses_are_counted_anew_and_fails_confirmed_together(tmp_path):
    archived(tmp_path / "run", ["p95(ttft) < 200ms"], well=True)
    found = judge_archive(tmp_path / "run", ["p95(ttft) < 200ms", "p95(ttft) < 1ms", "p95(e2e) < 9m", "error_rate < 99%"])
    assert [(one.verdict, one.holm) for one in found[1:]] == [("fail", True), ("pass", None), ("pass", None)]
    with pytest.raises(ClauseError, match="unknown workload `caht`"):
        judge_archive(tmp_path / "run", ["p95(ttft){workload=caht} < 1s"])


def cut(path, keep, *, torn=False):
    """Leave the first lines of a file, and with `torn` half of the next."""
    lines = path.read_bytes().splitlines(keepends=True)
    left = lines[:keep] + ([lines[keep][: len(lines[keep]) // 2]] if torn else [])
    path.write_bytes(b"".join(left))


def cut_snapshots(run, worker, keep):
    """Leave the first snapshots of a worker, and return them."""
    path = snapshots_path(run, worker)
    kept = list(read_snapshots(path))[:keep]
    path.unlink()
    with SnapshotsJournal(run, worker) as snapshots:
        for one in kept:
            snapshots.write(encode(one))
    return kept


def judged(folder, *clauses, **options):
    return {one.clause: one for one in judge_archive(folder, clauses, **options)}


class TestWhatIsMissing:
    """Files that are deleted, cut or elsewhere: what run.json says there was is never left out silently."""

    SNAPSHOTS = "cannot be judged: the snapshots of worker 1 are not in the archive"

    @pytest.mark.parametrize("torn", [False, True], ids=["at a line end", "within a line"])
    def test_requests_without_a_line_count_both_ways(self, tmp_path, torn):
        archived(tmp_path / "run", [], workers=1, well=True)
        whole = judged(tmp_path / "run", "max(ttft) < 9s", "p95(e2e) < 9s", "mean(ttft) < 5s", "goodput(e2e<9s) >= 2/s")
        assert {one.verdict for one in whole.values()} == {"pass"}
        lines = requests_path(tmp_path / "run", "0").read_bytes().count(b"\n")
        cut(requests_path(tmp_path / "run", "0"), lines // 2, torn=torn)
        said = []
        left = judged(tmp_path / "run", *whole, damage=said.append)
        assert {one.verdict for one in left.values()} == {"inconclusive"}
        share = left["p95(e2e) < 9s"]
        assert (share.n, share.over) == (whole["p95(e2e) < 9s"].n, whole["p95(e2e) < 9s"].over)
        lost = share.over_possible - share.over
        assert 0 < lost <= lines - lines // 2
        assert left["max(ttft) < 9s"].says == f"{lost} requests without a line in the archive may have missed, none may"
        for one in left.values():
            if not one.clause.startswith("max"):
                assert f"{lost} requests without a line in the archive: counted both ways" in one.notes
        assert len(said) == torn

    def test_a_fail_needs_no_line_more(self, tmp_path):
        archived(tmp_path / "run", [], workers=1)
        cut(requests_path(tmp_path / "run", "0"), 150)
        found = judged(tmp_path / "run", "max(ttft) < 1ms", "p50(ttft) < 1ms", "p95(ttft) < 1ms")
        assert [one.verdict for one in found.values()] == ["fail"] * 3

    def test_without_a_worker_s_files_half_is_not_taken_for_all(self, tmp_path):
        archived(tmp_path / "run", [], well=True)
        clauses = (
            "p95(ttft) < 9s",
            "throughput(requests) < 9/s",
            "throughput(requests) > 0.1/s",
            "cost_per_1m(total_tokens) < $9",
        )
        assert {one.verdict for one in judged(tmp_path / "run", *clauses).values()} == {"pass"}
        requests_path(tmp_path / "run", "1").unlink()
        snapshots_path(tmp_path / "run", "1").unlink()
        found = judged(tmp_path / "run", *clauses)
        assert [one.verdict for one in found.values()] == ["inconclusive"] * 4
        assert [one.says for one in found.values()][1:] == [self.SNAPSHOTS] * 3

    @pytest.mark.parametrize("workload", ["aime", "chat"])
    def test_a_workload_s_missing_requests_are_at_most_its_own(self, tmp_path, workload):
        clause = f"p95(ttft){{workload={workload}}} < 9s"
        archived(tmp_path / "run", [], workers=1)
        whole = judged(tmp_path / "run", clause)[clause]
        requests_path(tmp_path / "run", "0").unlink()
        left = judged(tmp_path / "run", clause)[clause]
        ended = next(row for row in read_document(tmp_path / "run").workloads if row.name == workload).counts
        assert (
            whole.n
            <= left.over_possible
            == left.n
            <= sum(n for name, n in ended.items() if name not in ("scheduled", "in_flight"))
        )

    @pytest.mark.parametrize("keep", [30, 49], ids=["many are gone", "only the last, empty one"])
    def test_cut_snapshots_give_no_flows(self, tmp_path, keep):
        archived(tmp_path / "run", [], workers=1)
        cut_snapshots(tmp_path / "run", "0", keep)
        found = judged(tmp_path / "run", "throughput(requests) > 0.1/s", "mean(ttft) < 9s", "p99(itl) < 9s", "p50(ttft) < 9s")
        says = "cannot be judged: the archive's snapshots hold less than its run.json counted"
        assert [one.says for one in found.values()][:3] == [says] * 3
        assert found["p50(ttft) < 9s"].verdict == "pass"

    @pytest.mark.parametrize("keep", [10, 25, 35])
    def test_no_request_is_counted_twice_where_the_disk_was_full(self, tmp_path, keep):
        """run.json knows how those ended that were in flight at the last snapshot on disk: they were not lost."""
        archived(tmp_path / "run", [], workers=2, well=True)
        for worker in ("0", "1"):
            kept = cut_snapshots(tmp_path / "run", worker, keep)
            cut(requests_path(tmp_path / "run", worker), sum(c.n for one in kept for c in one.counters if c.name == "outcome.ok"))
        written = read_document(tmp_path / "run")
        stages = {row.plan.name: row.counts["scheduled"] for row in written.stages if row.plan.judged}
        found = judged(tmp_path / "run", "p95(ttft) < 9s", *(f"p95(ttft) < 9s during {name}" for name in stages))
        assert [one.n for one in found.values()] == [sum(stages.values()), *stages.values()]

    def test_what_was_lost_stays_lost(self, tmp_path):
        """Worker 1 died, and the collector counted what was in flight on it then; of worker 0 the disk was full."""
        archived(tmp_path / "run", [], workers=2, well=True)
        summary = Summary(read_document(tmp_path / "run").run())
        for worker, keep in (("0", 50), ("1", 25)):
            for one in list(read_snapshots(snapshots_path(tmp_path / "run", worker)))[:keep]:
                summary.merge(one)
            kept = cut_snapshots(tmp_path / "run", worker, min(keep, 30))
            cut(requests_path(tmp_path / "run", worker), sum(c.n for one in kept for c in one.counters if c.name == "outcome.ok"))
        lost = summary.lose("1")
        write_document(tmp_path / "run", document(summary))
        account, _ = r1perf.sla.recount.recount(
            tmp_path / "run", read_document(tmp_path / "run"), SCENARIO, Terms((parse("p95(ttft) < 9s"),)), print
        )
        assert account.lost(account.terms.clauses[0]) == lost > 0
        assert account.evidence(0).n == sum(summary.counter("scheduled", stage=stage) for stage in JUDGED)

    def test_without_snapshots_the_rest_is_judged(self, tmp_path):
        archived(tmp_path / "run", well=True, workers=1)
        snapshots_path(tmp_path / "run", "0").unlink()
        found = judged(
            tmp_path / "run", "p95(ttft) < 1s", "p99(itl) < 1s", "mean(ttft) < 9s", "goodput(ttft<9s) >= 1/s",
            "throughput(requests) > 1/s", "max(ttft) < 9s",
        )  # fmt: skip
        assert found["p95(ttft) < 1s"].verdict == found["max(ttft) < 9s"].verdict == "pass"
        assert found["p95(ttft) < 1s"].notes[0] == "no intervals were kept: attempts count as independent"
        says = "cannot be judged: the snapshots of worker 0 are not in the archive"
        assert [one.says for one in found.values()][1:5] == [says] * 4

    def test_one_request_without_a_line_has_none(self, tmp_path):
        archived(tmp_path / "run")
        path = requests_path(tmp_path / "run", "1")
        cut(path, len(path.read_bytes().splitlines()) - 1)
        found = judged(tmp_path / "run", "p99(itl) < 9s")["p99(itl) < 9s"]
        assert found.says == "cannot be judged: 1 request of the run has no line in the archive"

    def test_what_the_run_did_not_have_is_not_judged(self, tmp_path):
        """Files that were doubled, and some of a worker that run.json does not know."""
        archived(tmp_path / "run")
        clauses = ("p95(ttft) < 1s", "p99(itl) < 9s", "throughput(requests) > 0.1/s")
        whole = judged(tmp_path / "run", *clauses)
        for worker in ("0", "1"):
            for path in (requests_path(tmp_path / "run", worker), snapshots_path(tmp_path / "run", worker)):
                path.write_bytes(path.read_bytes() * 2)
        shutil.copy(requests_path(tmp_path / "run", "0"), requests_path(tmp_path / "run", "7"))
        told = []
        found = {one.clause: one for one in judge_archive(tmp_path / "run", clauses, damage=told.append)}
        assert found == whole
        assert f"{tmp_path / 'run'}: the files of a worker 7 were left out: the run had none" in told

    def test_without_requests_only_what_needs_none(self, tmp_path):
        archived(tmp_path / "run")
        requests_path(tmp_path / "run", "1").unlink()
        found = judged(tmp_path / "run", "throughput(requests) > 0.1/s", "p99(itl) < 9s", "p95(ttft) < 9s")
        assert [one.verdict for one in found.values()] == ["pass", "inconclusive", "inconclusive"]
        assert re.fullmatch(r"cannot be judged: \d+ requests of the run have no line in the archive", found["p99(itl) < 9s"].says)

    def test_a_run_that_was_killed_tells_what_its_files_hold(self, tmp_path):
        """Its run.json is of its beginning, and counts nothing; the snapshots do."""
        archived(tmp_path / "run", [], workers=1, status="running")
        written = read_document(tmp_path / "run")
        bare = document(Summary(written.run()), "running")
        write_document(tmp_path / "run", bare)
        whole = judged(tmp_path / "run", "p95(ttft) < 9s")["p95(ttft) < 9s"]
        cut(requests_path(tmp_path / "run", "0"), 100)
        left = judged(tmp_path / "run", "p95(ttft) < 9s")["p95(ttft) < 9s"]
        assert (left.n, left.over_possible > left.n // 3) == (whole.n, True)

    def test_without_either_nothing(self, tmp_path):
        archived(tmp_path / "run", workers=1)
        requests_path(tmp_path / "run", "0").unlink()
        snapshots_path(tmp_path / "run", "0").unlink()
        with pytest.raises(ArchiveError, match="holds neither requests nor snapshots"):
            judge_archive(tmp_path / "run", ["p95(ttft) < 1s"])


@pytest.mark.parametrize(
    ("ending", "verdict", "says"),
    [
        ({"invalid": ("it was late",)}, "error", "the run is invalid: it was late"),
        ({"status": "interrupted", "reason": "by Ctrl-C"}, "inconclusive", "the run ended early (by Ctrl-C); so far "),
        ({"status": "finished", "reason": "the limit of $1"}, "inconclusive", "the run ended early (the limit of $1); so far "),
        ({"status": "running"}, "inconclusive", "the run ended early (the run did not come to its end; rebuilt "),
    ],
    ids=["invalid", "interrupted", "out of money", "never ended"],
)
def test_a_run_that_did_not_end_well_never_passes(tmp_path, ending, verdict, says):
    archived(tmp_path / "run", ["p95(ttft) < 200ms"], **ending)
    for found in judge_archive(tmp_path / "run", ["p95(ttft) < 200ms", "p95(ttft) < 9s"]):
        assert (found.verdict, found.says[: len(says)]) == (verdict, says)


def test_a_run_that_goes_on_has_lost_nothing_and_is_not_judged_yet(tmp_path):
    archived(tmp_path / "run", [], workers=1, status="running")
    cut_snapshots(tmp_path / "run", "0", 20)
    (tmp_path / "run" / "intervals.hlog").unlink(missing_ok=True)
    log = HlogWriter(tmp_path / "run" / "intervals.hlog", 0)
    (found,) = judge_archive(tmp_path / "run", ["p95(ttft) < 9s"])
    log.close()
    assert (found.verdict, found.says) == ("error", f"the run is invalid: {GOES_ON}")
    (killed,) = judge_archive(tmp_path / "run", ["p95(ttft) < 9s"])
    assert killed.verdict == "inconclusive"
    assert killed.says.startswith(f"the run ended early ({NO_END}); so far 12 of 170 = 7.1 % missed")


class TestEarly:
    """What was planned is in run.json, so that a run that ended early is judged as it was live."""

    CLAUSES = ("p95(ttft) < 1ms", "p50(e2e) < 9m", "p95(ttft){workload=chat} < 1ms", "error_rate < 50%", "max(ttft) < 1ms")
    PLANNED = (PlannedRequests("chat", 1, 40), PlannedRequests("chat", 2, 200), PlannedRequests("aime", None, 90))
    WHY = "the limit of $1"

    def test_as_live(self, tmp_path):
        live = archived(tmp_path / "run", self.CLAUSES, planned=self.PLANNED, reason=self.WHY)
        forgotten(tmp_path / "run")
        recorded = {one.clause: one for one in judge_archive(tmp_path / "run")}
        assert recorded == live
        assert [one.verdict for one in live.values()] == ["fail", "inconclusive", "fail", "inconclusive", "fail"]
        assert [one.planned for one in live.values()] == [330, 330, 240, 330, None]

    def test_of_a_run_that_was_killed_too(self, tmp_path):
        archived(tmp_path / "run", [], workers=1, status="running", planned=self.PLANNED)
        write_document(tmp_path / "run", document(Summary(read_document(tmp_path / "run").run()), "running"))
        found = judged(tmp_path / "run", *self.CLAUSES)
        assert [one.verdict for one in found.values()] == ["fail", "inconclusive", "fail", "inconclusive", "fail"]

    def test_an_added_stage_has_no_end(self, tmp_path):
        archived(tmp_path / "run", self.CLAUSES, workers=1, reason=self.WHY, planned=self.PLANNED)
        summary = Summary(read_document(tmp_path / "run").run())
        assert document(summary).planned == self.PLANNED
        summary.add_stage(Stage(4, "live-1", 40 * S, None, True, "set in the web UI"))
        assert document(summary).planned == ()


def test_a_whole_run_in_which_nothing_ended_well_is_judged(tmp_path):
    """Its reason says that nothing did, and is none for which it ended early."""
    archived(tmp_path / "run", [], reason="none of 9 requests ended well", early=False)
    assert [one.verdict for one in judge_archive(tmp_path / "run", ["p95(ttft) < 1ms", "error_rate < 99%"])] == ["fail", "pass"]


class TestSides:
    CLAUSE = "p95(ttft) < baseline +10%"

    def side(self, tmp_path, name, *slower):
        for times in slower:
            archived(tmp_path / name / str(times), [self.CLAUSE], workers=1, well=True, slower=times)
        return runs_in(tmp_path / name)

    @pytest.mark.parametrize(
        ("slower", "verdict"),
        [((1.0, 1.01, 1.02), "pass"), ((1.09, 1.1, 1.11), "inconclusive"), ((1.5, 1.51, 1.52), "fail")],
        ids=str,
    )
    def test_three_runs_against_three(self, tmp_path, slower, verdict):
        """The same traffic on both sides, so that only the target differs."""
        base, mine = self.side(tmp_path, "base", 1.0, 1.01, 1.02), self.side(tmp_path, "mine", *slower)
        found = [judge_archive(run, baseline=base, beside=[one for one in mine if one != run])[0] for run in mine]
        assert [one.verdict for one in found] == [verdict] * 3, "each run is judged with its whole side"
        assert "3 runs against 3 runs" in found[0].says

    def test_an_invalid_run_says_nothing_of_its_side(self, tmp_path):
        archived(tmp_path / "base" / "a", [self.CLAUSE], workers=1)
        archived(tmp_path / "base" / "b", [self.CLAUSE], workers=1, invalid=("it was late",))
        archived(tmp_path / "run", [self.CLAUSE], workers=1)
        (found,) = judge_archive(tmp_path / "run", baseline=runs_in(tmp_path / "base"))
        assert "1 run against 1 run cannot be judged" in found.says
        assert found.notes == (f"{tmp_path / 'base' / 'b'} was left out: it is invalid (it was late)",)

    def test_nor_does_one_whose_archive_lacks_a_part(self, tmp_path):
        archived(tmp_path / "base" / "a", [self.CLAUSE])
        archived(tmp_path / "run", [self.CLAUSE], workers=1)
        snapshots_path(tmp_path / "base" / "a", "1").unlink()
        (found,) = judge_archive(tmp_path / "run", baseline=runs_in(tmp_path / "base"))
        assert found.says == "nothing to compare: 1 run against 0 runs of the baseline"
        why = "was left out: the snapshots of worker 1 are not in the archive"
        assert found.notes == (f"{tmp_path / 'base' / 'a'} {why}",)
        (found,) = judge_archive(tmp_path / "base" / "a", baseline=[tmp_path / "run"])
        assert (found.says, found.notes) == ("nothing to compare: 0 runs against 1 run of the baseline", (f"this run {why}",))

    def test_one_run_counts_once_however_often_it_is_given(self, tmp_path):
        (base,) = self.side(tmp_path, "base", 1.0)
        run, other = self.side(tmp_path, "mine", 1.5, 1.51)
        link, copy = tmp_path / "link", tmp_path / "copy"
        link.symlink_to(base)
        shutil.copytree(run, copy)
        (found,) = judge_archive(run, baseline=[base, base, link], beside=[other, copy])
        assert "2 runs against 1 run cannot be judged" in found.says
        assert found.notes == (
            f"{copy} counts once: it is the run of {run}",
            f"{base} counts once: it was given before",
            f"{link} counts once: it is the run of {base}",
        )
        done = said(judge_command, run, tmp_path / "mine" / ".." / "mine" / "1.5", copy, "--baseline", base)
        assert done.output.count("INCONCLUSIVE") == 1
        assert done.stderr.splitlines() == [
            f"note: {tmp_path}/mine/../mine/1.5 counts once: it is the run of {run}", f"note: {copy} counts once: it is the run of {run}",
        ]  # fmt: skip

    def test_no_run_is_its_own_baseline(self, tmp_path):
        base, mine = self.side(tmp_path, "base", 1.0, 1.01), self.side(tmp_path, "mine", 1.0)
        for beside, both in (([], mine[0]), ([base[1]], base[1])):
            with pytest.raises(UsageError) as caught:
                judge_archive(mine[0], baseline=[*base, mine[0]] if not beside else base, beside=beside)
            assert str(caught.value) == f"{both}: is on both sides of the comparison, and no run can be its own baseline"

    @pytest.mark.parametrize(
        ("name", "workloads", "was"),
        [("other", 2, "the scenario other (workloads aime, chat)"), ("mixed", 1, "the scenario mixed (workload aime)")],
        ids=["name", "workloads"],
    )
    def test_a_run_of_another_scenario_is_left_out_of_both_sides(self, tmp_path, name, workloads, was):
        base, (run, *more) = self.side(tmp_path, "base", 1.0, 1.01, 1.02), self.side(tmp_path, "mine", 1.0, 1.01, 1.02)
        for other in (base[0], more[0]):
            written = read_document(other)
            write_document(other, msgspec.structs.replace(written, name=name, workloads=written.workloads[:workloads]))
        (found,) = judge_archive(run, baseline=base, beside=more)
        assert "2 runs against 2 runs" in found.says
        says = f"was left out: it is of {was}, not of the scenario mixed (workloads aime, chat)"
        assert found.notes[-2:] == (f"{more[0]} {says}", f"{base[0]} {says}")

    def test_a_scenario_that_was_changed_since_is_said(self, tmp_path):
        base, (run,) = self.side(tmp_path, "base", 1.0, 1.01), self.side(tmp_path, "mine", 1.0)
        for other, changes in zip(base, ({"duration": "9s", "warmup": "1s"}, {"seed": 9, "duration": "9s"}), strict=True):
            written = read_document(other)
            write_document(other, msgspec.structs.replace(written, scenario=written.scenario | changes))
        (found,) = judge_archive(run, baseline=base)
        assert "1 run against 2 runs" in found.says
        assert found.notes == (
            f"{base[0]} had another load than this run: its `duration`, `warmup` differ",
            f"{base[1]} had another load than this run: its `duration` differs",
        )

    def test_runs_in(self, tmp_path):
        archived(tmp_path / "side" / "b", workers=1)
        archived(tmp_path / "side" / "a", workers=1)
        assert runs_in(tmp_path / "side" / "a") == [tmp_path / "side" / "a"]
        assert [path.name for path in runs_in(tmp_path / "side")] == ["a", "b"]
        with pytest.raises(UsageError) as caught:
            runs_in(tmp_path)
        assert str(caught.value) == f"{tmp_path}: is no run archive, and no folder of some; {tmp_path / 'side'} is one"
        assert passed_over(tmp_path / "side") == passed_over(tmp_path / "side" / "a") == []
        archived(tmp_path / "side" / "deeper" / "one", workers=1)
        assert passed_over(tmp_path / "side") == [f"{tmp_path / 'side' / 'deeper'} was passed over: it is a folder of 1 run"]
        ran = CliRunner().invoke(judge_command, [str(tmp_path / "side")], standalone_mode=False)
        assert ran.stderr.splitlines()[0] == f"note: {passed_over(tmp_path / 'side')[0]}"
        with pytest.raises(UsageError, match=r"is no run archive, and no folder of some$"):
            runs_in(tmp_path / "side" / "nowhere")

    def test_what_comes_of_a_side_goes_into_the_archive_and_the_exit_code(self, tmp_path):
        base, mine = self.side(tmp_path, "base", 1.0, 1.01), self.side(tmp_path, "mine", 1.5, 1.51)
        ran = Ran(Ended(3, None, read_document(mine[0])), mine[0])
        held = against(ran, base, mine)
        assert held.verdict.code == 1
        assert read_document(mine[0]).sla == held.verdict.document.sla
        assert [one.verdict for one in read_verdicts(held.verdict.document.sla)] == ["fail"]
        assert against(Ran(Ended(130, None, read_document(mine[0])), mine[0]), base, mine).verdict.code == 130
        assert against(ran, base, mine).verdict.code == 1
        archived(tmp_path / "free", [], workers=1)
        free = Ran(Ended(3, "it was late", read_document(tmp_path / "free")), tmp_path / "free")
        assert against(free, base, ()).verdict.code == 3, "without clauses nothing changes"
        nothing = Ran(Ended(2, "refused", None), None)
        assert against(nothing, base, mine) == nothing


@pytest.mark.parametrize(
    ("codes", "stands"), [([0, 0], 0), ([0, 3], 3), ([3, 1, 0], 1), ([1, 130], 130), ([130, 2, 1], 2), ([3, 3], 3)], ids=str
)
def test_the_exit_code_of_several_runs(codes, stands):
    assert worst(codes) == stands


# --- The command line ---


def said(command, *words):
    result = CliRunner().invoke(command, [*map(str, words)], standalone_mode=False)
    assert result.exception is None or isinstance(result.exception, UsageError | ArchiveError), result.output
    return result


class TestJudge:
    def test_with_the_clauses_given(self, tmp_path):
        archived(tmp_path / "run", ["p95(ttft) < 200ms"], well=True)
        done = said(judge_command, tmp_path / "run", "--sla", "p95(ttft) < 9s", "--sla", "p95(ttft) < 1ms")
        assert done.return_value == 1
        assert [line.partition(":")[0] for line in done.output.splitlines() if line.startswith("SLA")] == [
            "SLA PASS  p95(ttft) < 9s", "SLA FAIL  p95(ttft) < 1ms   [target=staging]", "SLA",
        ]  # fmt: skip
        assert done.output.splitlines()[-1] == "SLA: 1 of 2 clauses pass, 1 fail"
        assert said(judge_command, tmp_path / "run", "--sla", "p95(ttft) < 9s").return_value == 0

    def test_with_a_file_and_its_confidence(self, tmp_path):
        archived(tmp_path / "run", ["p95(ttft) < 200ms"], well=True)
        (tmp_path / "sla.toml").write_text('confidence = 0.9\nclauses = ["p95(ttft) < 9s"]\n')
        done = said(judge_command, tmp_path / "run", "--sla-file", tmp_path / "sla.toml", "--json")
        (found,) = json.loads(done.output)[str(tmp_path / "run")]
        assert (found["clause"], found["confidence"], found["verdict"]) == ("p95(ttft) < 9s", 0.9, "pass")

    def test_with_those_that_were_declared(self, tmp_path):
        archived(tmp_path / "run", ["p95(ttft) < 1ms", "p95(ttft) < 9s"], well=True)
        assert said(judge_command, tmp_path / "run").return_value == 1
        archived(tmp_path / "other", [])
        done = said(judge_command, tmp_path / "other")
        assert (done.return_value, "declared no clauses" in done.output) == (2, True)

    def test_a_wrong_clause_is_one_error_with_a_caret(self, tmp_path):
        archived(tmp_path / "run", [])
        done = said(judge_command, tmp_path / "run", "--sla", "p95(tfft) < 1s")
        assert str(done.exception) == "unknown metric `tfft`; did you mean `ttft`? (column 5)\n  p95(tfft) < 1s\n      ^"


@pytest.mark.parametrize(
    ("command", "words"),
    [(judge_command, ("influx://r1perf/one",)), (judge_command, (".", "--baseline", "influx://r1perf/one")),
     (recover_command, ("influx://r1perf/one",)), (influx_command, ("replay", "influx://r1perf/one")),
     (run_command, ("smoke", "--baseline", "influx://r1perf/one"))],
    ids=["judge", "baseline", "recover", "replay", "run"],
)  # fmt: skip
def test_a_database_is_no_recorded_run(command, words):
    why = "recorded runs are read from folders, since a database has no single requests; give the run's archive"
    assert str(said(command, *words).exception) == f"influx://r1perf/one: {why}"


def test_check_says_what_each_clause_needs(tmp_path):
    (tmp_path / "s.toml").write_text(
        'name = "s"\nduration = "20s"\n[target]\nurl = "http://h/v1"\nmodel = "m"\n[workload.chat]\nmax_tokens = 20\n'
        'dataset = { kind = "prompts", prompts = ["x"] }\n[arrivals]\nkind = "constant"\nrate = "10/s"\n'
        '[sla]\nclauses = ["p99(ttft) < 1s"]\n'
    )
    (tmp_path / "more.toml").write_text('confidence = 0.99\nclauses = ["p95(e2e) < 1m"]\n')
    done = said(check_command, tmp_path / "s.toml", "--sla", "p50(ttft) < 1s", "--sla-file", tmp_path / "more.toml")
    assert re.findall(r"^  p.*", done.output, re.MULTILINE) == [
        "  p99(ttft) < 1s: needs 459 requests if none misses, 3,429 if 0.5 % miss; the plan has 200 requests: too few, whatever happens",
        "  p50(ttft) < 1s: needs 7 requests if none misses, 42 if 25 % miss; the plan has 200 requests",
        "  p95(e2e) < 1m: needs 90 requests if none misses, 656 if 2.5 % miss; the plan has 200 requests",
    ]
    assert "SLA at 99 % confidence" in done.output
    assert "warning: a judged window of 20 s holds fewer than 15 batches" in done.output
    assert "SLA" not in said(check_command, "smoke").output
    gaps = said(check_command, tmp_path / "s.toml", "--sla", "p99(itl) < 1s", "--set", "interval=2s").output
    assert "needs 299 requests and 299 intervals of 2 s with gaps if none misses" in gaps
    assert "the plan has 200 requests and 10 intervals: too few, whatever happens" in gaps
    wrong = said(check_command, tmp_path / "s.toml", "--sla", "p95(ttft) < 1s during warmup")
    assert str(wrong.exception).startswith("stage `warmup` is not judged; allowed: constant (column 23)")


def test_check_refuses_what_a_run_does(tmp_path):
    """The answers of one workload are known, those of the other are not; before anything is loaded nobody knows which."""
    (tmp_path / "s.toml").write_text(
        'name = "s"\nrequests = 40\n[target]\nurl = "http://h/v1"\nmodel = "m"\n[workload.aime]\ndataset = { kind = "aime" }\n'
        '[workload.chat]\ndataset = { kind = "prompts", prompts = ["x"] }\n[arrivals]\nkind = "constant"\nrate = "10/s"\n'
    )
    done = said(check_command, tmp_path / "s.toml", "--sla", "accuracy{workload=chat} >= 0.7")
    assert str(done.exception).startswith("accuracy needs a workload whose dataset has answers and is graded (column 1)")
    assert done.output == "", "no plan is shown of what cannot be run"
    for fine in ("accuracy{workload=aime} >= 0.7", "accuracy >= 0.7"):
        assert f"{fine}: needs 9 graded answers" in said(check_command, tmp_path / "s.toml", "--sla", fine).output


@pytest.mark.parametrize(
    ("rulings", "says"),
    [
        (["pass"], "SLA: 1 of 1 clause passes"),
        (["pass", "fail", "inconclusive", "fail"], "SLA: 1 of 4 clauses pass, 2 fail, 1 inconclusive"),
        (["error", "error"], "SLA: 0 of 2 clauses pass, 2 not judged"),
    ],
)
def test_the_closing_line(tmp_path, rulings, says):
    one = archived(tmp_path / "run", ["p95(ttft) < 9s"], workers=1)["p95(ttft) < 9s"]
    assert summed([msgspec.structs.replace(one, verdict=ruling) for ruling in rulings]) == says


def test_clauses_of_the_command_line_go_into_the_scenario(tmp_path):
    from r1perf.cli.options import promised

    made = promised(SCENARIO, ("p95(ttft)<1s", "p95( ttft ) < 1s"), None, None)
    assert (made.sla.clauses, made.sla.confidence) == (("p95(ttft) < 1s",), 0.95)
    (tmp_path / "sla.toml").write_text('confidence = 0.9\nclauses = ["error_rate < 1%"]\n')
    both = promised(made, (), tmp_path / "sla.toml", None)
    assert (both.sla.clauses, both.sla.confidence) == (("p95(ttft) < 1s", "error_rate < 1%"), 0.9)
    assert promised(made, (), tmp_path / "sla.toml", 0.99).sla.confidence == 0.99
    assert parse(both.sla.clauses[0]) == parse("p95(ttft) < 1s")
