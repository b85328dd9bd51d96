"""Every query of the dashboards returns, from real servers after real runs, what the runs' own archives say."""

import os
import urllib.parse
import urllib.request
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import pytest
import runs
from grafana_reads import ALL, Rows, Value, ask, dashboard, filled, queries
from influx import BUILT, InfluxDb
from runs import Ran
from services import missing

from r1perf import clock
from r1perf.histogram import index
from r1perf.result import FAILED
from r1perf.sinks.influxdb.coarse import LIMITS_MS, name
from r1perf.sinks.influxdb.line import line
from r1perf.sinks.influxdb.points import Points
from r1perf.summary import read_document

BOARDS = ("overview", "comparison")
EVERY = [pytest.param(query, id=f"{board}-{title}") for board in BOARDS for title, query in queries(dashboard(board))]
STEP_S = 10
NOW = "p95 TTFT, now"

SCENARIO = """
name = "two-kinds"
seed = %d
warmup = "1s"
[target]
url = "simulate:tiny?speed=4&fault=server_error=0.2&seed=3"
[workload.aime]
weight = 3
dataset = { kind = "aime" }
max_tokens = 400
[workload.chat]
weight = 7
dataset = { kind = "chat", turns = 1 }
max_tokens = 100
[arrivals]
kind = "stages"
stages = [
  { name = "ramp", kind = "ramp", start = "4/s", end = "8/s", duration = "2s" },
  { name = "steady", kind = "poisson", rate = "8/s", duration = "4s" },
]
[sinks.influxdb]
interval = "2s"
"""


class Recorded:
    """Two runs in a bucket of one server."""

    def __init__(self, server: InfluxDb, bucket: str, ran: list[Ran]) -> None:
        self.server, self.bucket, self.ran = server, bucket, ran
        self.documents = [one.document for one in ran]
        self.ids = [document["run_id"] for document in self.documents]
        began_ns = min(document["started_ns"] for document in self.documents)
        self.start, self.stop = (f"{clock.utc(began_ns + s * 10**9):%Y-%m-%dT%H:%M:%SZ}" for s in (-60, 600))

    def ask(self, query: str, **variables: Value) -> Rows:
        """Ask as Grafana would: the first run, or both; all workloads, or chat where a query wants one."""
        one = "chat" if "${workload}" in query else ALL
        given = {
            "scenario": ALL,
            "run": self.ids[0],
            "runs": self.ids,
            "workload": one,
            "step": f"{STEP_S}s",
            "percentile": "p95",
        }
        return ask(self.server, filled(query, given | variables, self.bucket, self.start, self.stop))

    def panel(self, board: str, title: str, **variables: Value) -> Rows:
        """Ask what a panel asks."""
        (query,) = [query for each, query in queries(dashboard(board)) if each == title]
        return self.ask(query, **variables)


@pytest.fixture(scope="module")
def all_recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Recorded]]:
    """Run twice on each server that there is; all runs at once, for they take most of the time."""
    folder = tmp_path_factory.mktemp("dashboards")
    there = [major for major, program in BUILT.items() if program.exists() or f"R1PERF_INFLUXDB{major}_URL" in os.environ]
    servers = {major: InfluxDb(major, folder / f"influxdb-{major}") for major in there}
    buckets = {major: server.bucket() for major, server in servers.items()}
    begun = {major: [] for major in servers}
    for major, server in servers.items():
        for seed in (1, 2):
            scenario, where = folder / f"{major}-{seed}.toml", folder / f"runs-{major}-{seed}"
            scenario.write_text(SCENARIO % seed)
            begun[major].append((runs.start(where, scenario, env=server.environ(buckets[major])), where))
    ran = {major: [Ran(process, where, 90) for process, where in both] for major, both in begun.items()}
    yield {major: Recorded(server, buckets[major], ran[major]) for major, server in servers.items()}
    for server in servers.values():
        server.stop()


@pytest.fixture(params=[2, 1], ids=["influxdb-2", "influxdb-1.8"])
def recorded(request, all_recorded):
    if request.param not in all_recorded:
        missing("influxd")
    return all_recorded[request.param]


def test_the_runs_are_complete(recorded):
    for ran in recorded.ran:
        runs.ended(ran)
        assert "InfluxDB" not in ran.stderr


@pytest.mark.parametrize("query", EVERY)
def test_every_query_returns_rows(recorded, query):
    if query == dict(queries(dashboard("overview")))[NOW]:
        recorded.ask(query)  # none where the last interval had no first chunk
    else:
        assert recorded.ask(query)


