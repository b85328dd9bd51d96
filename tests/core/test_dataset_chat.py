"""Chats: made and recorded conversations, history, shared system prompts, think time, affinity."""

import json
from collections import Counter
from statistics import median

import pytest

from r1perf.datasets.chat import Chat, SystemPrompts
from r1perf.datasets.lengths import Uniform
from r1perf.datasets.sharegpt import Exchange, read_recorded
from r1perf.errors import DatasetError
from r1perf.target import Message


def first(items, count):
    return [items.conversation(item) for item in range(count)]


def test_turns_are_drawn_evenly_and_only_later_ones_are_thought_about():
    conversations = first(Chat().load(1), 1000)
    turns = Counter(len(conversation.turns) for conversation in conversations)
    assert set(turns) == {1, 2, 3, 4, 5}
    assert min(turns.values()) > 150
    assert all(conversation.turns[0].think_time_ns == 0 for conversation in conversations)
    pauses = [turn.think_time_ns for conversation in conversations for turn in conversation.turns[1:]]
    assert min(pauses) >= 1_000_000_000
    assert max(pauses) <= 60_000_000_000
    assert median(pauses) == pytest.approx(5e9, rel=0.05)


def test_system_prompts_are_shared():
    conversations = first(Chat(system=SystemPrompts(count=3, tokens=120)).load(1), 200)
    prompts = Counter(conversation.before for conversation in conversations)
    assert len(prompts) == 3
    assert min(prompts.values()) > 40
    assert all(before[0].role == "system" and len(before) == 1 for before in prompts)
    assert [len(before[0].content.split()) for before in prompts] == pytest.approx([111] * 3, abs=14)


def test_no_system_prompt_where_none_is_wanted():
    assert all(c.before == () for c in first(Chat(system=SystemPrompts(count=0)).load(1), 20))


def test_messages_are_about_as_long_as_wanted():
    spec = Chat(message_tokens=300, turns=2)
    lengths = [len(turn.text.split()) * 1.08 for conversation in first(spec.load(1), 100) for turn in conversation.turns]
    assert sum(lengths) / len(lengths) == pytest.approx(300, rel=0.05)


def test_made_history_is_the_dataset_s_own_only_where_asked():
    server = first(Chat(turns=3).load(1), 20)
    own = first(Chat(turns=3, history="dataset", answer_tokens=100).load(1), 20)
    assert all(turn.recorded_answer is None for conversation in server for turn in conversation.turns)
    for conversation in own:
        assert [turn.recorded_answer is None for turn in conversation.turns] == [False, False, True]
        assert len(conversation.turns[0].recorded_answer.split()) == pytest.approx(98, abs=14)
    # The questions do not depend on whose answers stand between them.
    assert [[turn.text for turn in c.turns] for c in server] == [[turn.text for turn in c.turns] for c in own]


def test_input_is_expected_with_its_history():
    spec = Chat(turns=3, message_tokens=100, answer_tokens=200, history="dataset", system=SystemPrompts(count=1, tokens=50))
    # Requests carry 1, 2, 3 messages and 0, 1, 2 answers, and the system prompt each.
    assert spec.load(1).expected.input_tokens == pytest.approx(50 + 100 * 2 + 200 * 1)
    assert Chat(turns=3).load(1).expected.input_tokens is None
    assert Chat(turns=1, message_tokens=100, system=SystemPrompts(count=0)).load(1).expected.input_tokens == pytest.approx(100)


@pytest.mark.parametrize(
    "name", ["authorization", "Api-Key", "X-API-Key", "Host", "content-type", "Content-Length", "proxy-authorization"]
)
def test_an_affinity_header_takes_no_other_s_place(name):
    with pytest.raises(
        ValueError, match=f'affinity_header: "{name}" has a meaning of its own in a request; allowed: one such as'
    ):
        Chat(affinity_header=name)


def test_affinity_names_the_conversation():
    items = Chat(affinity_header="x-session-affinity").load(1, salt="run-1")
    values = [conversation.headers["x-session-affinity"] for conversation in first(items, 50)]
    assert len(set(values)) == 50
    assert Chat(affinity_header="x-session-affinity").load(1, salt="run-2").conversation(0).headers != {
        "x-session-affinity": values[0]
    }
    assert Chat().load(1).conversation(0).headers == {}


def human(text):
    return {"from": "human", "value": text}


def gpt(text):
    return {"from": "gpt", "value": text}


