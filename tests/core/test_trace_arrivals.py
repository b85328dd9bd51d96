"""Arrivals of recorded traffic in a scenario: times and lengths of one replay meet row by row, on any number of workers."""

import pytest

from r1perf.check import Speed, check
from r1perf.errors import DatasetError, ScenarioError
from r1perf.scenario import Shorthands, load, resolved
from r1perf.traces import read_trace

S = 1_000_000_000
ROWS = [(0.0, 10, 1), (0.5, 20, 2), (0.5, 30, 3), (4.0, 40, 4), (4.123456789, 50, 5), (9.0, 60, 6)]


@pytest.fixture
def folder(tmp_path):
    lines = ["Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"]
    lines += [f"{100 + at:.9f},GPT-4,{given},{made},{given + made},API log" for at, given, made in ROWS]
    (tmp_path / "burst.csv").write_text("\n".join(lines))
    return tmp_path


def scenario(arrivals=None, dataset=None, *, own=True, **more):
    lengths = {"kind": "trace", "file": "burst.csv"} | (dataset or {})
    times = {"kind": "trace", "file": "burst.csv"} | (arrivals or {})
    raw = {
        "name": "x", "target": {"url": "http://h/v1", "model": "m", "provider": "vllm"},
        "workload": {"w": {"dataset": lengths} | ({"arrivals": times} if own else {})},
    }  # fmt: skip
    return raw | ({} if own else {"arrivals": times}) | more


def planned(folder, raw, shards=1):
    """Return (stages, rows as they are sent: offset in s, input words, output tokens)."""
    made = load(raw)
    items = made.items(folder)
    whole = made.plan(items, folder)
    arrivals = sorted((arrival for i in range(shards) for arrival in whole.shard(i, shards)), key=lambda arrival: arrival.index)
    sent = []
    for arrival in arrivals:
        (turn,) = items[arrival.workload].conversation(arrival.item).turns
        sent.append((arrival.offset_ns / S, len(turn.text.split()), turn.output_tokens))
    return whole.stages, sent


@pytest.mark.parametrize("own", [True, False], ids=["own arrivals", "the run's arrivals"])
@pytest.mark.parametrize("shards", [1, 2, 4])
def test_each_arrival_meets_its_own_lengths(folder, own, shards):
    stages, sent = planned(folder, scenario(own=own), shards)
    assert sent == ROWS
    assert [(stage.start_ns, stage.end_ns) for stage in stages] == [(0, 9 * S + 1), (9 * S + 1, None)]


CHOICES = [
    pytest.param({"start": "500ms", "length": "4s"}, [(0.0, 20, 2), (0.0, 30, 3), (3.5, 40, 4), (3.623456789, 50, 5)], 4 * S, id="window"),
    pytest.param({"length": "4s", "speed": 4.0}, [(0.0, 10, 1), (0.125, 20, 2), (0.125, 30, 3)], S, id="speed"),
]  # fmt: skip


@pytest.mark.parametrize(("choice", "rows", "end_ns"), CHOICES)
def test_windows_and_speed_choose_the_same_rows_of_both(folder, choice, rows, end_ns):
    stages, sent = planned(folder, scenario(choice, choice))
    assert sent == rows
    assert stages[0].end_ns == end_ns


@pytest.mark.parametrize("speed", [1.5, 3.0, 50.0, 1e6])
def test_a_faster_replay_loses_no_request(folder, speed):
    _, sent = planned(folder, scenario({"speed": speed}, {"speed": speed}))
    assert [row[1:] for row in sent] == [row[1:] for row in ROWS]


@pytest.mark.parametrize("rate", ["0.3/s", "5/s"])
def test_a_scaled_rate_chooses_the_same_rows_of_both(folder, rate):
    choice = {"length": "10s", "rate": rate}
    _, sent = planned(folder, scenario(choice, choice))
    assert len(sent) == round(float(rate[:-2]) * 10)
    assert all(given == 10 * made for _, given, made in sent)
    times = [at for at, _, _ in sent]
    assert times == sorted(times)
    by_row = {made: at for at, _, made in ROWS}
    assert all(at >= by_row[made] for at, _, made in sent)


def test_a_warmup_is_poisson_at_the_mean_rate_and_leaves_rows_and_lengths_together(folder):
    stages, sent = planned(folder, scenario(own=False, warmup="20s", seed=3))
    assert stages[0].says == "poisson 0.666667/s"
    warmup = [row for row in sent if row[0] < 20]
    assert 3 <= len(warmup) <= 30
    assert [(pytest.approx(at - 20, abs=2e-9), *row) for at, *row in sent[len(warmup) :]] == ROWS


