"""The page's past of a run: what it draws is what the intervals say, at every width, and it stays small."""

import pytest
import unpatched  # noqa: F401
from played import mixed
from virtual_run import MS, S, a_run

from r1perf.histogram import Counts
from r1perf.snapshot import Health
from r1perf.summary import Interval, Summary, document
from r1perf.swarm.page.history import KEPT, OPEN, WIDTHS, History
from r1perf.swarm.page.point import CHARTED, RANKS

RUN, SNAPSHOTS = mixed()
INTERVALS = [Interval.of(snapshot) for snapshot in SNAPSHOTS]


def told(intervals, run=RUN) -> History:
    history = History(lambda: 7 * S)
    history.open(run)
    for interval in intervals:
        history.write(interval)
    return history


def percentiles_ms(intervals, metric, workload):
    parts = (
        counts for one in intervals for (name, w, _), counts in one.series.items() if name == metric and workload in (None, w)
    )
    return [None if value is None else value / 1000 for value in Counts.merged(parts).percentiles(RANKS)]


@pytest.mark.parametrize("workload", [None, "aime", "chat"])
@pytest.mark.parametrize("width", WIDTHS)
def test_percentiles_are_those_of_merged_counts(width, workload):
    points = told(INTERVALS).points(width, workload, 0)
    assert points.number == sorted({interval.k // width for interval in INTERVALS})
    for metric in CHARTED:
        for i, number in enumerate(points.number):
            mine = [interval for interval in INTERVALS if interval.k // width == number]
            drawn = [column[i] for column in points.percentiles.get(metric, [[None] * len(points.number)] * 3)]
            assert drawn == percentiles_ms(mine, metric, workload)


@pytest.mark.parametrize("width", WIDTHS)
def test_counters_add_up_to_the_document(width):
    summary = Summary(RUN)
    for snapshot in SNAPSHOTS:
        summary.merge(snapshot)
    built = document(summary)
    points = told(INTERVALS).points(width, None, 0)
    assert {name: sum(column) for name, column in points.outcomes.items()} == {
        name: n for name, n in built.counts.items() if n and name not in ("scheduled", "in_flight")
    }
    assert sum(points.counters["scheduled"]) == built.counts["scheduled"] > 150
    assert sum(points.counters["completed"]) == built.counters["completed"]
    assert sum(sum(column) for column in points.chunks.values()) == built.counters["chunks"]
    assert sum(points.length) == len(INTERVALS)


def test_one_workload_is_its_own_alone():
    whole, chat = (told(INTERVALS).points(1, workload, 0) for workload in (None, "chat"))
    assert 0 < sum(chat.counters["sent"]) < sum(whole.counters["sent"])
    assert chat.in_flight == whole.in_flight  # the chart of requests in flight has all workloads
    assert list(whole.in_flight) == ["aime", "chat"]


def test_in_flight_is_the_mean_of_the_flips():
    history = told(INTERVALS)
    levels = history.points(1, None, 0).in_flight["aime"]
    assert history.points(10, None, 0).in_flight["aime"][1] == pytest.approx(sum(levels[10:20]) / 10, abs=0.01)


def test_generator_is_the_busiest_worker():
    interval = Interval(0)
    interval.health = {
        "0": Health(1, 0, cpu_ns=300 * MS, wall_ns=S, loop_lag_max_ns=2 * MS, delay_max_ns=9 * MS, rss_bytes=0),
        "1": Health(1, 0, cpu_ns=500 * MS, wall_ns=S, loop_lag_max_ns=1 * MS, delay_max_ns=3 * MS, rss_bytes=0),
    }
    later = Interval(1)
    later.health = {"0": Health(0, 0, cpu_ns=1000 * MS, wall_ns=S, loop_lag_max_ns=0, delay_max_ns=0, rss_bytes=0)}
    history = told([interval, later])
    fine, wide = history.points(1, None, 0), history.points(10, None, 0)
    assert (fine.cpu, fine.lag_ms, fine.delay_ms) == ([0.5, 1.0], [2.0, 0.0], [9.0, 0.0])
    assert (wide.cpu, wide.lag_ms, wide.delay_ms) == ([0.65], [2.0], [9.0])  # worker 0: (0.3 + 1.0) / 2
    for k in range(2, 50):
        history.write(Interval(k))
    assert history.points(1, None, 0).cpu[:3] == [0.5, 1.0, None]  # long since frozen


def test_what_is_nothing_is_left_out():
    points = told([Interval(0)]).points(1, None, 0)
    assert (points.percentiles, points.counters, points.outcomes, points.in_flight, points.chunks) == ({}, {}, {}, {}, {})
    assert points.number == [0]


def test_only_changes_are_given():
    history = told(INTERVALS[:20])
    first = history.points(1, None, 0)
    history.write(INTERVALS[20])
    later = history.points(1, None, first.revision)
    assert (first.number[-1], later.number) == (19, [20])
    assert history.points(10, None, first.revision).number == [2]  # the wide point that it belongs to
    assert history.points(1, None, later.revision).number == []


def late(k):
    """Return data of interval k that came late: what interval 20 had, again."""
    again = Interval(k)
    again.series, again.counters = INTERVALS[20].series, INTERVALS[20].counters
    return again


def test_late_data_changes_its_point():
    history = told(INTERVALS)
    before = history.points(1, None, 0)
    history.write(late(35))
    changed = history.points(1, None, before.revision)
    assert changed.number == [35]
    assert changed.length == [1]
    assert [column[0] for column in changed.percentiles["itl"]] == percentiles_ms([INTERVALS[35], INTERVALS[20]], "itl", None)
    scheduled = sum(INTERVALS[20].counters.get(("scheduled", w, s), 0) for w in RUN.workloads for s in range(4))
    assert changed.counters["scheduled"][0] == before.counters["scheduled"][35] + scheduled


def test_data_later_than_that_is_counted_and_leaves_percentiles():
    history = told([*INTERVALS, *(Interval(k) for k in range(len(INTERVALS), 80))])
    k = 80 - OPEN[1] - 1
    before = history.points(1, None, 0)
    history.write(late(k))
    after = history.points(1, None, 0)
    assert k > 40  # of the played run's own nothing is there
    assert after.counters["scheduled"][k] > 0
    assert [column[k] for column in after.percentiles["itl"]] == [None, None, None]
    assert before.percentiles["itl"][0][:41] == after.percentiles["itl"][0][:41]


def test_it_stays_small_however_long_the_run_is():
    history = told(Interval(k) for k in range(12 * KEPT))
    for width in WIDTHS:
        points = history.points(width, None, 0)
        assert len(points.number) == min(-(-12 * KEPT // width), KEPT)
        assert points.number[-1] == (12 * KEPT - 1) // width
    assert history.points(1, None, 0).number[0] == 11 * KEPT
    history.write(Interval(3))  # nowhere to be drawn
    assert history.points(1, None, 0).number[0] == 11 * KEPT


def test_tokens_of_a_chunk_are_learnt():
    assert told(INTERVALS[:1]).tokens_per_chunk() in ({}, {"chat": 1.0})
    assert told(INTERVALS).tokens_per_chunk() == {"aime": 1.0, "chat": 1.0}


def test_tokens_without_chunks_are_told_apart():
    interval = Interval(0)
    interval.counters = {
        ("window_output_tokens", "chat", 1): 50,
        ("chunks", "aime", 1): 7,
        ("window_output_tokens", "aime", 1): 9,
    }
    points = told([interval]).points(1, None, 0)
    assert (points.tokens, points.chunks) == ({"chat": [50]}, {"aime": [7]})


def test_notes_have_their_time_and_an_end():
    history = told([])
    for n in range(150):
        history.note(f"note {n}")
    assert len(history.notes) == 100
    assert (history.notes[-1].text, history.notes[-1].wall_ns) == ("note 149", 7 * S)


def test_another_run_forgets_the_last():
    history = told(INTERVALS)
    history.begin()
    assert (history.run, history.document, history.notes) == (None, None, [])
    history.open(a_run(workloads=("chat",)))
    points = history.points(1, None, 0)
    assert (points.number, points.revision, history.tokens_per_chunk()) == ([], 0, {})
