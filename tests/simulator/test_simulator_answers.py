"""Lengths and texts of answers, prompts as tokens, and the reading of request bodies."""

import json
import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st
from onwire import ASK, SMALL, exchange

from r1perf.simulator.answers import Limits, plan, token
from r1perf.simulator.calls import Refused, read_call
from r1perf.simulator.dialects import DIALECTS
from r1perf.simulator.profiles import PROFILES, Length, Lengths
from r1perf.simulator.prompts import block_hashes, chat_text, tokens_of

R1 = PROFILES["r1-16xh100"].lengths
AIME = "Find the number. Please reason step by step, and put your final answer within \\boxed{}."


def test_the_same_prompt_gives_the_same_answer_and_another_seed_another() -> None:
    limits = Limits(60_000)
    one, again, other = (plan(AIME, AIME, R1, limits, seed=seed) for seed in ("0:", "0:", "1:"))
    assert one == again
    assert (one.reasoning, one.offset) != (other.reasoning, other.offset)


def test_mathematics_is_thought_about_longer_than_chat() -> None:
    def thinking(text: str) -> float:
        plans = [plan(f"{index} {text}", text, R1, Limits(10**9)) for index in range(2_000)]
        return fmean(made.reasoning for made in plans)

    # The mean of a lognormal is median * exp(sigma^2 / 2): 12,010 and 482; four standard errors each.
    assert thinking(AIME) == pytest.approx(9_400 * math.exp(0.245), abs=4 * 9_523 / math.sqrt(2_000))
    assert thinking("Let $x$ be a number.") == pytest.approx(12_010, abs=4 * 9_523 / math.sqrt(2_000))
    assert thinking("Hello") == pytest.approx(350 * math.exp(0.32), abs=4 * 456 / math.sqrt(2_000))


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (Limits(100), (3, True, 6, "stop")),
        (Limits(100, max_tokens=6), (3, True, 6, "stop")),
        (Limits(100, max_tokens=5), (3, True, 5, "length")),
        (Limits(100, max_tokens=2), (2, False, 2, "length")),
        (Limits(4), (3, True, 4, "length")),
        (Limits(100, min_tokens=9), (3, True, 9, "stop")),
        (Limits(100, max_tokens=8, min_tokens=9), (3, True, 8, "length")),
        (Limits(100, max_tokens=20, ignore_eos=True), (3, True, 20, "length")),
        (Limits(100, ignore_eos=True), (3, True, 100, "length")),
    ],
    ids=["natural", "just", "in-answer", "in-thought", "context", "min", "min-over-max", "ordered", "to-the-context"],
)
def test_lengths(limits: Limits, expected: tuple[int, bool, int, str]) -> None:
    made = plan("hello", "hello", SMALL.lengths, limits)
    assert (made.reasoning, made.closed, made.total, made.finish) == expected


def test_a_share_of_reasoning_is_that_share_of_what_is_sent() -> None:
    exact = PROFILES["exact"].lengths
    made = plan("hello", "hello", exact, Limits(10_000, max_tokens=250, ignore_eos=True))
    assert (made.reasoning, made.total) == (125, 250)


def test_a_model_without_reasoning_only_answers() -> None:
    made = plan("hello", "hello", SMALL.lengths, Limits(100), thinks=False)
    assert (made.reasoning, made.total) == (0, 3)


class TestFinalAnswer:
    r"""Prompts that ask for `\boxed{}` get one."""

    @pytest.mark.parametrize(("accuracy", "answer", "same"), [(1.0, "73", True), (0.0, "73", False), (0.0, "073", False)])
    def test_right_or_wrong(self, accuracy: float, answer: str, same: bool) -> None:
        fixed = Length(30, 0)
        lengths = Lengths(fixed, fixed, fixed, fixed, accuracy=accuracy)
        for index in range(200):
            made = plan(f"{AIME}{index}", AIME, lengths, Limits(100), answer=answer)
            text = "".join(token(made, k) for k in range(made.total))
            assert text.endswith(f" The final answer is $\\boxed{{{made.boxed}}}$.")
            assert (made.boxed == answer) == same
            assert made.boxed is not None
            assert (int(made.boxed) == int(answer)) == same

    def test_the_share_of_right_answers_is_the_accuracy(self) -> None:
        right = [plan(f"{AIME}{k}", AIME, R1, Limits(10**6), answer="5").boxed == "5" for k in range(2_000)]
        assert fmean(right) == pytest.approx(0.7, abs=4 * math.sqrt(0.21 / 2_000))

    def test_without_an_answer_to_give_it_is_an_integer(self) -> None:
        boxed = plan(AIME, AIME, R1, Limits(10**6)).boxed
        assert boxed is not None
        assert 1 <= int(boxed) <= 999

    def test_an_answer_that_is_cut_has_no_end(self) -> None:
        _, paper, made = exchange(
            stream=False, max_tokens=5, messages=[{"role": "user", "content": AIME}], headers={"x-r1sim-answer": "7"}
        )
        assert b"boxed" not in paper.body
        assert made.truth.answer == "7"

    def test_chat_is_not_boxed(self) -> None:
        assert plan("hello", "hello", R1, Limits(10**6)).boxed is None

    def test_only_the_last_message_and_the_system_prompt_say_what_is_asked(self) -> None:
        def asked(*messages: tuple[str, str]) -> str:
            body = {"messages": [{"role": role, "content": content} for role, content in messages]}
            return read_call(json.dumps(body).encode(), chat=True, models=("m",), context=999, dialect=DIALECTS["vllm"]).asked

        assert "\\boxed" not in asked(("user", AIME), ("assistant", "\\boxed{3}"), ("user", "thanks"))
        assert "\\boxed" in asked(("system", AIME), ("user", "hi"))


