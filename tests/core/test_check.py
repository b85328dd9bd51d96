"""The plan that `r1perf check` shows: counts, load, money and warnings, from exact small scenarios."""

import io
import json
import math
import re

import msgspec
import pytest
from rich.console import Console

from r1perf.check import Check, Money, Speed, check, render, rows
from r1perf.cli.pace import SETTLES, pace
from r1perf.datasets import Conversation, Expected, Turn
from r1perf.errors import UsageError
from r1perf.scenario import load
from r1perf.summary.rates import LEAST_S

RAW = {
    "name": "x", "duration": "100s", "target": {"url": "http://h/v1", "model": "m", "timeouts": {"total": "1h"}},
    "workload": {"w": {"dataset": {"kind": "chat"}, "max_tokens": 1000}}, "arrivals": {"kind": "constant", "rate": "2/s"},
}  # fmt: skip


class Items:
    """A dataset whose needs are known."""

    digest, size = "d", None

    def __init__(self, turns=1.0, inputs=50.0, outputs=200.0, pause_s=0.0):
        self.expected = Expected(turns, inputs, outputs)
        later = Turn(text="x" * 40, think_time_ns=int(pause_s * 1e9))
        self._conversation = Conversation(turns=(Turn(text="x" * 40), *[later] * (int(turns) - 1)))

    def conversation(self, item):
        return self._conversation


def checked(items=None, speed=None, **changes) -> Check:
    scenario = load(RAW | changes)
    loaded = items or dict.fromkeys(scenario.workload, Items())
    return check(scenario, loaded, scenario.plan(loaded), speed or Speed(ttft_s=1.0, tokens_per_s=20.0))


def test_open_loop_counts_are_exact_and_in_flight_follows_little():
    made = checked()
    (row,) = made.rows
    assert (row.stage, row.workload, row.seconds, row.conversations, row.requests) == ("constant", "w", 100.0, 200, 200)
    # 200 tokens at 20/s and 1 s to the first: 11 s in the system, 2/s: 22 in flight.
    assert (row.requests_per_s, row.output_tokens_per_s, row.in_flight) == (2.0, 400.0, 22.0)
    assert (made.requests, made.conversations) == (200, 200)


def test_a_short_stage_has_not_all_in_flight_that_the_law_says():
    assert checked(duration="5s").rows[0].in_flight == 10


def test_turns_and_think_time_count():
    (row,) = checked(items={"w": Items(turns=2.0, pause_s=18.0)}).rows
    # A second turn begins 11 + 18 s after the first: those of the last 58 conversations never do. A conversation is at work for 22 of its 40 s.
    assert (row.conversations, row.requests, row.most_requests, row.in_flight) == (200, 342, 400, 80 * 22 / 40)
    assert (row.exact, row.counted, row.requests_per_s) == (True, False, 3.42)


def test_later_turns_come_in_the_stage_of_their_time():
    stages = [{"kind": "constant", "rate": "2/s", "duration": f"{seconds}s", "name": f"s{seconds}"} for seconds in (10, 20, 40)]
    raw = {key: value for key, value in RAW.items() if key != "duration"} | {"arrivals": {"kind": "stages", "stages": stages}}
    scenario, items = load(raw), {"w": Items(turns=3.0, pause_s=4.0)}
    made = check(scenario, items, scenario.plan(items), Speed(ttft_s=1.0, tokens_per_s=20.0))
    # Turns begin 15 s apart. From 10 to 30 s: second turns of the first stage (20) and of its own (10). From 30 s to the end at 70 s: third ones of
    # the first stage (20), second and third ones of the second (30, 40) and of its own (50, 20).
    assert [(row.conversations, row.requests) for row in made.rows] == [(20, 20), (40, 70), (80, 240)]


def test_closed_sessions_are_estimated():
    (row,) = checked(arrivals={"kind": "closed", "sessions": 8, "think_time": "9s", "ramp_up": "0s"}).rows
    assert (row.exact, row.conversations, row.requests_per_s, row.in_flight) == (False, 40.0, 0.4, pytest.approx(4.4))


def test_every_closed_session_sends_a_request_however_long_answers_take():
    (row,) = checked(arrivals={"kind": "closed", "sessions": 8, "think_time": "9s", "ramp_up": "0s"}, duration="5s").rows
    assert (row.conversations, row.requests, row.requests_per_s) == (8, 8, 1.6)
    assert row.output_tokens_per_s == pytest.approx(8 * 200 / 20)  # as many as they bring, whatever has been asked for


