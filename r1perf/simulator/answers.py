"""Make answers: how long the model thinks and answers, and the words, one token a word, the same for the same prompt."""

import hashlib
from functools import cache
from random import Random

import msgspec

from r1perf.simulator.profiles import Lengths

RING = 4096
"""How many tokens of filler there are before they repeat; a power of two."""

_THOUGHTS = (
    "Let me read the problem again .", "So we need to find the value first .", "Wait , that is not quite right .",
    "Let me check this step once more .", "If I set it up this way , the terms cancel .", "Alternatively , try a small case .",
    "Hmm , the two sides should agree here .", "That gives the same result as before .", "Now take the next condition .",
    "This follows from what we have shown .", "Let me count the cases one by one .", "There is a simpler way to see it .",
    "The sum over all of them stays the same .", "I should be careful with the sign .", "So far this looks consistent .",
    "Okay , put the pieces together .",
)  # fmt: skip


class Plan(msgspec.Struct, frozen=True):
    r"""Say what one request will be answered with: `reasoning` of the `total` output tokens are thinking.

    `closed` says that thinking came to its end. The tokens from `tail_at` on are the `tail`, all others filler, which is
    read from `offset` on. `finish` is "stop" or "length". `boxed` is what stands in the final `\boxed{}`.
    """

    reasoning: int
    closed: bool
    total: int
    finish: str
    offset: int
    tail_at: int
    tail: tuple[str, ...] = ()
    boxed: str | None = None


class Limits(msgspec.Struct, frozen=True):
    """Hold what a request says of its length; `longest` is what the context leaves."""

    longest: int
    max_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False


@cache
def filler() -> tuple[str, ...]:
    """Return the ring of filler tokens."""
    random = Random("filler")
    words: list[str] = []
    while len(words) < RING:
        words += random.choice(_THOUGHTS).split()
    return tuple(word if word in (",", ".") else f" {word}" for word in words[:RING])


def plan(
    text: str, asked: str, lengths: Lengths, limits: Limits, *, seed: str = "", answer: str | None = None, thinks: bool = True
) -> Plan:
    r"""Decide length, text and final answer from the prompt's text and a seed; `asked` says what kind of question it is.

    What holds `\boxed`, or two dollar signs as LaTeX has them, is mathematics. Where it holds `\boxed`, the
    answer ends in `\boxed{N}`: N is `answer` with the profile's accuracy, otherwise another integer of 0..999; where the
    right answer isn't known it is an integer that means nothing. `thinks` is false for a model without reasoning.
    """
    digest = hashlib.blake2b(f"{seed}\0{text}".encode(), digest_size=8).digest()
    random = Random(digest)
    maths = "\\boxed" in asked or asked.count("$") >= 2
    thinking_normal, answer_normal = random.gauss(0, 1), random.gauss(0, 1)
    boxed = _boxed(random, lengths.accuracy, answer) if "\\boxed" in asked else None
    tail = (".",) if boxed is None else (" The", " final", " answer", " is", " $", "\\boxed{", boxed, "}", "$", ".")
    thinking = (lengths.thinking_maths if maths else lengths.thinking_chat).tokens(thinking_normal) if thinks else 0
    answering = max(len(tail), (lengths.answer_maths if maths else lengths.answer_chat).tokens(answer_normal))
    natural = thinking + answering
    allowed = max(1, min(limits.longest, limits.max_tokens if limits.max_tokens is not None else limits.longest))
    wanted = allowed if limits.ignore_eos else max(natural, limits.min_tokens)
    total = min(wanted, allowed)
    finish = "length" if limits.ignore_eos or wanted > allowed else "stop"
    if thinks and lengths.reasoning_share is not None:
        thinking = round(total * lengths.reasoning_share)
    whole = total if finish == "stop" or total >= natural else natural
    return Plan(
        reasoning=min(thinking, total), closed=thinking <= total, total=total, finish=finish, offset=random.randrange(RING),
        tail_at=max(thinking, whole - len(tail)), tail=tail, boxed=boxed,
    )  # fmt: skip


def token(plan: Plan, index: int) -> str:
    """Return the text of one output token."""
    if index >= plan.tail_at and index - plan.tail_at < len(plan.tail):
        return plan.tail[index - plan.tail_at]
    return filler()[(plan.offset + index) & (RING - 1)]


def _boxed(random: Random, accuracy: float, answer: str | None) -> str:
    """Choose the final answer: the right one with that probability."""
    right, other = random.random() < accuracy, random.randrange(1, 1000)
    if answer is None:
        return str(other)
    if right:
        return answer
    return str((int(answer) + other) % 1000) if answer.isdecimal() else str(other)