@pytest.mark.parametrize("workload", [("aime",), ("aime", "chat")], ids=["one", "both"])
@pytest.mark.parametrize("title", ["Requests/s", "Outcomes", "TTFT", "ITL heatmap", "In flight"])
def test_workloads_can_be_chosen(recorded, title, workload):
    assert recorded.panel("overview", title, workload=workload)


def test_runs_and_scenarios_are_listed(recorded):
    assert recorded.panel("overview", "variable scenario") == [{"_value": "two-kinds"}]
    newest_first = sorted(recorded.documents, key=lambda document: -document["started_ns"])
    assert [row["_value"] for row in recorded.panel("overview", "variable run")] == [each["run_id"] for each in newest_first]
    assert recorded.panel("overview", "variable run", scenario=["another"]) == []
    assert [row["_value"] for row in recorded.panel("overview", "variable workload")] == ["aime", "chat"]


def series(document: dict, **wanted: str | None) -> list[dict]:
    """Return the rows of run.json that have exactly these values."""
    return [row for row in document["series"] if all(row.get(key) == value for key, value in wanted.items())]


def test_tables_show_each_runs_own_percentiles(recorded):
    rows = {row["run"]: row for row in recorded.panel("overview", "Targets: the runs in this range")}
    assert sorted(rows) == sorted(recorded.ids)
    for document in recorded.documents:
        row = rows[document["run_id"]]
        assert row["target"] == document["target"]
        assert row["status"] == "finished"
        assert int(row["requests"]) == document["counts"]["scheduled"]
        assert float(row["requests/s"]) == pytest.approx(document["throughput"]["requests_per_s"])
        for metric, shown, rank in (("ttft", "TTFT p95", "p95"), ("ttft", "TTFT p99", "p99"), ("itl", "ITL p99", "p99")):
            (own,) = series(document, metric=metric, workload=None, stage=None)
            assert float(row[shown]) == own[rank], shown


def test_the_table_of_workloads_shows_their_own(recorded):
    for row in recorded.panel("overview", "Workloads of this run"):
        (own,) = series(recorded.documents[0], metric="e2e", workload=row["workload"], stage=None)
        assert float(row["E2E p95"]) == own["p95"]


@pytest.mark.parametrize("metric", ["TTFT", "ITL"])
def test_a_heatmap_holds_every_value_once(recorded, metric):
    rows = recorded.panel("overview", f"{metric} heatmap")
    cells = Counter({cell: sum(int(row[cell]) for row in rows) for cell in rows[0] if cell != "_time"})
    stages = [row for row in series(recorded.documents[0], metric=metric.lower()) if "workload" in row and "stage" in row]
    assert sum(cells.values()) == sum(row["count"] for row in stages)
    assert min(cells.values()) >= 0
    assert len(cells) == len(LIMITS_MS[metric.lower()]) + 1