def test_closed_stages_by_requests_last_as_long_as_they_take():
    parts = [{"kind": "closed", "sessions": n, "requests": 80, "ramp_up": "0s"} for n in (1, 8)]
    raw = {key: value for key, value in RAW.items() if key != "duration"} | {"arrivals": {"kind": "stages", "stages": parts}}
    scenario = load(raw)
    made = check(scenario, {"w": Items()}, scenario.plan({"w": Items()}), Speed())
    assert [(row.stage, row.seconds, row.conversations, row.in_flight) for row in made.rows] == [
        ("closed", 880.0, 80.0, 1.0), ("closed-2", 110.0, 80.0, 8.0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sessions", "requests", "ramp_up", "seconds", "in_flight"),
    [
        pytest.param(32, 7, "0s", 11.0, 7.0, id="fewer than sessions"),
        pytest.param(32, 7, "1s", 17.0, 7.0, id="fewer than sessions, that start apart"),
        pytest.param(7, 7, "0s", 11.0, 7.0, id="as many"),
        pytest.param(5, 7, "0s", 22.0, 5.0, id="rounds are whole"),
    ],
)
def test_of_more_sessions_than_conversations_some_have_none(sessions, requests, ramp_up, seconds, in_flight):
    raw = {key: value for key, value in RAW.items() if key != "duration"}
    closed = {"kind": "closed", "sessions": sessions, "ramp_up": ramp_up}
    scenario = load(raw | {"requests": requests, "arrivals": closed})
    (row,) = check(scenario, {"w": Items()}, scenario.plan({"w": Items()}), Speed()).rows
    assert (row.seconds, row.conversations, row.in_flight) == (seconds, requests, in_flight)
    assert row.requests_per_s == pytest.approx(requests / seconds)


def test_money_is_expected_and_at_most():
    price = {"input_per_1m": 1.0, "output_per_1m": 10.0}
    target = RAW["target"] | {"price": price}
    # 200 requests of 50 tokens in; 200 tokens out expected, 1000 at most.
    assert checked(target=target).money == Money(pytest.approx(0.01 + 0.4), pytest.approx(0.01 + 2.0))
    unbounded = {"w": {"dataset": {"kind": "chat"}}}
    assert checked(target=target, workload=unbounded).money == Money(pytest.approx(0.41), None)
    hours = {"price": {"gpu_hour": 2.0}, "system": {"gpus": 16}}
    assert checked(target=RAW["target"] | hours).money == Money(pytest.approx((100 + 11) / 3600 * 32), None)
    assert checked().money is None


PRICED = RAW["target"] | {"price": {"output_per_1m": 1000.0}}


@pytest.mark.parametrize(
    ("length", "mean", "most"),
    [
        pytest.param(1000, 1000, 1000, id="fixed"),
        pytest.param({"dist": "uniform", "low": 1, "high": 999}, 500, 999, id="uniform"),
        pytest.param({"dist": "lognormal", "median": 100, "sigma": 1.5, "high": 5000}, 268.28, 5000, id="lognormal, bounded"),
        pytest.param({"dist": "lognormal", "median": 100, "sigma": 1.5}, 308.35, None, id="lognormal, unbounded"),
    ],
)
def test_ordered_lengths_count_at_their_mean_and_at_most_their_largest(length, mean, most):
    made = real(dataset={"kind": "synthetic", "input_tokens": 100, "output_tokens": length, "calibrate": False})
    (row,) = made.rows
    assert row.output_tokens_per_s == pytest.approx(2 * mean, rel=1e-3)
    assert made.money.expected == pytest.approx(200 * mean / 1000, rel=1e-3)
    assert made.money.most == (None if most is None else pytest.approx(200 * most / 1000))
    assert not made.warnings


def test_prompts_that_order_their_lengths_count_at_them(tmp_path):
    rows = [{"prompt": "x", "output_tokens": n} for n in (10, 20, 600)]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = real(tmp_path, dataset={"kind": "prompts", "file": "p.jsonl"})
    assert made.needs["w"].output_tokens == 210
    assert made.money == Money(pytest.approx(200 * 0.21), pytest.approx(200 * 0.6))


def test_of_prompts_that_partly_order_their_lengths_each_counts_at_its_own(tmp_path):
    rows = [{"prompt": "x", "output_tokens": 8000}, {"prompt": "x"}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = real(tmp_path, dataset={"kind": "prompts", "file": "p.jsonl"}, max_tokens=1000)
    assert made.needs["w"].output_tokens == (8000 + 1000) / 2


@pytest.mark.parametrize(
    ("bounds", "most"),
    [
        pytest.param([10] * 70 + [9000], 9000, id="the largest, however late it comes"),
        pytest.param([10] * 1500 + [9000], None, id="more than are looked at"),
        pytest.param([None] * 70, 500, id="the workload's own"),
    ],
)
def test_the_bound_is_the_largest_of_all_or_none(tmp_path, bounds, most):
    rows = [{"messages": [{"role": "user", "content": "x"}]} | ({"max_tokens": n} if n else {}) for n in bounds]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = real(tmp_path, dataset={"kind": "openai", "file": "p.jsonl"}, max_tokens=500)
    assert made.needs["w"].most_output_tokens == most
    assert not any("no `max_tokens`" in says for says in made.warnings)


def test_a_trace_counts_at_the_lengths_that_its_arrivals_meet(tmp_path):
    lines = [{"timestamp": 1000 * n, "input_length": 10, "output_length": 100 * (n + 1)} for n in range(10)]
    lines.append({"timestamp": 9500, "input_length": 0, "output_length": 1})
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, lines)))
    trace = {"kind": "trace", "file": "m.jsonl"}
    made = real(tmp_path, dataset=trace, arrivals=trace, duration="4s")
    assert (made.requests, made.needs["w"].output_tokens, made.needs["w"].most_output_tokens) == (4, 250, 400)
    assert made.money == Money(pytest.approx(1.0), pytest.approx(1.6))
    assert made.warnings[0] == "w: 1 of the trace's 11 requests had no input or no output and are left out"


