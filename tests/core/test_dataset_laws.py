"""What holds for every dataset: item i is the same whatever was asked before, on every worker; digests tell data and parameters."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets import Conversation
from r1perf.datasets.aime import Aime
from r1perf.datasets.chat import Chat, SystemPrompts
from r1perf.datasets.openai import OpenAI
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.registry import AnyDataset
from r1perf.datasets.streams import Picker, stream
from r1perf.datasets.synthetic import Prefix, Synthetic
from r1perf.datasets.trace import TraceLengths

DOCS = Path(__file__).parents[2] / "docs" / "datasets.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")

    def lines(name, rows):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    lines("aime.jsonl", [{"problem": f"What is {k}?", "answer": f"{k:03d}", "solution": "It is." * k} for k in range(1, 8)])
    lines("chat.jsonl", [
        {"conversations": [{"from": "human", "value": f"q{k}"}, {"from": "gpt", "value": "a"}, {"from": "human", "value": "more"}]}
        for k in range(5)
    ])  # fmt: skip
    lines("prompts.jsonl", [{"prompt": f"p{k}", "output_tokens": k + 1} for k in range(6)])
    lines("bodies.jsonl", [{"messages": [{"role": "user", "content": f"b{k}"}], "max_tokens": 5} for k in range(4)])
    lines("trace.jsonl", [
        {"timestamp": 1000 * k, "input_length": 600 + k, "output_length": 9, "hash_ids": [0, k]} for k in range(1, 9)
    ])  # fmt: skip
    return folder


KINDS = {
    "aime made": Aime(),
    "aime file": Aime(file="aime.jsonl"),
    "aime choice": Aime(file="aime.jsonl", sample="choice", raw=True, cache="bust"),
    "chat made": Chat(affinity_header="x-session-affinity"),
    "chat history": Chat(history="dataset", system=SystemPrompts(count=2, tokens=60)),
    "chat file": Chat(file="chat.jsonl", cache="bust"),
    "prompts": Prompts(prompts=("a", "b", "c"), order="shuffled"),
    "prompts file": Prompts(file="prompts.jsonl", cache="warm"),
    "openai": OpenAI(file="bodies.jsonl", order="shuffled", cache="bust"),
    "synthetic": Synthetic(input_tokens=100, output_tokens=20),
    "synthetic prefix": Synthetic(input_tokens=200, output_tokens=20, prefix=Prefix(groups=3, hit_ratio=0.4)),
    "trace": TraceLengths(file="trace.jsonl"),
}

each_kind = pytest.mark.parametrize("spec", KINDS.values(), ids=KINDS)


def test_all_kinds_are_held_to_the_laws():
    assert {type(spec) for spec in KINDS.values()} == set(get_args(AnyDataset))


@each_kind
def test_an_item_is_the_same_whatever_was_asked_before(spec, folder):
    one, other = spec.load(7, folder, "run"), spec.load(7, folder, "run")
    forwards = [one.conversation(item) for item in range(40)]
    backwards = [other.conversation(item) for item in reversed(range(40))][::-1]
    assert forwards == backwards
    assert one.conversation(3) == forwards[3]
    assert one.digest == other.digest
    assert all(isinstance(c, Conversation) and c.turns and all(t.text for t in c.turns) for c in forwards)


@each_kind
def test_far_items_exist(spec, folder):
    items = spec.load(7, folder)
    assert items.conversation(10**6) == spec.load(7, folder).conversation(10**6)


@each_kind
def test_another_seed_asks_something_else(spec, folder):
    one, other = spec.load(1, folder), spec.load(2, folder)
    same = [one.conversation(k) for k in range(30)] == [other.conversation(k) for k in range(30)]
    assert same is (spec == KINDS["prompts file"])  # prompts in the file's order owe nothing to the seed
    assert one.digest != other.digest


@each_kind
def test_what_is_expected_is_what_comes(spec, folder):
    items = spec.load(5, folder)
    count = 400
    conversations = [items.conversation(item) for item in range(count)]
    turns = [turn for conversation in conversations for turn in conversation.turns]
    assert len(turns) / count == pytest.approx(items.expected.turns, rel=0.1)
    if items.expected.output_tokens is not None:
        assert sum(turn.output_tokens for turn in turns) / len(turns) == pytest.approx(items.expected.output_tokens, rel=0.1)
    assert items.size is None or items.size > 0


@each_kind
def test_kinds_decode_from_what_they_encode_to(spec):
    plain = json.loads(msgspec.json.encode(spec, enc_hook=repr))
    again = msgspec.convert(plain, AnyDataset, dec_hook=lambda kind, value: kind(value))
    assert again == spec


def test_the_digest_tells_the_bytes_of_files(tmp_path):
    digests = set()
    for content in ('{"prompt": "a"}\n', '{"prompt": "b"}\n', '{"prompt": "b"}\n\n'):
        (tmp_path / "p.jsonl").write_text(content)
        digests.add(Prompts(file="p.jsonl").load(1, tmp_path).digest)
    assert len(digests) == 3


def test_the_digest_tells_parameters():
    specs = [Synthetic(input_tokens=n, output_tokens=m) for n in (10, 11) for m in (20, 21)]
    assert len({spec.load(1).digest for spec in specs}) == 4


@pytest.mark.parametrize(
    ("table", "says"),
    [
        pytest.param({"kind": "aim"}, "Invalid value 'aim'", id="kind"),
        pytest.param({"kind": "aime", "dificulty": 1}, "unknown field `dificulty`", id="key"),
        pytest.param({"kind": "aime", "difficulty": 4}, "`int` <= 3", id="difficulty"),
        pytest.param({"kind": "aime", "file": "a", "hub": "b"}, "`file` and `hub` cannot be given both", id="two sources"),
        pytest.param({"kind": "aime", "solution_room": True}, "`solution_room` needs a `file` or `hub` set", id="room"),
        pytest.param({"kind": "prompts"}, "needs either `prompts = [", id="no prompts"),
        pytest.param({"kind": "prompts", "prompts": ["a"], "file": "b"}, "needs either `prompts = [", id="both prompts"),
        pytest.param({"kind": "prompts", "prompts": ["a", ""]}, "`prompts` holds an empty text", id="empty prompt"),
        pytest.param({"kind": "chat", "think_time": "soon"}, 'think_time: "soon" is not a duration', id="think time"),
        pytest.param({"kind": "chat", "turns": {"dist": "uniform", "low": 4, "high": 2}}, "turns: low (4) must not", id="turns"),
        pytest.param({"kind": "chat", "affinity_header": "a b"}, 'affinity_header: "a b" is no header name', id="header"),
        pytest.param({"kind": "synthetic", "input_tokens": 5}, "missing required field `output_tokens`", id="no output"),
        pytest.param({"kind": "synthetic", "input_tokens": 0, "output_tokens": 1}, "`int` >= 1", id="no input"),
        pytest.param({"kind": "synthetic", "input_tokens": 9, "output_tokens": 1, "cache": "warm"}, "Invalid enum", id="cache"),
        pytest.param(
            {"kind": "synthetic", "input_tokens": 9, "output_tokens": 1, "template_tokens": 9},
            "input_tokens: must be above template_tokens (9)",
            id="template",
        ),
        pytest.param(
            {"kind": "synthetic", "input_tokens": 20, "output_tokens": 1, "prefix": {"hit_ratio": 0.5}},
            "prefix.hit_ratio: 0.5 cannot be had with these lengths in blocks of 16 tokens; the nearest is",
            id="hit ratio",
        ),
        pytest.param(
            {"kind": "synthetic", "input_tokens": 20, "output_tokens": 1, "prefix": {"groups": 2}},
            "needs either `hit_ratio` or `tokens`",
            id="prefix",
        ),
        pytest.param({"kind": "trace"}, "missing required field `file`", id="no trace"),
    ],
)
def test_a_wrong_table_is_told(table, says):
    with pytest.raises(msgspec.ValidationError) as error:
        msgspec.convert(table, AnyDataset)
    assert says in str(error.value)


def test_the_smallest_tables_decode():
    for table in (
        {"kind": "aime"},
        {"kind": "chat"},
        {"kind": "prompts", "prompts": ["hello"]},
        {"kind": "synthetic", "input_tokens": 512, "output_tokens": 128},
        {"kind": "openai", "file": "x.jsonl"},
        {"kind": "trace", "file": "x.jsonl"},
    ):
        msgspec.convert(table, AnyDataset)


def test_every_kind_has_its_heading_in_the_docs():
    headings = re.findall(r"^## `(.+?)`", DOCS.read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(kind.__struct_config__.tag for kind in get_args(AnyDataset))


def test_every_key_of_every_kind_is_in_its_section():
    sections = dict(re.findall(r"^## `(.+?)`\n(.*?)(?=^## |\Z)", DOCS.read_text(), re.MULTILINE | re.DOTALL))
    for kind in get_args(AnyDataset):
        for field in kind.__struct_fields__:
            assert f"`{field}`" in sections[kind.__struct_config__.tag], (kind, field)


def test_no_library_of_an_extra_is_loaded_for_what_needs_none():
    code = "import sys, r1perf.datasets.registry as r; r.Aime().load(1).conversation(0); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"pyarrow", "tokenizers", "datasets", "huggingface_hub", "gevent", "socket"} & set(loaded)


@given(st.integers(0, 2**63), st.text(max_size=8), st.integers(0, 10**9))
def test_streams_are_functions_of_seed_name_and_item(seed, name, item):
    draws = [stream(seed, name, item).random() for _ in range(2)]
    assert draws[0] == draws[1]
    assert draws[0] != stream(seed, name, item + 1).random()
    assert draws[0] != stream(seed, name + "x", item).random()
    assert draws[0] != stream(seed + 1, name, item).random()


@given(st.integers(0, 2**32), st.integers(1, 50), st.integers(0, 30))
def test_a_shuffled_pass_is_a_permutation(seed, count, turn):
    pick = Picker(seed, "x", count, "shuffled")
    assert sorted(pick(turn * count + place) for place in range(count)) == list(range(count))


def test_passes_differ_and_choice_repeats():
    shuffled, choice = Picker(1, "x", 30, "shuffled"), Picker(1, "x", 30, "choice")
    passes = [tuple(shuffled(turn * 30 + k) for k in range(30)) for turn in range(5)]
    assert len(set(passes)) == 5
    assert sorted(choice(k) for k in range(30)) == list(range(30))
    later = [choice(k) for k in range(30, 3030)]
    assert len({*later[:30]}) < 30  # drawn with replacement
    assert set(later) == set(range(30))
    assert [Picker(1, "x", 3, "sequential")(k) for k in range(7)] == [0, 1, 2, 0, 1, 2, 0]
