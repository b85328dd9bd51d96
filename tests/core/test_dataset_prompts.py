"""Prompts and request bodies of the user's own."""

import json

import pytest

from r1perf.datasets import Turn
from r1perf.datasets.openai import OpenAI
from r1perf.datasets.prompts import Prompts
from r1perf.errors import DatasetError
from r1perf.scenario import load
from r1perf.target import Message


def test_a_list_comes_in_order_and_again():
    items = Prompts(prompts=("a", "b")).load(1)
    assert [items.conversation(k).turns[0].text for k in range(5)] == ["a", "b", "a", "b", "a"]
    assert (items.size, items.expected.turns, items.expected.output_tokens) == (2, 1.0, None)


def test_shuffled_shows_each_once_a_pass():
    items = Prompts(prompts=tuple("abcdefgh"), order="shuffled").load(1)
    shown = [items.conversation(k).turns[0].text for k in range(16)]
    assert sorted(shown[:8]) == sorted(shown[8:]) == list("abcdefgh")
    assert shown[:8] != list("abcdefgh")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        pytest.param("p.jsonl", '{"prompt": "x", "output_tokens": 7}\n', id="vllm custom"),
        pytest.param("p.csv", "prompt,output_tokens\nx,7\n", id="csv"),
        pytest.param("p.csv", "prompt,output_tokens\nx,7.0\n", id="csv of a column with gaps"),
        pytest.param("p.json", '[{"prompt": "x", "output_tokens": 7}]', id="json"),
    ],
)
def test_output_tokens_order_a_length(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    items = Prompts(file=name).load(1, tmp_path)
    assert items.conversation(0).turns == (Turn(text="x", output_tokens=7),)
    assert items.expected.output_tokens == 7


def test_expected_answers_and_system_prompts(tmp_path):
    (tmp_path / "p.jsonl").write_text(
        '{"prompt": "x", "expected": 73, "system": "be brief"}\n{"prompt": "y", "expected": null}\n'
    )
    items = Prompts(file="p.jsonl").load(1, tmp_path)
    assert items.conversation(0).turns[0].expected == "73"
    assert items.conversation(0).before == (Message("system", "be brief"),)
    assert items.conversation(1).turns[0].expected is None
    assert items.expected.output_tokens is None


def test_what_is_missing_in_a_column_of_numbers_is_none(tmp_path):
    """A table keeps such a column as floats, with NaN in the gaps."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    nan = float("nan")
    columns = {"prompt": ["a", "b"], "expected": [73.0, nan], "output_tokens": [nan, 7.0], "system": [nan, nan]}
    parquet.write_table(pa.table(columns), tmp_path / "p.parquet")
    items = Prompts(file="p.parquet").load(1, tmp_path)
    turns = [items.conversation(k).turns[0] for k in range(2)]
    assert [(turn.expected, turn.output_tokens) for turn in turns] == [("73", None), (None, 7)]
    assert items.conversation(0).before == ()


def test_a_text_file_is_a_prompt_a_line(tmp_path):
    (tmp_path / "p.txt").write_text("first\n\nsecond\n")
    items = Prompts(file="p.txt").load(1, tmp_path)
    assert [items.conversation(k).turns[0].text for k in range(2)] == ["first", "second"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        pytest.param({"text": "x"}, "has no `prompt` (it has text)", id="no prompt"),
        pytest.param({"prompt": None, "answer": 1}, "has no `prompt` (it has answer)", id="null"),
        pytest.param({"prompt": ""}, "`prompt` must be text that is not empty, not ''", id="empty"),
        pytest.param(
            {"prompt": "x", "output_tokens": 0},
            "`output_tokens` is 0; allowed: a whole number from 1 to 16,777,216, or none",
            id="zero",
        ),
        pytest.param({"prompt": "x", "output_tokens": "many"}, "`output_tokens` is 'many'; allowed", id="word"),
        pytest.param({"prompt": "x", "output_tokens": 2**25}, "`output_tokens` is 33554432; allowed: a whole", id="too long"),
        pytest.param({"prompt": "x", "output_tokens": "9" * 5000}, "`output_tokens` is '9999", id="5,000 digits"),
        pytest.param(
            {"prompt": "x", "expected": ["73"]}, "`expected` is ['73']; allowed: a text or a number, or none", id="list"
        ),
        pytest.param({"prompt": "x", "expected": {"a": 1}}, "`expected` is {'a': 1}; allowed: a text or a number", id="object"),
        pytest.param({"prompt": "x", "expected": True}, "`expected` is True; allowed: a text or a number, or none", id="yes"),
        pytest.param({"prompt": "x", "output_tokens": True}, "`output_tokens` is True; allowed", id="bool"),
        pytest.param({"prompt": "x", "system": 3}, "`system` must be text that is not empty, not 3", id="system"),
    ],
)
def test_a_wrong_row_is_told(tmp_path, line, says):
    (tmp_path / "p.jsonl").write_text('{"prompt": "ok"}\n\n' + json.dumps(line))
    with pytest.raises(DatasetError) as error:
        Prompts(file="p.jsonl").load(1, tmp_path)
    assert f"{tmp_path / 'p.jsonl'} line 3: {says}" in str(error.value)


BODY = {
    "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    "max_completion_tokens": 9,
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "temperature": 0.1,
}


def test_bodies_are_passed_through(tmp_path):
    (tmp_path / "b.jsonl").write_text(json.dumps(BODY) + "\n" + json.dumps({"prompt": "p", "max_tokens": 3}))
    items = OpenAI(file="b.jsonl").load(1, tmp_path)
    first, second = (items.conversation(k).turns[0] for k in range(2))
    assert (first.body, first.max_tokens, first.text) == (BODY, 9, "s\nhello")
    assert (second.body, second.max_tokens, second.text) == ({"prompt": "p", "max_tokens": 3}, 3, "p")


def test_batch_files_are_taken_by_their_body(tmp_path):
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": BODY})
    )
    assert OpenAI(file="b.jsonl").load(1, tmp_path).conversation(0).turns[0].body == BODY


MESSAGES = [{"role": "user", "content": "x"}]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        pytest.param({"messages": MESSAGES, "prompt": "x"}, "has both `messages` and `prompt`; allowed: one of them", id="both"),
        pytest.param({"messages": MESSAGES, "max_tokens": -1}, "`max_tokens` is -1; allowed: a whole number from 1", id="minus"),
        pytest.param({"prompt": "x", "max_tokens": "9"}, "`max_tokens` is '9'; allowed: a whole number from 1", id="text"),
        pytest.param({"prompt": "x", "max_completion_tokens": True}, "`max_completion_tokens` is True; allowed", id="bool"),
        pytest.param(
            {"url": "/v1/embeddings", "body": {"prompt": "x"}},
            "`url` is '/v1/embeddings', but its body is one for completions",
            id="url",
        ),
        pytest.param(
            {"url": "/v1/completions", "body": {"messages": MESSAGES}},
            "`url` is '/v1/completions', but its body is one for chat/completions",
            id="other url",
        ),
        pytest.param(
            {"url": "/v1/chat/completions", "body": {"prompt": "x"}}, "but its body is one for completions", id="longer url"
        ),
    ],
)
def test_a_body_that_cannot_work_is_told(tmp_path, row, says):
    (tmp_path / "b.jsonl").write_text('{"prompt": "x"}\n' + json.dumps(row))
    with pytest.raises(DatasetError) as error:
        OpenAI(file="b.jsonl").load(1, tmp_path)
    assert "b.jsonl line 2: " in str(error.value)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("body", "endpoint", "other"),
    [
        ({"prompt": "x", "messages": None, "max_tokens": None}, "completions", "chat/completions"),
        ({"messages": MESSAGES}, "chat/completions", "completions"),
    ],
    ids=["prompt", "messages"],
)
def test_bodies_are_for_the_target_s_endpoint(tmp_path, body, endpoint, other):
    (tmp_path / "b.jsonl").write_text(json.dumps(body))
    raw = {"name": "x", "duration": "1s", "arrivals": {"kind": "constant", "rate": "1/s"}}
    raw |= {"workload": {"w": {"dataset": {"kind": "openai", "file": "b.jsonl"}}}}
    target = {"url": "http://h/v1", "model": "m"}
    assert load(raw | {"target": target | {"endpoint": endpoint}}).items(tmp_path)["w"].size == 1
    with pytest.raises(DatasetError) as error:
        load(raw | {"target": target | {"endpoint": other}}).items(tmp_path)
    place = f"`workload.w.dataset`: {tmp_path / 'b.jsonl'} line 1"
    assert str(error.value) == f'{place}: is a body for {endpoint}, but `target.endpoint` is "{other}"'


@pytest.mark.parametrize("key", ["n", "best_of"])
def test_bodies_of_several_answers_do_not_go_with_a_limit_that_reserves_one(tmp_path, key):
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"messages": MESSAGES, key: 1}) + "\n" + json.dumps({"messages": MESSAGES, key: 3})
    )
    raw = {
        "name": "x",
        "duration": "1s",
        "arrivals": {"kind": "constant", "rate": "1/s"},
        "target": {"url": "http://h/v1", "model": "m"},
    }
    raw |= {"workload": {"w": {"dataset": {"kind": "openai", "file": "b.jsonl"}, "max_tokens": 9}}}
    assert load(raw | {"stop": {"requests": 9}}).items(tmp_path)["w"].size == 2
    with pytest.raises(DatasetError) as error:
        load(raw | {"stop": {"output_tokens": 99}}).items(tmp_path)
    assert str(error.value) == (
        f"`workload.w.dataset`: {tmp_path / 'b.jsonl'} line 2: asks for more than one answer (`n` or `best_of`), "
        "but `stop.output_tokens` reserves one each"
    )


def test_two_bounds_of_a_body_are_reserved_at_the_larger(tmp_path):
    (tmp_path / "b.jsonl").write_text(json.dumps({"messages": MESSAGES, "max_completion_tokens": 5, "max_tokens": 70}))
    assert OpenAI(file="b.jsonl").load(1, tmp_path).conversation(0).turns[0].max_tokens == 70


@pytest.mark.parametrize(
    "body",
    [{}, {"messages": []}, {"messages": "x"}, {"messages": [{"content": "x"}]}, {"messages": ["x"]}, {"prompt": 3}],
    ids=["nothing", "empty", "text", "no role", "no object", "prompt"],
)
def test_what_is_no_body_is_told(tmp_path, body):
    (tmp_path / "b.jsonl").write_text(json.dumps(body))
    with pytest.raises(
        DatasetError, match=r"b\.jsonl line 1: must have `messages`, a list of objects with a `role`, or `prompt`"
    ):
        OpenAI(file="b.jsonl").load(1, tmp_path)
