"""Fit made texts to a server's own counts before a run: a few small requests, counted outside of it, inside of the hard limits.

Only where lengths were left to be found: no `tokenizer`, no `tokens_per_word` or `template_tokens` of the user's own, `calibrate` not false.
"""

from typing import Any, Protocol, runtime_checkable

import msgspec

from r1perf.budget import Budget
from r1perf.client import Client, Ticket
from r1perf.datasets import Conversation, Items, Turn
from r1perf.datasets.tokens import Calibration, Vocabulary, fit
from r1perf.loop import Loop
from r1perf.result import Outcome, Stream
from r1perf.source import WorkloadSource

WORDS = (256, 768)
"""Words of the fitted texts: the whole vocabulary once and three times, so that no luck of a draw is in its tokens a word."""


@runtime_checkable
class Estimated(Protocol):
    """Items whose texts are made of counted words."""

    vocabulary: Vocabulary
    longest: int  # the longest prompt, in tokens
    estimated: bool  # lengths are to be found: nobody said how this server counts

    def calibrated(self, calibration: Calibration) -> Items:
        """Return the same prompts at corrected lengths."""


class Failed(msgspec.Struct, frozen=True):
    """Why a workload could not be calibrated, in one sentence; its lengths stay estimates."""

    why: str


def calibrate(
    loop: Loop, name: str, source: WorkloadSource, client: Client[Any], budget: Budget, key: str
) -> Calibration | Failed | None:
    """Ask the server how it counts one workload's words: four requests of one output token. None where nothing is to be found.

    Two texts hold every word equally often and give tokens a word and the template's own tokens; two drawn as the run's own
    texts are tell the error. `key` makes them new to every cache.
    """
    items = source.items
    if not isinstance(items, Estimated) or not items.estimated:
        return None
    low, high = _lengths(items)
    if low == high:
        return Failed(f"{name}: lengths are not calibrated: prompts of one word are too short for it")
    vocabulary = items.vocabulary
    start = len(key) % len(vocabulary.words)
    texts = [(words, vocabulary.even(words, start)) for words in (low, high)]
    texts += [(words, vocabulary.made(words, "calibration", key, name)) for words in (low, high)]
    counts: list[tuple[int, int]] = []
    for number, (words, text) in enumerate(texts):
        found = _count(loop, name, number, text, source, client, budget)
        if isinstance(found, str):
            return Failed(f"{name}: lengths are not calibrated: {found}")
        counts.append((words, found))
    try:
        return _fitted(counts)
    except ValueError as error:
        return Failed(f"{name}: lengths are not calibrated: {error}")


def _lengths(items: Estimated) -> tuple[int, int]:
    """Return two lengths in words that the run's own longest prompt allows."""
    longest = items.vocabulary.calibration.words(items.longest)
    return WORDS if longest >= WORDS[1] else (max(1, longest // 3), longest)


def _fitted(counts: list[tuple[int, int]]) -> Calibration:
    fitted = fit(counts[:2])
    error = max(abs(fitted.tokens(words) - tokens) / tokens for words, tokens in counts)
    return msgspec.structs.replace(fitted, error=error, requests=len(counts), input_tokens=sum(tokens for _, tokens in counts))


def _count(
    loop: Loop, name: str, number: int, text: str, source: WorkloadSource, client: Client[Any], budget: Budget
) -> int | str:
    """Send one text; return the input tokens that the server counted, or why there are none."""
    turn = Turn(text=text, max_tokens=1)
    call = source.call(Conversation(turns=(turn,)), turn, ())
    hold = budget.reserve(call)
    if isinstance(hold, str):
        return hold
    now_ns = loop.now_ns()
    ticket = Ticket(
        id=f"calibration.{name}.{number}", arrival=-1, turn=number, workload=name, stage=0, item=-1, scheduled_ns=now_ns
    )
    result = client.send(ticket, client.prepare(call), Stream(name, 0, now_ns)).result
    budget.settle(hold, result)
    if result.outcome not in (Outcome.OK, Outcome.TRUNCATED):
        said = result.message or result.reason or ""
        return f"a request for it ended as {result.outcome}" + (f" ({said})" if said else "")
    if result.token_source != "server" or not result.usage.input_tokens:
        return "the server does not tell its token counts"
    return result.usage.input_tokens