@pytest.mark.parametrize("own", [True, False], ids=["own arrivals", "the run's arrivals"])
def test_duration_and_requests_end_it_early_and_nothing_comes_after_it(folder, own):
    assert planned(folder, scenario(own=own, duration="4s"))[1] == ROWS[:3]
    assert planned(folder, scenario({"duration": "4s"}, own=own))[1] == ROWS[:3]
    assert planned(folder, scenario({"duration": "1h"}, own=own))[0][0].end_ns == 9 * S + 1
    assert planned(folder, scenario(own=own, requests=2))[1] == ROWS[:2]
    stages, sent = planned(folder, scenario(own=own, duration="1h"))
    assert sent == ROWS
    assert stages[0].end_ns == (3600 * S if own else 9 * S + 1)


def test_a_trace_is_a_stage_among_others(folder):
    parts = [{"kind": "constant", "rate": "1/s", "duration": "2s"}, {"kind": "trace", "file": "burst.csv", "length": "4s"}]
    raw = scenario(own=False) | {"arrivals": {"kind": "stages", "stages": parts}}
    stages, sent = planned(folder, raw)
    assert [stage.end_ns for stage in stages[:2]] == [2 * S, 6 * S]
    assert [at for at, _, _ in sent] == [0.0, 1.0, 2.0, 2.5, 2.5]


def test_the_scenario_keeps_the_name_as_it_was_written(folder):
    made = load(scenario())
    assert resolved(made)["workload"]["w"]["arrivals"]["file"] == "burst.csv"
    assert load(resolved(made)) == made


def test_the_command_line_scales_arrivals_and_lengths_together(folder):
    made = load(scenario(own=False), shorthands=Shorthands(rate="0.5/s"))
    assert (str(made.arrivals.rate), str(made.workload["w"].dataset.rate)) == ("0.5/s", "0.5/s")
    parts = [{"kind": "poisson", "rate": "2/s", "duration": "1m"}, {"kind": "trace", "file": "b", "rate": "1/s", "start": "5s"}]
    staged = load(scenario(own=False) | {"arrivals": {"kind": "stages", "stages": parts}}, shorthands=Shorthands(rate="8/s"))
    assert [str(stage.rate) for stage in staged.arrivals.stages] == ["8/s", "4/s"]


WRONG = [
    pytest.param({"per": "request"}, "`workload.w.arrivals.per`: does not go with a trace: a conversation begins where the trace had a request", id="per"),
    pytest.param({"length": "0s"}, "`workload.w.arrivals.length`: must be greater than 0", id="length"),
    pytest.param({"rate": "0/s"}, "`workload.w.arrivals.rate`: must be greater than 0", id="rate"),
    pytest.param({"speed": 0}, "`workload.w.arrivals.speed`: must be greater than 0, not 0", id="speed"),
]  # fmt: skip


@pytest.mark.parametrize(("arrivals", "says"), WRONG)
def test_what_makes_no_sense_is_refused(arrivals, says):
    with pytest.raises(ScenarioError) as caught:
        load(scenario(arrivals))
    assert str(caught.value) == says


def test_a_file_that_is_not_there_is_named_with_its_key(folder):
    made = load(scenario({"file": "nothing.csv"}))
    with pytest.raises(DatasetError) as caught:
        made.plan(made.items(folder), folder)
    assert str(caught.value) == f"`workload.w.arrivals`: {folder / 'nothing.csv'}: no such file"


WARNINGS = [
    pytest.param(scenario(), [], id="together"),
    pytest.param(scenario({"speed": 2.0}), [
        "w: arrivals and lengths are of different replays (`speed` differ): no arrival meets its own lengths"], id="speed"),
    pytest.param(scenario(own=False) | {"workload": {name: {"dataset": {"kind": "trace", "file": "burst.csv"}} for name in "ab"}}, [
        f"{name}: its share of the trace's arrivals takes the trace's lengths in order, so no arrival meets its own; give the workload "
        "arrivals of its own for that" for name in "ab"], id="shared"),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "warnings"), WARNINGS)
def test_what_does_not_belong_together_is_told(folder, raw, warnings):
    made = load(raw)
    items = made.items(folder)
    found = check(made, items, made.plan(items, folder), Speed(ttft_s=0.1, tokens_per_s=1e6)).warnings
    assert [text for text in found if "lengths" in text] == warnings


def test_a_trace_is_read_once_for_as_long_as_it_stays_as_it_is(folder):
    path = folder / "burst.csv"
    first = read_trace(path)
    assert read_trace(path) is first
    path.write_text(path.read_text() + "\n110.0,GPT-4,1,1,2,API log")
    assert len(read_trace(path).offsets_ns) == len(first.offsets_ns) + 1