def test_no_prompt_is_made_to_be_measured(monkeypatch):
    monkeypatch.setattr("r1perf.datasets.synthetic.Made.conversation", None)
    made = real(dataset={"kind": "synthetic", "input_tokens": "16M", "output_tokens": 10, "calibrate": False})
    assert made.needs["w"].input_tokens == 16 << 20


def real(base=None, arrivals=RAW["arrivals"], duration="100s", **workload):
    scenario = load(RAW | {"workload": {"w": workload}, "target": PRICED, "arrivals": arrivals, "duration": duration})
    items = scenario.items(base)
    return check(scenario, items, scenario.plan(items, base), Speed(ttft_s=0.1, tokens_per_s=1e6))


def test_lengths_that_only_the_model_knows_are_assumed_and_said():
    scenario = load(RAW | {"workload": {"aime": {"dataset": {"kind": "aime"}}, "chat": {"dataset": {"kind": "chat"}}}})
    items = scenario.items()
    made = check(scenario, items, scenario.plan(items))
    assert {name: need.output_tokens for name, need in made.needs.items()} == {"aime": 12_000, "chat": 1_000}
    assert made.assumptions[:3] == (
        "the first token after 1 s, then 20 tokens/s for each user",
        "aime: answers of 12,000 tokens, R1's published mean on AIME",
        "chat: answers of 1,000 tokens, thinking included",
    )
    known = check(scenario, items, scenario.plan(items), Speed(answers={"aime": 90.0}))
    assert known.needs["aime"].output_tokens == 90


def test_prompts_of_later_turns_carry_what_was_said():
    scenario = load(RAW)
    items = {"w": Items(turns=3.0, inputs=None, outputs=400.0)}
    # 10 tokens a message, 300 an answer without its thinking: 10, 320, 630.
    assert check(scenario, items, scenario.plan(items)).needs["w"].input_tokens == 320


