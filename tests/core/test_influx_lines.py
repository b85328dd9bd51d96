"""What is written to InfluxDB: line protocol, groups and their parts, and the points themselves against a golden file."""

import random
import re
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lineprotocol import parse
from virtual_run import S, a_run, play, traffic

from r1perf.histogram import Counts
from r1perf.sinks.influxdb.gather import Gatherer
from r1perf.sinks.influxdb.line import TEXT_LIMIT, joined, line, texts
from r1perf.sinks.influxdb.points import encoded
from r1perf.sinks.influxdb.story import Story
from r1perf.snapshot import Health
from r1perf.summary import Interval, Summary, document

GOLDEN = Path(__file__).parents[1] / "golden" / "influxdb.lp"


def told(snapshots, *, group_ns=10 * S, order=lambda intervals: intervals, run=None):
    """Tell a run as the sink does; return its lines."""
    run = run or a_run()
    story, summary = Story(run, group_ns), Summary(run)
    lines = [story.begin()]
    for snapshot in snapshots:
        summary.merge(snapshot)
    lines += [story.interval(interval, 0) for interval in order([Interval.of(snapshot) for snapshot in snapshots])]
    lines.append(story.end(document(summary), 0))
    return b"".join(lines).decode()


def stages_told(ended, counters=(), *, upto=60):
    """Return the stages of which a run tells that they began, and when (s): `ended` is what its snapshots say of each second."""
    story, run, lines = Story(a_run(), 10 * S), a_run(), []
    for k in range(upto):
        interval = Interval(k)
        interval.ended |= {stage: at * S for stage, at in ended.items() if at == k}
        interval.counters |= {("chunks", "chat", stage): 1 for second, stage in counters if second == k}
        lines.append(story.interval(interval, 0).decode())
    events = re.findall(r'title="stage",text="(\w+): [^"]*" (\d+)', "".join(lines))
    return [(name, (int(time_ms) * 1_000_000 - run.started_ns) // S) for name, time_ms in events]


STAGES_TOLD = {
    "as planned": ({0: 5, 1: 15, 2: 40}, [], [("warmup", 0), ("ramp", 5), ("steady", 15), ("drain", 40)]),
    "halted in the second, which leaves the third out": (
        {0: 5, 1: 8, 2: 8}, [(9, 3)], [("warmup", 0), ("ramp", 5), ("drain", 8)],
    ),
    "left for a rate of the web UI, which runs on": ({0: 5, 1: 8, 2: 8}, [(9, 4)], [("warmup", 0), ("ramp", 5)]),
    "left for such a rate, and halted": (
        {0: 5, 1: 8, 2: 8, 4: 30}, [(9, 4), (31, 3)], [("warmup", 0), ("ramp", 5), ("drain", 30)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAGES_TOLD)
def test_a_stage_is_told_where_it_really_began(name):
    ended, counters, expected = STAGES_TOLD[name]
    assert stages_told(ended, counters) == expected


# --- Line protocol ---

LINES = {
    "plain": ("m", {"t": "v"}, {"f": 1}, "m,t=v f=1i 5\n"),
    "no tags": ("m", {}, {"f": 1.5}, "m f=1.5 5\n"),
    "tags are sorted": ("m", {"b": "1", "a": "2"}, {"f": 1}, "m,a=2,b=1 f=1i 5\n"),
    "an empty tag is left out": ("m", {"a": "", "b": "1"}, {"f": 1}, "m,b=1 f=1i 5\n"),
    "tag escapes": ("m", {"t": "a, b=c"}, {"f": 1}, "m,t=a\\,\\ b\\=c f=1i 5\n"),
    "no line end in a tag": ("m", {"t": "a\nb\rc"}, {"f": 1}, "m,t=a\\ b\\ c f=1i 5\n"),
    "no backslash in a tag": ("m", {"t": "a\\"}, {"f": 1}, "m,t=a/ f=1i 5\n"),
    "field key escapes": ("m", {}, {"outcome.ok": 1, "a b": 2}, "m outcome.ok=1i,a\\ b=2i 5\n"),
    "text escapes": ("m", {}, {"f": 'say "a\\b"'}, 'm f="say \\"a\\\\b\\"" 5\n'),
    "a line end in a text stays": ("m", {}, {"f": "a\nb"}, 'm f="a\nb" 5\n'),
    "booleans": ("m", {}, {"f": True, "g": False}, "m f=true,g=false 5\n"),
    "a whole float stays a float": ("m", {}, {"f": 2.0}, "m f=2.0 5\n"),
    "no numbers are left out": ("m", {}, {"f": float("nan"), "g": float("inf"), "h": 1}, "m h=1i 5\n"),
    "a point without fields is none": ("m", {"t": "v"}, {"f": float("nan")}, ""),
    "negative": ("m", {}, {"f": -3}, "m f=-3i 5\n"),
}


@pytest.mark.parametrize(("measurement", "tags", "fields", "written"), LINES.values(), ids=LINES.keys())
def test_a_line_is_what_the_protocol_says(measurement, tags, fields, written):
    assert line(measurement, tags, fields, 5) == written


@given(text=st.text(max_size=50), times=st.integers(1, 3000))
def test_a_long_text_comes_back_from_its_fields(text, times):
    cut = dict(texts("run", text * times))
    assert all(len(part.encode()) <= TEXT_LIMIT for part in cut.values())
    assert joined("run", {"other": 1, "run_x": "no", **cut}) == text * times
    assert joined("missing", cut) is None


# --- Groups ---


@given(
    arrivals=st.lists(st.integers(0, 60), min_size=1, max_size=80),
    group=st.integers(1, 12),
)
def test_groups_add_up_whatever_the_order(arrivals, group):
    gatherer, total, seen = Gatherer(S, group * S), 0, set()
    done = []
    for k in arrivals:
        interval = Interval(k)
        interval.counters["sent", "w", 0] = 1
        interval.in_flight["w"] = 1
        interval.health["0"] = Health(0, 0, 0, S, 0, 0, 0)
        done += gatherer.add(interval)
    done += gatherer.rest()
    for each in done:
        assert (each.number, each.part) not in seen, "no two groups share a point"
        seen.add((each.number, each.part))
        assert all(k // group == each.number for k in each.health)
        total += each.counters["sent", "w", 0]
        assert sum(each.levels["w"].values()) == each.counters["sent", "w", 0]
    assert total == len(arrivals)
    assert gatherer.rest() == []


def test_a_group_is_done_when_a_later_one_begins_and_late_data_is_its_next_part():
    gatherer = Gatherer(S, 10 * S)
    assert [gatherer.add(Interval(k)) for k in range(10)] == [[]] * 10
    assert [(group.number, group.part) for group in gatherer.add(Interval(10))] == [(0, 0)]
    assert gatherer.add(Interval(3)) == []
    assert [(group.number, group.part) for group in gatherer.add(Interval(20))] == [(0, 1), (1, 0)]
    assert gatherer.reserve(0) == 2


# --- Points ---


def test_golden_lines():
    """The form of what is written: a change here is a change of the schema, and belongs into docs/influxdb.md."""
    assert told(play(traffic()[35:45], seconds=50)) == GOLDEN.read_text()


def test_points_of_a_metric_hold_its_exact_figures_and_its_histogram():
    snapshots = play(traffic(), seconds=50)
    summary = Summary(a_run())
    for snapshot in snapshots[20:30]:
        summary.merge(snapshot)
    counts = summary.counts("ttft", "chat", 2)
    (fields,) = [
        point.fields
        for point in parse(told(snapshots))
        if point.measurement == "r1_interval"
        and (point.tags["workload"], point.tags["stage"], point.time_ms) == ("chat", "steady", 1_767_323_065_000)
    ]
    assert (fields["ttft_count"], fields["ttft_sum_us"], fields["ttft_min_us"], fields["ttft_max_us"]) == (
        counts.count, counts.total, counts.least, counts.most,
    )  # fmt: skip
    names = ("p50", "p75", "p90", "p95", "p99", "p999")
    assert [fields[f"ttft_{name}_ms"] for name in names] == [
        us / 1000 for us in counts.percentiles(("50", "75", "90", "95", "99", "99.9"))
    ]
    assert Counts.decode(fields["ttft_hdr"]).buckets == counts.buckets
    tokens = summary.counts("output_tokens", "chat", 2)
    assert (fields["output_tokens_sum"], fields["output_tokens_max"]) == (tokens.total, tokens.most)
    assert "thinking_count" not in fields


def covered(snapshots, group_ns):
    points = parse(told(snapshots, group_ns=group_ns))
    return {
        point.time_ms - a_run().started_ns // 10**6: point.fields["covered_ns"]
        for point in points
        if "covered_ns" in point.fields
    }


def test_a_point_says_how_much_of_the_run_it_covers():
    snapshots = play(traffic()[:20], seconds=12)
    assert covered(snapshots, 10 * S) == {0: 10 * S, 10_000: 2 * S}
    halves = covered(snapshots, 5 * S // 2)  # intervals of 1 s do not divide it: those that begin in it count
    assert halves == {0: 3 * S, 2_500: 2 * S, 5_000: 3 * S, 7_500: 2 * S, 10_000: 2 * S}
    late = snapshots[3]
    assert covered([*snapshots, msgspec.structs.replace(late, worker="1")], 10 * S) == {0: 10 * S, 10_000: 2 * S}


def test_a_histogram_that_is_too_large_for_a_field_is_cut_and_adds_up():
    source = random.Random(1)
    counts = Counts.of([int(source.lognormvariate(10, 2)) for _ in range(3000)])
    cut = encoded(counts, 1000)
    assert len(cut) > 2
    assert all(len(payload) < 1000 for _, payload in cut)
    assert [Counts.decode(payload).count for _, payload in cut] == [n for n, _ in cut]
    assert Counts.merged(Counts.decode(payload) for _, payload in cut).buckets == counts.buckets


def test_a_run_adds_few_series_and_no_tag_names_a_request_a_url_or_a_worker():
    points = parse(told(play(traffic(), seconds=50)))
    series = {(point.measurement, *sorted(point.tags.items())) for point in points}
    places = 2 * 4  # workloads, and stages with warmup and drain
    assert len(series) <= 2 * places + 2 + 1 + 3 + 3  # of counters also each workload and the run; three of runs; three of events
    assert {key for point in points for key in point.tags} == {
        "run_id", "scenario", "target", "model", "workload", "stage", "part", "kind",
    }  # fmt: skip
    assert not any(re.search(r"://", value) for point in points for value in point.tags.values())


def test_no_tag_and_field_of_a_measurement_share_a_name():
    """InfluxDB 3 refuses it."""
    points = parse(told(play(traffic(), seconds=50)))
    for measurement in ("r1_interval", "r1_counters", "r1_run", "events"):
        mine = [point for point in points if point.measurement == measurement]
        assert not {key for point in mine for key in point.tags} & {key for point in mine for key in point.fields}


def test_fields_keep_their_type_over_the_whole_run():
    """A field whose type changes is refused from then on."""
    kinds = {}
    for point in parse(told(play(traffic(), seconds=50))):
        for key, value in point.fields.items():
            assert kinds.setdefault((point.measurement, key), type(value)) is type(value), key


def test_events_are_stages_notes_and_the_end_each_at_a_time_of_its_own():
    run = a_run()
    story = Story(run, 10 * S)
    lines = story.note("a", 7) + story.note("b", 7) + story.note("c", 3)
    lines += b"".join(story.interval(Interval(k), 0) for k in (3, 4, 5))
    lines += story.end(document(Summary(run), "failed", "disk full"), 0)
    events = [
        (point.tags["kind"], point.time_ms, point.fields["text"])
        for point in parse(lines.decode())
        if point.measurement == "events"
    ]
    t0 = 1_767_323_045_000
    assert events == [
        ("note", 7, "a"), ("note", 8, "b"), ("note", 9, "c"), ("stage", t0, "warmup: poisson 2/s"),
        ("stage", t0 + 5000, "ramp: ramp 2/s to 6/s"), ("end", t0, "disk full"),
    ]  # fmt: skip


def test_a_stage_after_one_without_a_known_end_begins_when_that_has_ended():
    first, second = a_run().stages[1:3]
    stages = (
        msgspec.structs.replace(first, index=0, start_ns=0, end_ns=None),
        msgspec.structs.replace(second, index=1, start_ns=0, end_ns=None, follows=0),
    )
    story = Story(a_run(stages=stages), 10 * S)
    late = Interval(8)
    late.ended[0] = 8 * S + 5
    assert b"steady" not in story.interval(Interval(7), 0)
    (event,) = parse(story.interval(late, 0).decode())
    assert (event.fields["text"], event.time_ms) == ("steady: poisson 6/s", 1_767_323_053_000)
