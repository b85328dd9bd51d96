"""Hints for caches: where marks stand, who sends them, and who is refused."""

import pytest

from r1perf.datasets.synthetic import Prefix, Synthetic
from r1perf.errors import ScenarioError
from r1perf.providers.hints import MARK, marked
from r1perf.providers.openai import OpenAI
from r1perf.providers.openrouter import OpenRouter
from r1perf.scenario import load
from r1perf.source import WorkloadSource
from r1perf.target import Call, Message, Target
from r1perf.workload import Workload

SYSTEM, USER, ANSWER = Message("system", "be brief"), Message("user", "hello"), Message("assistant", "hi")
TARGET = Target(url="https://openrouter.ai/api/v1", model="m")


def part(text, *, mark=False):
    return {"type": "text", "text": text} | ({"cache_control": MARK} if mark else {})


MARKED = [
    pytest.param([USER], [("user", [part("hello", mark=True)])], id="one message"),
    pytest.param(
        [SYSTEM, USER], [("system", [part("be brief", mark=True)]), ("user", [part("hello", mark=True)])], id="system prompt"
    ),
    pytest.param(
        [SYSTEM, USER, ANSWER, USER],
        [("system", [part("be brief", mark=True)]), ("user", "hello"), ("assistant", "hi"), ("user", [part("hello", mark=True)])],
        id="a later turn",
    ),
    pytest.param(
        [Message("user", "shared own", 7)], [("user", [part("shared ", mark=True), part("own", mark=True)])], id="shared start"
    ),
    pytest.param([Message("user", "shared", 6)], [("user", [part("shared", mark=True)])], id="all shared"),
    pytest.param([SYSTEM], [("system", [part("be brief", mark=True)])], id="system alone"),
]


@pytest.mark.parametrize(("messages", "made"), MARKED)
def test_marks_stand_where_other_requests_go_on_from(messages, made):
    assert marked(messages) == [{"role": role, "content": content} for role, content in made]


def test_a_message_is_never_marked_more_than_four_times_in_all():
    found = marked([SYSTEM, Message("user", "ab", 1), ANSWER, Message("user", "cd", 1)])
    marks = [
        one for message in found if isinstance(message["content"], list) for one in message["content"] if "cache_control" in one
    ]
    assert len(marks) == 4


@pytest.mark.parametrize(
    ("dialect", "asked", "kind"), [(OpenRouter(), True, list), (OpenRouter(), False, str), (OpenAI(), True, str)]
)
def test_only_who_takes_marks_and_is_asked_sends_them(dialect, asked, kind):
    body = dialect.body(TARGET, Call(messages=(USER,), model="m", cache_control=asked))
    assert isinstance(body["messages"][0]["content"], kind)


def test_the_text_is_the_same_with_and_without_marks():
    spec = Synthetic(input_tokens=64, output_tokens=4, prefix=Prefix(groups=2, tokens=32), cache_control=True)
    source = WorkloadSource(Workload(dataset=spec), spec.load(1), TARGET)
    conversation = source.items.conversation(0)
    call = source.call(conversation, conversation.turns[0], ())
    (message,) = OpenRouter().body(TARGET, call)["messages"]
    assert [("cache_control" in one, len(one["text"].split())) for one in message["content"]] == [(True, 32), (True, 32)]
    assert "".join(one["text"] for one in message["content"]) == conversation.turns[0].text
    turns = [source.items.conversation(item).turns[0] for item in range(20)]
    assert len({turn.text[: turn.shared] for turn in turns}) == 2


def scenario(provider="litellm", endpoint="chat/completions", **dataset):
    return load({
        "name": "x", "duration": "1m", "arrivals": {"kind": "poisson", "rate": "1/s"},
        "target": {"url": "http://h/v1", "model": "m", "provider": provider, "endpoint": endpoint},
        "workload": {"w": {"dataset": {"kind": "chat"} | dataset}},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("provider", "endpoint", "says"),
    [
        ("vllm", "chat/completions", "`vllm` takes no hints for its cache (`target.provider`); allowed: openrouter, litellm, in chats"),
        ("auto", "chat/completions", "`openai` takes no hints for its cache (`target.provider`); allowed: openrouter, litellm, in chats"),
        ("litellm", "completions",
         "the completions endpoint takes no hints for its cache (`target.provider`); allowed: openrouter, litellm, in chats"),
    ],
    ids=["vllm", "unknown", "completions"],
)  # fmt: skip
def test_hints_that_nobody_would_read_are_refused_before_the_run(provider, endpoint, says):
    with pytest.raises(ScenarioError) as caught:
        scenario(provider, endpoint, cache_control=True)
    assert str(caught.value) == f"`workload.w.dataset.cache_control`: {says}"
    assert scenario(provider, endpoint, cache_control=False).workload["w"].dataset.cache_control is False


def test_hints_are_taken_where_somebody_reads_them():
    assert scenario(cache_control=True).workload["w"].dataset.cache_control is True
