"""What `r1perf check` reckons a request with: earlier answers, what the prefix cache serves, prompts that become longer than asked."""

import json

import numpy as np
import pytest

from r1perf.check import Speed, check
from r1perf.check.expect import needs
from r1perf.datasets.lengths import Uniform
from r1perf.datasets.synthetic import Synthetic
from r1perf.datasets.tokens import Calibration
from r1perf.datasets.trace import TraceLengths
from r1perf.scenario import load

PRICE = {"input_per_1m": 1.0, "cached_per_1m": 0.1, "output_per_1m": 10.0}
MADE = {"kind": "synthetic", "input_tokens": 1000, "output_tokens": 100}


def checked(tmp_path, price=PRICE, requests=1000, **workload):
    raw = {"name": "x", "target": {"url": "http://h/v1", "model": "m", "price": price}, "workload": {"w": workload}}
    scenario = load(raw | {"requests": requests, "arrivals": {"kind": "constant", "rate": "1/s"}})
    items = scenario.items(tmp_path)
    return check(scenario, items, scenario.plan(items), Speed())


def test_earlier_answers_are_no_longer_than_the_answers_that_are_planned(tmp_path):
    rows = [{"conversations": [{"from": "human", "value": "x" * 40}, {"from": "gpt", "value": "y"}] * 3}]
    (tmp_path / "c.jsonl").write_text("\n".join(map(json.dumps, rows)))
    made = checked(tmp_path, dataset={"kind": "chat", "file": "c.jsonl"}, max_tokens=50, requests=9)
    # 10 tokens a message, 50 an answer: 10, 70, 130.
    assert (made.needs["w"].input_tokens, made.needs["w"].output_tokens) == (70, 50)
    assert "w: prompts of 70 tokens: earlier turns with answers of 50 tokens, 4 characters a token" in made.assumptions


@pytest.mark.parametrize(
    ("dataset", "price", "expected", "assumed"),
    [
        pytest.param(MADE, PRICE, 2.0, False, id="new texts"),
        pytest.param(MADE | {"prefix": {"hit_ratio": 0.8}}, PRICE, 1.28, False, id="a hit ratio that is ordered"),
        pytest.param(MADE | {"cache": "natural"}, PRICE, 2.0, True, id="texts that an earlier run may have left"),
        pytest.param({"kind": "prompts", "prompts": ["x" * 40]}, PRICE, 1 + 40 / 3500, True, id="nobody knows"),
        pytest.param(
            {"kind": "prompts", "prompts": ["x" * 40]}, {"output_per_1m": 10.0}, 1.0, False, id="cached ones cost as much"
        ),
    ],
)
def test_cached_tokens_have_their_price(tmp_path, dataset, price, expected, assumed):
    made = checked(tmp_path, price, dataset=dataset, max_tokens=100)
    assert made.money.expected == pytest.approx(expected, abs=0.002)
    assert ("w: no input token is cached" in made.assumptions) == assumed
    assert made.money.most == pytest.approx(2.0 if dataset["kind"] == "synthetic" else expected)


def test_the_most_is_that_of_the_dearer_input(tmp_path):
    made = checked(tmp_path, PRICE | {"cached_per_1m": 2.0}, dataset=MADE)
    assert (made.money.expected, made.money.most) == (pytest.approx(2.0), pytest.approx(3.0))


def test_prompts_shorter_than_the_template_are_told_and_count_as_long_as_they_become(tmp_path):
    (tmp_path / "t.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        + "".join(f"2023-11-16 18:15:4{n}.0000000,{inputs},10\n" for n, inputs in enumerate((9, 30, 31, 90)))
    )
    made = checked(tmp_path, dataset={"kind": "trace", "file": "t.csv", "template_tokens": 30}, requests=8)
    assert made.needs["w"].input_tokens == (31 + 31 + 31 + 90) / 4
    assert "w: 50.0 % of its prompts are longer than asked: the template and one word have more tokens" in made.warnings


def test_only_planned_rows_of_a_trace_count(tmp_path):
    (tmp_path / "t.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:40.0,9,10\n2023-11-16 18:15:41.0,90,10\n"
    )
    items = TraceLengths(file="t.csv", template_tokens=30).load(1, tmp_path)
    assert [items.lengthened(np.array(rows, dtype=np.int64)) for rows in ([0], [1], [0, 1, 2], [])] == [
        1,
        0,
        pytest.approx(2 / 3),
        0.5,
    ]


def test_a_calibration_tells_what_it_cannot_meet():
    spec = Synthetic(input_tokens=Uniform(low=5, high=60), output_tokens=5)
    plain = spec.load(1)
    assert (plain.lengthened(np.array([], dtype=np.int64)), plain.expected.input_tokens) == (0.0, 32.5)
    fitted = plain.calibrated(Calibration(1.0, 30))
    # 26 of the 56 lengths are below 31; the mean of the others and of those is (26 * 31 + sum of 31 to 60) / 56.
    assert fitted.lengthened(np.array([], dtype=np.int64)) == pytest.approx(26 / 56, abs=0.01)
    assert fitted.expected.input_tokens == pytest.approx((26 * 31 + sum(range(31, 61))) / 56, abs=0.2)
    words = [len(plain.conversation(item).turns[0].text.split()) for item in range(200)]
    assert fitted.lengthened(np.arange(200)) == sum(count < 31 for count in words) / 200
    assert {len(fitted.conversation(item).turns[0].text.split()) + 30 >= 31 for item in range(50)} == {True}
    assert needs(load_workload(), fitted, Speed(), np.array([], dtype=np.int64)).lengthened == fitted.lengthened(
        np.array([], dtype=np.int64)
    )


def load_workload():
    raw = {"name": "x", "target": {"url": "http://h/v1", "model": "m"}, "workload": {"w": {"dataset": MADE}}}
    return load(raw | {"requests": 1, "arrivals": {"kind": "constant", "rate": "1/s"}}).workload["w"]