@pytest.mark.parametrize(
    ("row", "before", "exchanges"),
    [
        pytest.param({"conversations": [human("a"), gpt("b"), human("c")]}, (), (("a", "b"), ("c", None)), id="sharegpt"),
        pytest.param(
            {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
            (Message("system", "s"),),
            (("a", "b"),),
            id="messages",
        ),
        pytest.param({"conversations": [gpt("x"), human("a"), gpt("b")]}, (), (("a", "b"),), id="begins with an answer"),
        pytest.param({"conversations": [human("a"), human("b"), gpt("c"), gpt("d")]}, (), (("a\n\nb", "c\n\nd"),), id="in a row"),
        pytest.param({"conversations": [gpt("x")]}, (), (), id="nobody asks"),
        pytest.param({"conversations": [human("a"), gpt("<think>zz</think>\n\nA2")]}, (), (("a", "A2"),), id="reasoning"),
        pytest.param({"conversations": [human("a"), gpt("zz</think>A2")]}, (), (("a", "A2"),), id="reasoning without its opening tag"),
        pytest.param({"conversations": [human("a"), gpt("<think>zz")]}, (), (("a", ""),), id="nothing but reasoning"),
        pytest.param({"conversations": []}, (), (), id="empty"),
        pytest.param({"conversations": [human(" "), gpt("b")]}, (), (), id="blank question"),
        pytest.param({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": None}]}, (), (("a", ""),), id="null"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "x"}}, {"type": "text", "text": "b"}]}]},
            (), (("a\nb", None),), id="parts",
        ),
        pytest.param({"conversations": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}, (), (("a", "b"),), id="mixed names"),
        pytest.param({"conversation": [{"role": "user", "content": "a", "language": "en"}], "model": "m"}, (), (("a", None),), id="lmsys"),
        pytest.param(
            {"id": "QWJhYvA_0", "conversations": [human("a"), {"from": "gpt", "value": "b", "markdown": None}, {"from": "tool", "value": "t"}, gpt("c")]},
            (), (("a", "b"), ("t", "c")), id="more keys",
        ),
    ],
)  # fmt: skip
def test_recorded_shapes(row, before, exchanges):
    recorded = read_recorded(row)
    assert recorded.before == before
    assert recorded.exchanges == tuple(Exchange(*pair) for pair in exchanges)


@pytest.mark.parametrize(
    ("row", "says"),
    [
        pytest.param(
            {"conversations": [{"from": "alien", "value": "x"}]},
            '`conversations[0]` is from "alien"; allowed: human, user, tool, function, observation, function_response, '
            "tool_response, ipython, gpt, assistant, chatgpt, bing, bard, model, bot, function_call, tool_call, system, developer",
            id="nobody knows",
        ),
        pytest.param({"text": "x"}, "has neither `conversations` nor `messages` (it has text)", id="no column"),
        pytest.param({"conversations": "x"}, "`conversations` must be a list of messages", id="no list"),
        pytest.param(
            {"conversations": ["x"]},
            '`conversations[0]` must have "from" and "value", or "role" and "content" (it has nothing)',
            id="no object",
        ),
        pytest.param(
            {"conversations": [human("a"), {"from": "human"}]},
            '`conversations[1]` must have "from" and "value", or "role" and "content" (it has from)',
            id="no value",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": 3}]},
            "`messages[0].content` must be a text or a list of parts, not 3",
            id="number",
        ),
        pytest.param(
            {"messages": [{"role": "user", "content": ["a"]}]},
            "`messages[0].content` must be a text or a list of parts, not ['a']",
            id="no parts",
        ),
    ],
)
def test_a_wrong_conversation_is_told(tmp_path, row, says):
    (tmp_path / "c.jsonl").write_text(json.dumps({"conversations": [human("a")]}) + "\n" + json.dumps(row))
    with pytest.raises(DatasetError) as error:
        Chat(file="c.jsonl").load(1, tmp_path)
    assert str(error.value) == f"{tmp_path / 'c.jsonl'} line 2: {says}"


@pytest.fixture
def recorded(tmp_path):
    rows = [
        {"conversations": [human("a1"), gpt("b1"), human("a2"), gpt("b2"), human("a3")]},
        {"conversations": [gpt("x")]},
        {"conversations": [human("c1"), human("c2")]},
    ]
    (tmp_path / "c.json").write_text(json.dumps(rows))
    return tmp_path


def test_recorded_conversations_keep_their_turns(recorded):
    items = Chat(file="c.json", order="sequential").load(1, recorded)
    assert (items.size, items.left_out) == (2, "1 of c.json's 3 conversations cannot be asked and are left out")
    assert [turn.text for turn in items.conversation(0).turns] == ["a1", "a2", "a3"]
    assert all(turn.recorded_answer is None for turn in items.conversation(0).turns)
    assert [turn.text for turn in items.conversation(1).turns] == ["c1\n\nc2"]
    assert [turn.text for turn in items.conversation(2).turns] == ["a1", "a2", "a3"]
    assert items.conversation(0).before == ()
    assert items.expected.turns == 2.0


def test_recorded_history_carries_recorded_answers(recorded):
    conversation = Chat(file="c.json", order="sequential", history="dataset").load(1, recorded).conversation(0)
    assert [(turn.text, turn.recorded_answer) for turn in conversation.turns] == [("a1", "b1"), ("a2", "b2"), ("a3", None)]


def test_turns_cut_recorded_conversations(recorded):
    items = Chat(file="c.json", order="sequential", turns=2).load(1, recorded)
    assert [turn.text for turn in items.conversation(0).turns] == ["a1", "a2"]
    drawn = [Chat(file="c.json", order="sequential", turns=Uniform(low=1, high=3)).load(seed, recorded) for seed in range(30)]
    assert {len(loaded.conversation(0).turns) for loaded in drawn} == {1, 2, 3}
    assert all(loaded.expected.turns == (len(loaded.conversation(0).turns) + 1) / 2 for loaded in drawn)


def test_a_scenario_s_system_prompts_stand_in_for_recorded_ones(tmp_path):
    row = {"messages": [{"role": "system", "content": "recorded"}, {"role": "user", "content": "a"}]}
    (tmp_path / "c.jsonl").write_text(json.dumps(row))
    assert Chat(file="c.jsonl").load(1, tmp_path).conversation(0).before == (Message("system", "recorded"),)
    own = Chat(file="c.jsonl", system=SystemPrompts(count=1, tokens=20)).load(1, tmp_path).conversation(0).before
    assert len(own) == 1
    assert own[0].content != "recorded"


def test_a_file_that_nobody_can_be_asked_from(tmp_path):
    (tmp_path / "c.jsonl").write_text(json.dumps({"conversations": [gpt("x")]}))
    with pytest.raises(DatasetError, match=r"c\.jsonl: none of its 1 conversations can be asked; allowed: a user message$"):
        Chat(file="c.jsonl").load(1, tmp_path)