def test_a_longer_chat_begins_with_the_shorter_one() -> None:
    first = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    later = [*first, {"role": "assistant", "content": "Hello"}, {"role": "user", "content": [{"type": "text", "text": "Bye"}]}]
    assert chat_text(later) == "Be brief.<|User|>Hi<|Assistant|>Hello<|end|><|User|>Bye<|Assistant|>"
    assert chat_text(later).startswith(chat_text(first))


@given(start=st.binary(max_size=200), one=st.binary(max_size=80), two=st.binary(max_size=80), block=st.integers(1, 8))
def test_blocks_are_equal_as_far_as_the_prompts_are(start: bytes, one: bytes, two: bytes, block: int) -> None:
    first, second = block_hashes(start + one, block), block_hashes(start + two, block)
    assert len(first) == len(start + one) // (4 * block)
    common = 0
    while common < min(len(start + one), len(start + two)) and (start + one)[common] == (start + two)[common]:
        common += 1
    same = [left == right for left, right in zip(first, second, strict=False)]
    assert same == [index < common // (4 * block) for index in range(len(same))]


def test_a_salt_makes_every_block_another() -> None:
    assert not set(block_hashes(b"x" * 64, 2)) & set(block_hashes(b"x" * 64, 2, "salt"))


@pytest.mark.parametrize(("size", "tokens"), [(0, 1), (1, 1), (4, 1), (5, 2), (400, 100)])
def test_four_bytes_are_a_token(size: int, tokens: int) -> None:
    assert tokens_of(b"x" * size) == tokens


@pytest.mark.parametrize(
    ("body", "chat", "dialect", "status", "message"),
    [
        (b"{", True, "vllm", 400, "the body is not JSON"),
        (b"[]", True, "vllm", 400, "not a JSON object"),
        ({**ASK, "model": "gpt"}, True, "vllm", 404, "The model `gpt` does not exist."),
        ({"messages": []}, True, "vllm", 400, "messages must be a list"),
        ({"messages": "hi"}, True, "vllm", 400, "messages must be a list"),
        ({}, False, "vllm", 400, "prompt must be one text"),
        ({"prompt": ["a", "b"]}, False, "vllm", 400, "prompt must be one text"),
        ({**ASK, "n": 2}, True, "vllm", 400, "n must be 1"),
        ({**ASK, "max_tokens": 0}, True, "vllm", 400, "max_tokens must be an integer of at least 1, not 0"),
        ({**ASK, "max_tokens": "5"}, True, "vllm", 400, "max_tokens must be an integer of at least 1, not '5'"),
        ({**ASK, "max_tokens": 991}, True, "vllm", 400, "maximum context length is 1000 tokens. However, you requested 991"),
        ({"prompt": "x" * 4_000}, False, "vllm", 400, "your prompt contains 1000 input tokens"),
        ({**ASK, "stream": False, "stream_options": {"include_usage": True}}, True, "vllm", 400, "can only be defined when"),
        ({**ASK, "cache_salt": "x"}, True, "trtllm", 400, "Extra inputs are not permitted: cache_salt"),
    ],
    ids=[
        "not-json", "not-an-object", "model", "no-messages", "messages-text", "no-prompt", "two-prompts", "n", "zero-tokens",
        "tokens-text", "too-many-tokens", "long-prompt", "stream-options", "unknown-field",
    ],
)  # fmt: skip
def test_what_is_refused(body: object, chat: bool, dialect: str, status: int, message: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises(Refused) as refused:
        read_call(raw, chat=chat, models=("deepseek-r1",), context=1_000, dialect=DIALECTS[dialect])
    assert refused.value.status == status
    assert message in refused.value.message


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [("x" * 40, 10), ([1, 2, 3], 3), ([[1, 2, 3, 70_000]], 4), (["abcd"], 1)],
    ids=["text", "ids", "nested", "list"],
)
def test_prompts_of_completions(prompt: object, tokens: int) -> None:
    raw = json.dumps({"prompt": prompt, "max_completion_tokens": 7, "max_tokens": 5}).encode()
    call = read_call(raw, chat=False, models=("m",), context=99, dialect=DIALECTS["vllm"])
    assert (call.prompt_tokens, call.limits.max_tokens, call.model) == (tokens, 7, "m")