def test_a_heatmaps_cells_are_those_of_the_requests(recorded):
    limits = LIMITS_MS["ttft"]
    expected = Counter()
    for result in recorded.ran[0].results:
        if result.first_ns is not None:
            at = index((result.first_ns - result.scheduled_ns) // 1000)
            cell = bisect_left([index(limit * 1000) for limit in limits], at)
            expected[str(limits[cell]) if cell < len(limits) else "+Inf"] += 1
    rows = recorded.panel("overview", "TTFT heatmap")
    assert (
        Counter({cell: n for cell in rows[0] if cell != "_time" for n in [sum(int(row[cell]) for row in rows)] if n}) == expected
    )


def test_rates_add_up_to_the_counts(recorded):
    document = recorded.documents[0]
    rows = recorded.panel("overview", "Requests/s", step="1000000h")
    whole = {row["name"]: float(row["_value"]) * document["elapsed_s"] for row in rows}
    assert len(rows) == 3
    assert whole["scheduled"] == pytest.approx(document["counts"]["scheduled"], rel=1e-3)
    assert whole["completed"] == pytest.approx(document["counters"]["completed"], rel=1e-3)


@pytest.fixture(params=[10, 7], ids=["10 s", "7 s"])
def steady(request, recorded):
    """Give two runs of 18 requests/s, written as intervals of so many seconds; the last one is half as long."""
    every, text = request.param, ""
    for document in recorded.documents:
        began_ms = document["started_ns"] // 1_000_000
        place = {"run_id": document["run_id"], "scenario": "two-kinds", "target": "t", "model": "m", "part": "0"}
        text += line("r1_run", {key: place[key] for key in ("run_id", "scenario")}, {"status": "finished"}, began_ms)
        for n in range(40):
            covered_ns, at_ms = (every if n < 39 else every / 2) * 10**9, began_ms + n * every * 1000
            done = int(18 * covered_ns / 10**9)
            text += line("r1_counters", place, {"covered_ns": int(covered_ns)}, at_ms)
            for workload, stage, part in ((0, 0, 2), (0, 1, 3), (1, 1, 4)):  # ninths
                here = place | {"workload": ("chat", "aime")[workload], "stage": f"s{stage}"}
                text += line("r1_counters", here, {"completed": done * part // 9}, at_ms)
    bucket = recorded.server.bucket()
    write(recorded.server, bucket, text)
    return Recorded(recorded.server, bucket, recorded.ran)


def rates(rows: Rows, name: str = "completed") -> list[float]:
    """Return the values of one series."""
    return [float(row["_value"]) for row in rows if row["name"] == name]


@pytest.mark.parametrize("step", ["10s", "30s", "1m", "5m"])
def test_a_steady_rate_is_drawn_as_it_is_whatever_the_step(steady, step):
    drawn = rates(steady.panel("overview", "Requests/s", step=step))
    assert drawn == pytest.approx([18.0] * len(drawn), rel=0.02)  # counts are whole
    assert len(drawn) > 1
    now = rates(steady.panel("overview", "Requests/s, now", step=step))
    assert now == pytest.approx([18.0] * 40, rel=0.02)
    rows = steady.panel("comparison", "Requests/s of ${workload}", step=step)
    laid = [float(row[run]) for row in rows for run in steady.ids if run in row]
    assert laid == pytest.approx([10.0] * len(laid), rel=0.05)
    assert len(laid) > 1


POINTS = 6
STREAMED = {  # by counter: what was counted in each point of `chat`; its answers outlast a point, and are stalled for two
    "completed": (1, 0, 0, 0, 0, 2),
    "chunks": (100, 200, 300, 0, 0, 100),
    "first_chunks": (2, 2, 0, 0, 0, 0),
    "counted_chunks": (100, 0, 0, 0, 0, 500),
    "window_output_tokens": (200, 0, 0, 0, 0, 1000),
    "counted_first_chunks": (1, 0, 0, 0, 0, 2),
    "window_input_tokens": (40, 0, 0, 0, 0, 50),
}
WHOLE = {"window_output_tokens": (0, 0, 80, 0, 0, 0)}  # of `aime`, which is not streamed


def stalled(recorded: Recorded, *, told: bool = True, ttft_at: int = 0) -> Recorded:
    """Give two runs of six points of 10 s each; of what is 0 no field is written. Where nothing is told, no request has ended."""
    text = ""
    for document in recorded.documents:
        began_ms = document["started_ns"] // 1_000_000 - POINTS * 10_000 + 1  # what lies ahead of now is not there yet
        place = {"run_id": document["run_id"], "scenario": "two-kinds", "target": "t", "model": "m", "part": "0"}
        text += line("r1_run", {key: place[key] for key in ("run_id", "scenario")}, {"status": "running"}, began_ms)
        for n in range(POINTS):
            at_ms = began_ms + n * 10_000
            text += line("r1_counters", place, {"covered_ns": 10**10}, at_ms)
            for workload, counters in (("chat", STREAMED), ("aime", WHOLE)):
                fields = {name: counts[n] for name, counts in counters.items() if counts[n] and (told or "chunks" in name[:12])}
                if fields:
                    text += line("r1_counters", place | {"workload": workload, "stage": "steady"}, fields, at_ms)
        values = {"ttft_count": 3, "ttft_p95_ms": 70.5}
        text += line("r1_interval", place | {"workload": "chat", "stage": "steady"}, values, began_ms + ttft_at * 10_000)
    bucket = recorded.server.bucket()
    write(recorded.server, bucket, text)
    return Recorded(recorded.server, bucket, recorded.ran)


@pytest.mark.parametrize("title", ["Requests/s", "Requests/s, now"])
def test_what_does_not_happen_is_drawn_as_0(recorded, title):
    """Left out, the last good rate would stay "now", and a line be drawn over the stall."""
    assert rates(stalled(recorded).panel("overview", title)) == [0.1, 0, 0, 0, 0, 0.2]


@pytest.mark.parametrize(
    ("title", "name", "workload", "drawn"),
    [
        ("Tokens/s", "output", ALL, [20, 40, 68, 0, 0, 20]),
        ("Output tokens/s, now", "output tokens", ALL, [20, 40, 68, 0, 0, 20]),
        ("Tokens/s", "output", ("chat",), [20, 40, 60, 0, 0, 20]),
        ("Tokens/s", "output", ("aime",), [0, 0, 8, 0, 0, 0]),
        ("Tokens/s", "input", ALL, [6, 6, 0, 0, 0, 0]),
    ],
)
def test_tokens_are_drawn_when_they_come_however_long_answers_last(recorded, title, name, workload, drawn):
    assert rates(stalled(recorded).panel("overview", title, workload=workload), name) == pytest.approx(drawn)


@pytest.mark.parametrize(
    ("title", "step", "drawn"),
    [
        ("Output tokens/s of ${workload}", "10s", [20, 40, 60, 0, 0, 20]),
        ("Output tokens/s of ${workload}", "30s", [40, 20 / 3]),
        ("Requests/s of ${workload}", "10s", [0.1, 0, 0, 0, 0, 0.2]),
    ],
)
def test_runs_are_laid_over_one_another_with_their_stalls(recorded, title, step, drawn):
    rows = stalled(recorded).panel("comparison", title, step=step)
    for run in recorded.ids:
        assert [float(row[run]) for row in rows] == pytest.approx(drawn)


@pytest.mark.parametrize(
    ("board", "title"),
    [("overview", "Tokens/s"), ("overview", "Output tokens/s, now"), ("comparison", "Output tokens/s of ${workload}")],
)
def test_tokens_that_nobody_told_are_absent_and_not_0(recorded, board, title):
    assert stalled(recorded, told=False).panel(board, title) == []


def test_a_percentile_of_now_is_that_of_the_last_interval_alone(recorded):
    assert stalled(recorded, ttft_at=0).panel("overview", NOW) == []
    (row,) = stalled(recorded, ttft_at=POINTS - 1).panel("overview", NOW)
    assert (row["name"], float(row["_value"])) == ("chat", 70.5)


def test_outcomes_are_those_of_the_archive(recorded):
    document = recorded.documents[0]
    ended = {outcome: n for outcome, n in document["counts"].items() if n and outcome not in ("scheduled", "in_flight")}
    assert set(ended) >= {"ok", "server_error"}
    drawn = Counter()
    for row in recorded.panel("overview", "Outcomes"):
        drawn[row["outcome"]] += int(row["_value"])
    assert drawn == ended
    rows = recorded.panel("overview", "Outcomes and reasons so far")
    for workload in document["workloads"]:
        counted = {
            row["what"].removeprefix("outcome."): int(row["requests"]) for row in rows if row["workload"] == workload["name"]
        }
        assert counted["ok"] == workload["counts"]["ok"]
    failed = sum(n for outcome, n in ended.items() if outcome in FAILED)
    (share,) = recorded.panel("overview", "Errors so far")
    assert float(share["_value"]) == pytest.approx(failed / sum(ended.values()))


def test_percentiles_in_time_are_those_of_single_intervals(recorded):
    rows = recorded.panel("overview", "TTFT")
    assert {row["name"] for row in rows} == {
        f"{workload} {rank}" for workload in ("aime", "chat") for rank in ("p50", "p90", "p95", "p99")
    }
    assert max(Counter((row["name"], row["_time"]) for row in rows).values()) == 1
    written = raw(recorded, "r1_interval", "ttft_p95_ms")
    drawn = [float(row["_value"]) for row in rows if row["name"].endswith("p95")]
    assert drawn
    assert set(drawn) <= set(written)


def raw(recorded: Recorded, measurement: str, field: str) -> list[float]:
    """Read a field of the first run by InfluxQL, which the dashboards do not use."""
    database, _, policy = recorded.bucket.partition("/")
    where = {"db": database} | ({"rp": policy} if policy else {})
    answer = recorded.server.influxql(f"SELECT {field} FROM {measurement} WHERE run_id = '{recorded.ids[0]}'", **where)
    return [value for one in answer["results"][0]["series"] for _, value in one["values"]]


def test_a_stages_end_inside_an_interval_leaves_the_stage_with_more_values(recorded):
    query = (
        "from(bucket: v.defaultBucket) |> range(start: v.timeRangeStart, stop: v.timeRangeStop) "
        '|> filter(fn: (r) => r._measurement == "r1_interval" and r.run_id == "${run}" and r.part == "0" and r.workload == "chat") '
        '|> filter(fn: (r) => r._field == "ttft_count" or r._field == "ttft_p95_ms") '
        '|> pivot(rowKey: ["_time", "stage"], columnKey: ["_field"], valueColumn: "_value") |> group()'
    )
    expected: dict[str, tuple[int, float]] = {}
    rows = recorded.ask(query, workload=["chat"])
    for row in rows:
        here = int(row["ttft_count"]), float(row["ttft_p95_ms"])
        expected[row["_time"]] = max(here, expected.get(row["_time"], (0, 0.0)), key=lambda pair: pair[0])
    assert len(rows) > len(expected)  # the warmup ends inside of the first interval
    drawn = {row["_time"]: float(row["_value"]) for row in recorded.panel("overview", "TTFT") if row["name"] == "chat p95"}
    assert sorted(drawn) == sorted(expected)
    ties = {at for at, (n, _) in expected.items() if [int(row["ttft_count"]) for row in rows if row["_time"] == at].count(n) > 1}
    assert {at: value for at, value in drawn.items() if at not in ties} == {
        at: p for at, (_, p) in expected.items() if at not in ties
    }


@pytest.mark.parametrize("title", ["TTFT", "Requests/s of ${workload}", "In flight"])
def test_runs_are_laid_over_one_another_from_their_beginning(recorded, title):
    rows = recorded.panel("comparison", title)
    assert {column for row in rows for column in row} == {"seconds", *recorded.ids}
    seconds = [float(row["seconds"]) for row in rows]
    assert seconds[0] == 0
    assert all(later - earlier > 0 for earlier, later in pairwise(seconds))
    every = STEP_S if "/s" in title else 2
    assert {second % every for second in seconds} == {0}
    assert set(recorded.ids) <= {column for row in rows if float(row["seconds"]) == 0 for column in row}


def test_stages_and_the_end_are_marked(recorded):
    rows = recorded.panel("overview", "annotation Stages and events")
    stages = [row["text"].partition(":")[0] for row in rows if row["title"] == "stage"]
    assert stages == ["warmup", "ramp", "steady", "drain"]
    assert [row["text"] for row in rows if row["title"] == "end"] == ["finished"]


def test_a_run_that_goes_on_has_its_state(recorded):
    run = read_document(recorded.ran[0].folder).run()
    begun = Points(run, 2_000_000_000).begin()
    bucket = recorded.server.bucket()
    write(recorded.server, bucket, "".join(begun))
    elsewhere = Recorded(recorded.server, bucket, recorded.ran)
    (row,) = elsewhere.panel("overview", "State")
    assert row["status"] == "running"
    assert "verdict" not in row
    assert [row["run"] for row in elsewhere.panel("overview", "Targets: the runs in this range")] == [run.run_id]
    assert elsewhere.panel("overview", "variable run") == [{"_value": run.run_id}]
    assert elsewhere.panel("overview", "Errors so far") == []


def test_late_data_adds_to_counts_and_to_no_percentile(recorded):
    at_ms = recorded.documents[0]["started_ns"] // 1_000_000
    place = {"run_id": recorded.ids[0], "scenario": "two-kinds", "target": "t", "model": "m"}
    text = ""
    for part, n, p95, level in (("0", 10, 100.0, 5), ("1", 2, 9999.0, 1)):
        below = {name("ttft", limit): n if limit >= p95 else 0 for limit in LIMITS_MS["ttft"]}
        ranks = {f"ttft_{rank}_ms": p95 for rank in ("p50", "p90", "p95", "p99")}
        here = place | {"workload": "chat", "stage": "steady", "part": part}
        text += line("r1_interval", here, {"ttft_count": n} | ranks | below, at_ms)
        text += line("r1_counters", here, {"completed": n, "outcome.ok": n}, at_ms)
        covered = {"covered_ns": 4 * 10**9} if part == "0" else {}
        text += line("r1_counters", place | {"part": part}, {"in_flight_total": level} | covered, at_ms)
    bucket = recorded.server.bucket()
    write(recorded.server, bucket, text)
    late = Recorded(recorded.server, bucket, recorded.ran)
    assert {float(row["_value"]) for row in late.panel("overview", "TTFT")} == {100.0}
    assert [int(row["_value"]) for row in late.panel("overview", "In flight")] == [5]
    assert rates(late.panel("overview", "Requests/s")) == [12 / 4]
    assert [int(row["_value"]) for row in late.panel("overview", "Outcomes")] == [12]
    (cells,) = late.panel("overview", "TTFT heatmap")
    assert {cell: int(n) for cell, n in cells.items() if n not in ("0", cells["_time"])} == {"100": 10, "10000": 2}


def write(server: InfluxDb, bucket: str, text: str) -> None:
    """Write lines as they are."""
    place = urllib.parse.urlencode({"org": server.org, "bucket": bucket, "precision": "ms"})
    request = urllib.request.Request(
        f"{server.url}/api/v2/write?{place}", text.encode(), {"Authorization": f"Token {server.token}"}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        assert response.status == 204