WARNINGS = [
    ("none", {}, {}, []),
    ("unbounded", {"workload": {"w": {"dataset": {"kind": "chat"}}}}, {},
     ["w: no `max_tokens`, so the server's own default ends its answers; nothing bounds what they cost"]),
    ("cut", {"workload": {"w": {"dataset": {"kind": "chat"}, "max_tokens": 100}}}, {}, ["w: answers of about 200 tokens are cut at 100: most will be `truncated`"]),
    ("room", {"workload": {"w": {"dataset": {"kind": "chat"}, "max_tokens": "128k"}}, "target": RAW["target"] | {"timeouts": {"total": "3h"}}}, {},
     ["w: `max_tokens` 131,072 and prompts of 50 tokens do not fit into R1's 131,072"]),
    ("timeout", {"target": RAW["target"] | {"timeouts": {"total": "50s"}}}, {},
     ["w: an answer of 1,000 tokens takes 51s, longer than `target.timeouts.total` (50s): it would count as a timeout"]),
    ("outlast", {}, {"outputs": 2400.0},
     ["w: answers of about 2,400 tokens are cut at 1,000: most will be `truncated`"]),
    ("outlast-stage", {"duration": "50s", "arrivals": {"kind": "constant", "rate": "4/s"}}, {"outputs": 1000.0},
     [("w: answers take about 51s, longer than the stage constant (50s): requests in flight grow to its end, so its throughput and E2E describe the "
      "window, not the system")]),
    ("few", {"duration": "20s"}, {}, ["w: about 40 requests in the stage constant: its p99 is one of the largest values"]),
    ("cap", {"target": RAW["target"] | {"max_in_flight": 10}}, {},
     ["stage constant: about 22 requests in flight, over `target.max_in_flight` (10): arrivals would wait here, and their delay counts"]),
    ("ramp", {"warmup": "5s", "arrivals": {"kind": "ramp", "start": "0/s", "end": "4/s", "duration": "100s"}}, {},
     ["`arrivals.start` is 0, so the warmup in front of it sends nothing"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "items", "warnings"), [case[1:] for case in WARNINGS], ids=[case[0] for case in WARNINGS])
def test_warnings(changes, items, warnings):
    assert list(checked(items={"w": Items(**items)}, **changes).warnings) == warnings


PAID = RAW["target"] | {"price": {"input_per_1m": 1.0, "output_per_1m": 10.0}}
# 200 requests of 50 tokens in and 200 out, at most 1,000 out: $0.41 and $2.01. One is reserved at 40 bytes, 2 x 16 tokens of the template and 1,000.
LIMITS = [
    pytest.param({"cost": 10.0}, (2.01, False), [], id="cost above all"),
    pytest.param({"cost": 1.0}, (1.0, True), [], id="cost between what is expected and the most"),
    pytest.param({"cost": 0.2}, (0.2, True), ["`stop.cost` ($0.2) ends the run early: the plan costs about $0.41"], id="cost below it"),
    pytest.param({"cost": 0.0001}, (0.0001, True), [
        "w: not even one request can be sent: the limit of $0.0001 could be passed: $0 spent so far, 0 requests in flight may cost $0, the next one $0.010072"
    ], id="cost below one request"),
    pytest.param({"requests": 200}, (2.01, False), [], id="requests enough"),
    pytest.param({"requests": 10}, (2.01, False), ["`stop.requests` (10) ends the run early: about 200 requests are planned"], id="requests"),
    pytest.param({"output_tokens": 40_000}, (2.01, False), [], id="tokens enough"),
    pytest.param({"output_tokens": 39_999}, (2.01, False),
                 ["`stop.output_tokens` (39,999) ends the run early: about 40,000 output tokens are planned"], id="tokens"),
    pytest.param({"output_tokens": 999}, (2.01, False), [
        "w: not even one request can be sent: the limit of 999 output tokens could be passed: 0 spent so far, 0 requests in flight may use 0, the next one 1,000"
    ], id="tokens below one request"),
]  # fmt: skip


@pytest.mark.parametrize(("stop", "most", "warnings"), LIMITS)
def test_the_limits_of_stop_are_part_of_the_plan(stop, most, warnings):
    made = checked(target=PAID, stop=stop)
    assert list(made.warnings) == warnings
    assert (made.money.expected, made.money.most, made.money.capped) == (pytest.approx(0.41), *map(pytest.approx, most))


def test_an_n_th_of_a_cent_is_shown():
    cheap = PAID | {"price": {"input_per_1m": 0.001, "output_per_1m": 0.01}}
    (line,) = [line for line in shown(checked(target=cheap), 80) if line.startswith("cost:")]
    assert line.rstrip() == "cost: about $0.00041, at most $0.00201 with every answer at its bound"


def test_the_most_that_a_limit_allows_is_shown():
    lines = shown(checked(target=PAID, stop={"cost": 0.00012}), 80)
    assert "cost: about $0.41, but at most $0.00012 by `stop.cost`" in [line.rstrip() for line in lines]


@pytest.mark.parametrize(("requests", "taken"), [(4, 0), (5, 4), (10, 4), (100, 4)])
def test_what_calibrations_take_is_not_left_to_the_run(requests, taken):
    dataset = {"kind": "synthetic", "input_tokens": 64, "output_tokens": 8}
    scenario = load(RAW | {"workload": {"w": {"dataset": dataset}}, "stop": {"requests": requests}})
    items = scenario.items()
    more = f", and {taken} more calibrate lengths before them" if taken else ""
    made = check(scenario, items, scenario.plan(items))
    assert f"`stop.requests` ({requests}) ends the run early: about 200 requests are planned{more}" in made.warnings


def test_what_no_request_is_planned_of_is_told():
    workload = {"w": RAW["workload"]["w"], "none": RAW["workload"]["w"] | {"weight": 0}}
    assert checked(workload=workload).warnings == (
        "none: no request of it is planned: its `weight` is too small beside the others'",
    )


def test_requests_of_many_turns_are_about_as_many():
    raw = {key: value for key, value in RAW.items() if key != "duration"} | {"requests": 400}
    scenario, items = load(raw), {"w": Items(turns=2.0)}
    made = check(scenario, items, scenario.plan(items), Speed())
    assert made.warnings == (
        "stage constant: later turns go on for about 11s after the last arrival, and rates are over all of it: `duration` ends them with the arrivals",
        "`requests` = 400 counts expected turns: conversations differ in length, so the run will have about as many",
    )
    (row,) = made.rows
    assert (row.conversations, row.requests, row.requests_per_s) == (200, 400, pytest.approx(400 / (99.5 + 11), rel=1e-3))
    assert row.in_flight == 22 + 22  # at the last arrival, not at the end of the last conversation


@pytest.mark.parametrize(
    ("requests", "rates", "lasts"), [(1, (None, None), "under 1ms"), (20, (None, None), "0.095s"), (21, (pytest.approx(210), pytest.approx(42_000)), "0.1s")]
)  # fmt: skip
def test_a_stage_of_a_moment_has_no_rates(requests, rates, lasts):
    raw = {key: value for key, value in RAW.items() if key != "duration"} | {"requests": requests}
    scenario = load(raw | {"arrivals": {"kind": "constant", "rate": "200/s"}})
    made = check(scenario, {"w": Items()}, scenario.plan({"w": Items()}), Speed())
    (row,) = made.rows
    assert (row.requests_per_s, row.output_tokens_per_s) == rates
    assert any("longer than the stage" in says for says in made.warnings) == (rates[0] is not None)
    assert f"constant, {lasts}: constant 200/s" in [line.strip() for line in shown(made, 80)]


def test_rates_begin_where_those_of_a_run_do():
    assert rows.LEAST_S == LEAST_S == 0.1


def test_fewer_requests_than_asked_for_are_told_instead():
    raw = {key: value for key, value in RAW.items() if key != "duration"} | {"requests": 400}
    raw["arrivals"] = {"kind": "ramp", "start": "20/s", "end": "0/s", "duration": "15s", "gaps": "constant"}
    scenario, items = load(raw), {"w": Items(turns=2.0)}
    warnings = check(scenario, items, scenario.plan(items), Speed()).warnings
    assert "the ramp ends at 0/s: about 300 of 400 requests come" in warnings
    assert not any("counts expected turns" in says for says in warnings)


def test_conversations_that_outlast_their_stage_are_told():
    made = checked(items={"w": Items(turns=3.0, pause_s=39.0)}, duration="80s")
    # Turns begin 50 s apart, and there is a second one for the conversations of the first 30 s.
    assert made.requests == 160 + 60
    assert made.warnings == (
        "w: conversations last about 1m51s, longer than the stage constant (1m20s): about 260 of their turns never begin",
    )


def test_what_it_may_cost_at_most_goes_by_every_turn():
    """A faster target has time for more of them."""
    target = RAW["target"] | {"price": {"output_per_1m": 10.0}}
    made = checked(items={"w": Items(turns=2.0, pause_s=18.0)}, target=target)
    assert made.money == Money(pytest.approx(342 * 0.002), pytest.approx(400 * 0.01))


def test_of_many_conversations_some_are_looked_at(monkeypatch):
    monkeypatch.setattr("r1perf.check.rows.LOOKED", 7)
    assert checked(items={"w": Items(turns=2.0, pause_s=18.0)}).requests == 342


def shown(made, width):
    out = Console(file=io.StringIO(), width=width)
    for part in render(made):
        out.print(part)
    return out.file.getvalue().splitlines()


def test_the_plan_is_shown():
    made = checked(target=RAW["target"] | {"price": {"output_per_1m": 10.0}}, warmup="10s")
    lines = [" ".join(line.split()) for line in shown(made, 80)]
    assert lines[0] == "x against http://h/v1, m"
    assert "conversations requests requests/s output tok/s in flight" in lines
    assert "warmup, 10s (not judged): constant 2/s" in lines
    assert lines[lines.index("constant, 1m40s: constant 2/s") + 1] == "w 200 200 2.00 400 22"
    assert "all 220 220" in lines
    assert "cost: about $0.44, at most $2.20 with every answer at its bound" in lines
    assert "assumed: the first token after 1 s, then 20 tokens/s for each user" in lines


def test_the_plan_fits_into_80_columns_and_columns_stand_under_their_titles():
    lines = shown(checked(workload={"reasoning-on-aime": RAW["workload"]["w"], "w": RAW["workload"]["w"]}, warmup="10s"), 80)
    at = next(number for number, line in enumerate(lines) if "in flight" in line)
    table = [line.rstrip() for line in lines[at:] if line.startswith((" ", "reasoning", "w ", "all "))]
    assert max(map(len, table)) <= 80
    ends = table[0].index("requests/s") + len("requests/s")
    figures = [line[:ends].rsplit(" ", 1)[-1] for line in table if line.startswith(("reasoning", "w "))]
    assert len(figures) == 4
    assert all(re.fullmatch(r"\d\.\d\d", figure) for figure in figures)


SPEEDS = [
    (Speed(), "the first token after 1 s, then 20 tokens/s for each user"),
    (Speed(2.5, 1234.5), "the first token after 2.5 s, then 1,234 tokens/s for each user"),
    (
        Speed(0.0031, 61.237, {}, "simulated tiny"),
        "the first token after 3.1 ms, then 61.2 tokens/s for each user (simulated tiny)",
    ),
]


@pytest.mark.parametrize(("speed", "says"), SPEEDS)
def test_an_assumed_speed_is_said(speed, says):
    assert speed.says() == says


def simulated(url, rate="2/s"):
    scenario = load({
        "name": "x", "duration": "100s", "target": {"url": url}, "arrivals": {"kind": "constant", "rate": rate},
        "workload": {"w": {"dataset": {"kind": "chat", "turns": 1, "think_time": "0s"}, "max_tokens": 1000}},
    })  # fmt: skip
    items = {"w": Items(outputs=None)}
    plan = scenario.plan(items)
    made = check(scenario, items, plan)
    for _ in range(SETTLES):
        made = check(scenario, items, plan, pace(scenario, made))
    return made, pace(scenario, made)


def test_a_simulated_profile_says_how_fast_it_is():
    made, _ = simulated("simulate:exact")
    assert (made.speed.ttft_s, made.speed.tokens_per_s, made.speed.source) == (0.1, 50.0, "simulated exact")
    faster, _ = simulated("simulate:exact?speed=10&tokens_per_chunk=3")
    assert (faster.speed.ttft_s, faster.speed.tokens_per_s) == (0.01, pytest.approx(1500.0))
    assert faster.speed.source == "simulated exact at 10 times its speed"
    # Its chats have lognormal lengths: 16 exp(0.5^2 / 2) of thinking and 24 exp(0.4^2 / 2) of answer.
    assert made.needs["w"].output_tokens == pytest.approx(16 * math.exp(0.125) + 24 * math.exp(0.08))


@pytest.mark.parametrize("rate", ["0.5/s", "20/s"])
def test_speed_and_what_is_in_flight_settle_together(rate):
    made, after = simulated("simulate:tiny", rate)
    assert after.tokens_per_s == pytest.approx(made.speed.tokens_per_s, rel=0.01)
    # A step of tiny takes 5 ms and 0.02 ms a stream.
    assert after.tokens_per_s == pytest.approx(1000 / (5 + 0.02 * made.rows[0].in_flight), rel=1e-6)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("simulate:r2", '"r2" is not a profile; allowed are r1-16xh100, tiny, exact, slow'),
        ("simulate:tiny?speed=0", "speed 0 is not allowed; it is a factor above 0, up to 1000000"),
        ("simulate:tiny?speed=x", "Invalid value for '--speed': 'x' is not a valid float."),
        ("simulate:tiny?spead=3", "No such option '--spead'. (Did you mean one of: '--seed', '--speed'?)"),
        ("simulate:tiny?fault=cut:x=1", 'fault cut takes reset, eof, end, not "x"'),
    ],
)
def test_wrong_options_of_the_simulated_endpoint_are_told_by_check_too(url, says):
    with pytest.raises(UsageError) as caught:
        simulated(url)
    assert str(caught.value) == f"`target.url`: the simulated endpoint cannot start: {says}"


def test_a_plan_is_data():
    assert msgspec.json.decode(msgspec.json.encode(checked()))["rows"][0]["requests"] == 200
