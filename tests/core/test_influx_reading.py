"""Runs come back from their points as they were: whole, in parts, in any order, with late data."""

from contextlib import nullcontext
from functools import cache
from itertools import pairwise

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from lineprotocol import FakeBucket, differences
from virtual_run import MS, Answer, S, a_run, play, traffic

from r1perf.cli.report import command
from r1perf.errors import DatabaseError, UsageError
from r1perf.histogram import HIGHEST, Counts
from r1perf.schedule import Stage
from r1perf.sinks.influxdb import points
from r1perf.sinks.influxdb.query import LAST_MS
from r1perf.sinks.influxdb.reading import NOT_ENDED, Part, read
from r1perf.sinks.influxdb.runs import find, runs
from r1perf.sinks.influxdb.story import Story
from r1perf.snapshot import Counter, Series
from r1perf.summary import Interval, Summary, document
from r1perf.summary.document import Covered
from r1perf.summary.listed import Listed
from r1perf.summary.rates import per_chunk
from r1perf.target import Price

WORKERS = ("0", "1", "2")
WHOLE = Part()


@cache
def snapshots():
    """Three workers' snapshots of one run, each with its own part of the traffic."""
    return tuple(tuple(play(traffic()[n::3], seconds=50, worker=worker)) for n, worker in enumerate(WORKERS))


def written(merged, *, group_ns=10 * S, run=None, status="finished", reason=None, sla=None, early=False):
    """Write intervals (each a list of snapshots) as the sink does; return the bucket and the archive's document."""
    run = run or a_run(workers=WORKERS)
    bucket, story, summary = FakeBucket(), Story(run, group_ns), Summary(run)
    bucket.write(story.begin())
    for together in merged:
        for snapshot in together:
            summary.merge(snapshot)
        bucket.write(story.interval(Interval.of(*together), 0))
    built = msgspec.structs.replace(document(summary, status, reason, sla), early=early)
    bucket.write(story.end(built, 0))
    return bucket, built


def in_order():
    return list(zip(*snapshots(), strict=True))


def test_a_whole_run_comes_back_as_its_archive_has_it():
    bucket, built = written(in_order())
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []


@cache
def few():
    """The first seconds of it, as single snapshots."""
    return [[snapshot] for mine in snapshots() for snapshot in mine[:14]]


@given(data=st.data())
@settings(max_examples=8)
def test_any_order_and_any_lateness_comes_back_the_same(data):
    order = data.draw(st.permutations(range(len(few()))))
    group = data.draw(st.sampled_from([1, 7, 10, 60]))
    bucket, built = written([few()[n] for n in order], group_ns=group * S)
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []


