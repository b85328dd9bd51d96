"""Prefix caching: a nonce of one length, one prefix for all, or nothing."""

import pytest

from r1perf.datasets import Conversation, Turn
from r1perf.datasets.aime import Aime
from r1perf.datasets.cache import PREFIX_WORDS, cached
from r1perf.target import Message

PLAIN = Conversation(turns=(Turn(text="ask", expected="1"), Turn(text="more")))
WITH_SYSTEM = Conversation(turns=(Turn(text="ask"),), before=(Message("system", "rules"), Message("user", "x")))


def test_natural_is_as_it_comes():
    assert cached(PLAIN, "natural", "run", 1) is PLAIN


@pytest.mark.parametrize("mode", ["bust", "warm"])
def test_the_prefix_stands_at_the_very_start_and_nowhere_else(mode):
    plain, system = cached(PLAIN, mode, "run", 1), cached(WITH_SYSTEM, mode, "run", 1)
    prefix, _, rest = plain.turns[0].text.partition("\n\n")
    assert (rest, len(prefix.split())) == ("ask", PREFIX_WORDS)
    assert (plain.turns[0].expected, plain.turns[1]) == ("1", PLAIN.turns[1])
    assert system.before[0].content == f"{prefix}\n\nrules"
    assert (system.before[1], system.turns) == (WITH_SYSTEM.before[1], WITH_SYSTEM.turns)


def test_bust_differs_by_conversation_and_run_and_warm_never():
    keys = [("run", item) for item in range(500)] + [("other run", item) for item in range(500)]
    assert len({cached(PLAIN, "bust", *key).turns[0].text for key in keys}) == 1000
    assert len({cached(PLAIN, "warm", *key).turns[0].text for key in keys}) == 1
    assert cached(PLAIN, "bust", "run", 1) == cached(PLAIN, "bust", "run", 1)


@pytest.mark.parametrize(
    ("body", "start"),
    [
        pytest.param({"messages": [{"role": "user", "content": "ask"}]}, ("messages", 0, "content"), id="text"),
        pytest.param(
            {"messages": [{"role": "user", "content": [{"type": "text", "text": "ask"}]}]},
            ("messages", 0, "content", 0, "text"),
            id="parts",
        ),
        pytest.param({"messages": [{"role": "user", "content": None}]}, ("messages", 0, "content", 0, "text"), id="null"),
        pytest.param({"prompt": "ask"}, ("prompt",), id="prompt"),
    ],
)
def test_bodies_get_it_too_and_are_not_changed_in_place(body, start):
    before = repr(body)
    found = cached(Conversation(turns=(Turn(text="ask", body=body),)), "bust", 1).turns[0].body
    for step in start:
        found = found[step]
    assert len(found.partition("\n\n")[0].split()) == PREFIX_WORDS
    assert repr(body) == before


def test_a_dataset_s_bust_is_new_in_every_run_but_asks_the_same():
    one, other = Aime(cache="bust").load(1, salt="run-1"), Aime(cache="bust").load(1, salt="run-2")
    a, b = one.conversation(0).turns[0].text, other.conversation(0).turns[0].text
    assert a != b
    assert a.partition("\n\n")[2] == b.partition("\n\n")[2] == Aime().load(1).conversation(0).turns[0].text
    assert one.digest == other.digest