@given(begin=st.integers(0, 60), length=st.integers(1, 60))
@settings(max_examples=8)
def test_any_part_is_the_exact_merge_of_its_points(begin, length):
    bucket, built = written(in_order())
    found = find(bucket, built.run_id)
    first, last = -(-begin // 10) * 10, -(-(begin + length) // 10) * 10
    inside = [each for each in in_order() if first <= each[0].k < last]
    part = Part(begin * S, (begin + length) * S)
    if not inside:
        with pytest.raises(UsageError, match="no point of run"):
            read(bucket, found, part)
        return
    summary = Summary(a_run(workers=WORKERS), first * S)
    summary.per_chunk = per_chunk((c.name, c.workload, c.n) for all_ in in_order() for each in all_ for c in each.counters)
    for together in inside:
        for snapshot in together:
            summary.merge(snapshot)
    expected = document(summary)
    got = read(bucket, found, part)
    assert got.series == expected.series
    assert got.counters == expected.counters
    assert got.counts == expected.counts
    assert got.stages == expected.stages
    assert (got.throughput, got.cost, got.elapsed_s) == (expected.throughput, expected.cost, expected.elapsed_s)
    assert (got.validity, got.sla) == (built.validity, [])
    assert got.part == Covered(first, min(last, 50), 50)


def test_what_waited_for_a_place_in_flight_makes_a_stage_not_stationary_there_too():
    replace = msgspec.structs.replace
    queued = [
        [replace(one, health=replace(one.health, waiting=10 * max(one.k - 20, 0))) for one in together] for together in in_order()
    ]
    bucket, built = written(queued)
    assert [row.stationary for row in built.stages if row.plan.name == "steady"] == [False]
    assert read(bucket, find(bucket, built.run_id), WHOLE).stages == built.stages


LONG = (
    Stage(0, "steady", 0, 60 * S, judged=True, says="constant 0.2/s"),
    Stage(1, "drain", 60 * S, None, judged=False, says="drain"),
)


def long_answers(seconds):
    """Six requests, one every 5 s, of 500 tokens each, and from 100 ms after on, 10 chunks a second for 30 s."""
    answers = [Answer(workload="chat", at_ns=n * 5 * S, gap_ns=100 * MS, chunks=300) for n in range(6)]
    run = a_run(workloads=("chat",), stages=LONG, price=Price(gpu_hour=3.6))
    return written([[each] for each in play(answers, seconds=seconds, stages=LONG)], run=run)[0], run.run_id


@pytest.mark.parametrize(
    ("begin", "output", "input_"), [(0, 14.8, 100), (10, 34.8, 100), (20, 54.8, 100), (30, 45.2, 0), (40, 25.2, 0), (50, 5.2, 0)]
)
def test_tokens_of_a_part_are_those_that_came_in_it_however_long_answers_last(begin, output, input_):
    bucket, run_id = long_answers(60)
    got = read(bucket, find(bucket, run_id), Part(begin * S, (begin + 10) * S))
    rates = got.throughput
    assert (rates.output_tokens_per_s, rates.input_tokens_per_s) == (pytest.approx(output), pytest.approx(input_))
    assert rates.total_tokens_per_s == pytest.approx(output + input_)
    assert got.cost.usd_per_1m_output_tokens == pytest.approx(3.6 * 16 / 3600 / output * 1e6)
    assert got.stages[0].throughput == got.workloads[0].throughput == rates
    assert got.little is None


def test_tokens_of_a_run_that_goes_on_are_those_that_have_come():
    bucket, run_id = long_answers(60)
    for point in bucket.points("r1_run"):
        point.fields["status"] = "running"
    for key in [key for key, point in bucket.points_by_key.items() if point.time_ms >= a_run().started_ns // 10**6 + 40_000]:
        del bucket.points_by_key[key]
    rates = read(bucket, find(bucket, run_id), WHOLE).throughput
    assert (rates.seconds, rates.output_tokens_per_s) == (40, pytest.approx((148 + 348 + 548 + 452) / 40))


def test_what_is_not_streamed_came_when_it_ended():
    told = [Counter("window_output_tokens", "chat", 0, 70), Counter("output_tokens", "chat", 0, 70)]
    whole = play([], seconds=20, stages=LONG)
    whole[5] = msgspec.structs.replace(whole[5], counters=told)
    bucket, _ = written([[each] for each in whole], run=a_run(workloads=("chat",), stages=LONG))
    found = find(bucket, a_run().run_id)
    assert read(bucket, found, Part(None, 10 * S)).throughput.output_tokens_per_s == 7
    assert read(bucket, found, Part(10 * S)).throughput.output_tokens_per_s is None


@pytest.mark.parametrize("end", ["9999-12-31", "9999999h"])
def test_a_part_that_ends_behind_all_time_is_asked_for_up_to_what_servers_know(monkeypatch, end):
    bucket, built = written(in_order())
    asked, points_of = [], bucket.points
    monkeypatch.setattr(bucket, "points", lambda *given, **named: asked.append(given[2:]) or points_of(*given, **named))
    monkeypatch.setattr("r1perf.cli.report.opened", lambda name: nullcontext(bucket))
    words = [f"influx://b/{built.run_id}", "--from", "10s", "--to", end, "--json"]
    ran = CliRunner().invoke(command, words, standalone_mode=False)
    assert msgspec.json.decode(ran.stdout)["part"] == {"begin_s": 10, "end_s": 50, "run_s": 50}
    assert {given[1] for given in asked if given} == {LAST_MS}


@pytest.mark.parametrize("end", ["6s", "12s", "2026-01-02T03:04:06"])
def test_a_part_that_ends_before_it_begins_is_told_so(monkeypatch, end):
    bucket, built = written(in_order())
    monkeypatch.setattr("r1perf.cli.report.opened", lambda name: nullcontext(bucket))
    ran = CliRunner().invoke(command, [f"influx://b/{built.run_id}", "--from", "12s", "--to", end], standalone_mode=False)
    assert str(ran.exception) == f"--to {end} does not lie behind --from 12s"


def test_parts_add_up_to_the_whole():
    bucket, built = written(in_order())
    found = find(bucket, built.run_id)
    cuts = [None, 10 * S, 30 * S, None]
    pieces = [read(bucket, found, Part(begin, end)) for begin, end in pairwise(cuts)]
    for name, n in built.counters.items():
        assert sum(piece.counters.get(name, 0) for piece in pieces) == n, name


def test_writing_everything_again_changes_nothing():
    bucket, built = written(in_order())
    before = {key: dict(point.fields) for key, point in bucket.points_by_key.items()}
    again, _ = written(in_order())
    for key, point in again.points_by_key.items():
        bucket.points_by_key[key].fields |= point.fields
    assert {key: point.fields for key, point in bucket.points_by_key.items()} == before
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []


def test_histograms_that_were_cut_come_back_whole(monkeypatch):
    monkeypatch.setattr(points.encoded, "__defaults__", (120,))
    bucket, built = written(in_order())
    assert {row.tags["part"] for row in bucket.points("r1_interval")} > {"0"}
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []


def test_lost_requests_come_back_too():
    run = a_run(workers=WORKERS)
    bucket, story, summary = FakeBucket(), Story(run, 10 * S), Summary(run)
    for together in in_order()[:20]:
        for snapshot in together:
            summary.merge(snapshot)
        bucket.write(story.interval(Interval.of(*together), 0))
    lost = Interval(19)
    lost.lose(summary.losses("1"))
    assert summary.lose("1") > 0
    bucket.write(story.interval(lost, 0))
    built = document(summary, "failed", "worker 1 was lost")
    bucket.write(story.end(built, 0))
    read_back = read(bucket, find(bucket, run.run_id), WHOLE)
    assert read_back.counts["lost"] > 0
    assert differences(read_back, built) == []


def test_how_it_ended_comes_back():
    sla = [{"clause": "p95(ttft) < 1s", "verdict": "fail"}]
    bucket, built = written(in_order(), status="interrupted", reason='by "Ctrl-C"', sla=sla, early=True)
    read_back = read(bucket, find(bucket, built.run_id), WHOLE)
    assert differences(read_back, built) == []
    assert read_back.early is True
    assert (read_back.status, read_back.reason, read_back.sla) == ("interrupted", 'by "Ctrl-C"', sla)


def test_a_run_without_an_end_is_interrupted_and_invalid():
    run = a_run()
    bucket, story = FakeBucket(), Story(run, 10 * S)
    bucket.write(story.begin())
    for together in in_order()[:25]:
        bucket.write(story.interval(Interval.of(*together), 0))
    built = read(bucket, find(bucket, run.run_id), WHOLE)
    assert (built.status, built.reason, built.validity.valid, built.elapsed_s) == ("running", NOT_ENDED, False, 20)


SENDS = "points are missing; `r1perf influx replay --all RUN`, with the run's folder, sends them again"
SLA = [{"clause": "p95(ttft) < 1s", "verdict": "pass"}]
HOLES = {
    "the lines of a stage refused": (lambda point: point.tags.get("stage") == "steady" and "ttft_hdr" in point.fields, "ttft"),
    "a range deleted": (lambda point: 20 * S <= point.time_ms * 1_000_000 - a_run().started_ns < 30 * S, "requests"),
    "all but the run itself": (lambda point: point.measurement != "r1_run", "requests"),
}


def holed(lost, **how):
    """Write a run and lose points of it; return what is left, the archive's document, and what was lost."""
    bucket, built = written(in_order(), **how)
    gone = {key: point for key, point in bucket.points_by_key.items() if lost(point)}
    for key in gone:
        del bucket.points_by_key[key]
    return bucket, built, gone.values()


@pytest.mark.parametrize("part", [WHOLE, Part(30 * S, 40 * S)], ids=["the whole run", "a part without holes"])
@pytest.mark.parametrize(("lost", "figure"), HOLES.values(), ids=HOLES)
def test_a_run_with_holes_is_invalid_and_says_how_much_is_there(lost, figure, part):
    bucket, built, gone = holed(lost, sla=SLA)
    if figure == "requests":
        of, what, missing = built.counts["scheduled"], "requests", sum(point.fields.get("scheduled", 0) for point in gone)
    else:
        judged = [row for row in built.series if row.stage is None and row.workload is None]
        missing = {row.metric: sum(point.fields.get(f"{row.metric}_count", 0) for point in gone) for row in judged}
        row = max(judged, key=lambda row: missing[row.metric] / row.count)
        of, what, missing = row.count, f"values of {row.metric}", missing[row.metric]
    assert 0 < missing <= of
    found = find(bucket, built.run_id)
    if missing == of and not part.whole:
        with pytest.raises(UsageError, match="no point of run"):
            read(bucket, found, part)
        return
    got = read(bucket, found, part)
    hole = f"InfluxDB has {of - missing:,} of {of:,} {what}: {SENDS}"
    assert (got.validity.valid, got.validity.reasons[0], got.sla) == (False, hole, [])
    assert got.validity.reasons[1:] == built.validity.reasons


def test_points_that_the_run_did_not_write_make_it_invalid_too():
    bucket, built = written(in_order())
    before = built.counts["scheduled"]
    row = next(row for row in bucket.points("r1_counters") if row.fields.get("scheduled"))
    bucket.write(
        f"r1_counters,{','.join(f'{k}={v}' for k, v in (row.tags | {'part': '9'}).items())} scheduled=3i {row.time_ms}\n".encode()
    )
    validity = read(bucket, find(bucket, built.run_id), WHOLE).validity
    says = f"InfluxDB has {before + 3:,} of {before:,} requests: there are points that the run did not write"
    assert (validity.valid, validity.reasons[0]) == (False, says)


def test_a_run_of_nothing_can_be_read():
    bucket, built = written([])
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []


def test_an_unknown_run_is_one_sentence():
    with pytest.raises(UsageError, match="there is no run x in this bucket"):
        find(FakeBucket(), "x")


def test_a_long_scenario_comes_back():
    run = a_run(scenario={"prompts": ['"quoted"\n\\ and ü' * 20_000]}, labels={"a b": "c=d"})
    bucket, built = written([], run=run)
    assert read(bucket, find(bucket, built.run_id), WHOLE).run() == built.run()


def test_damage_is_one_sentence():
    bucket, built = written(in_order())
    found = find(bucket, built.run_id)
    row = bucket.points("r1_interval")[0]
    row.fields["ttft_count"] += 1
    with pytest.raises(DatabaseError, match=r"ttft of .* in InfluxDB holds .* values, and its count says otherwise"):
        read(bucket, found, WHOLE)
    row.fields["ttft_hdr"] = "HISTFAAA"
    with pytest.raises(DatabaseError, match=r"ttft of .* cannot be read from InfluxDB: the encoded histogram is damaged"):
        read(bucket, found, WHOLE)


def test_runs_are_listed_newest_first_with_what_came_of_them():
    bucket, built = written(in_order())
    later = a_run(run_id="later", started_ns=a_run().started_ns + S)
    bucket.write(Story(later, 10 * S).begin())
    going, ended = runs(bucket)
    assert (going.run_id, going.status, going.verdict, going.requests) == ("later", "running", None, None)
    assert ended == Listed(
        run_id=built.run_id, started_ns=built.started_ns, scenario="mixed", target="staging", model="deepseek-r1",
        status="finished", verdict="none" if built.validity.valid else "invalid", elapsed_s=50.0, requests=built.counts["scheduled"],
        failed=sum(built.counts.get(name, 0) for name in ("overloaded", "timeout")),
    )  # fmt: skip


def test_names_and_times_are_listed_as_they_were_not_as_tags_and_points_hold_them():
    run = a_run(target="tar get,=\\", started_ns=a_run().started_ns + 123_456)
    bucket = FakeBucket()
    bucket.write(Story(run, 10 * S).begin())
    assert [row.tags["target"] for row in bucket.points("r1_run")] == ["tar get,=/"]
    assert [(each.target, each.started_ns) for each in runs(bucket)] == [(run.target, run.started_ns)]


def test_stages_that_came_during_the_run_come_back():
    """As those of the web UI do."""
    run = a_run(workers=WORKERS)
    live = msgspec.structs.replace(run.stages[2], index=4, name="live-1", start_ns=20 * S, end_ns=None)
    bucket, story, summary = FakeBucket(), Story(run, 10 * S), Summary(run)
    bucket.write(story.begin())
    for together in in_order()[:30]:
        for n, snapshot in enumerate(together):
            if snapshot.k >= 20:
                series = [msgspec.structs.replace(each, stage=4) for each in snapshot.series]
                counters = [msgspec.structs.replace(each, stage=4) for each in snapshot.counters]
                together = (
                    *together[:n],
                    msgspec.structs.replace(snapshot, series=series, counters=counters),
                    *together[n + 1 :],
                )
        for snapshot in together:
            summary.merge(snapshot)
        bucket.write(story.interval(Interval.of(*together), 0))
    going = read(bucket, find(bucket, run.run_id), WHOLE)
    assert sum(row.count for row in going.series if row.metric == "itl" and row.stage is None) > 0
    summary.add_stage(live)
    built = document(summary)
    bucket.write(story.end(built, 0))
    assert {row.tags.get("stage") for row in bucket.points("r1_interval")} == {"warmup", "ramp", "steady", "live-1"}
    assert differences(read(bucket, find(bucket, run.run_id), WHOLE), built) == []


def test_what_one_worker_ends_earlier_than_another_and_values_out_of_range_come_back():
    first, second = (snapshots()[n][3] for n in (0, 1))
    wild = Counts.of([-5, 7, HIGHEST + 1])
    series = Series("ttft", "chat", 1, *wild.sparse(), wild.count, wild.total, wild.least, wild.most, wild.clamped)
    late = msgspec.structs.replace(first, ended=[(0, 9 * S)], series=[series])
    bucket, built = written(
        [
            [msgspec.structs.replace(second, ended=[(0, 2 * S)])],
            [late],
            [msgspec.structs.replace(snapshots()[2][4], ended=[(0, S)])],
        ]
    )
    assert sum(row.clamped for row in built.series if row.workload is None and row.stage == "ramp") == 2
    assert differences(read(bucket, find(bucket, built.run_id), WHOLE), built) == []
