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
from r1perf.target import Call
from r1perf.traces import Ints

ROUNDS = (1, 3)
"""The fitted texts hold the whole vocabulary so many times, so that no luck of a draw is in its tokens a word."""

REQUESTS = len(ROUNDS) + 2
"""What a calibration asks."""

MOST = 768
"""Words of a text that tells the error, at most: longer prompts cost more and err less."""


@runtime_checkable
class Estimated(Protocol):
    """Items whose texts are made of counted words."""

    vocabulary: Vocabulary
    shortest: int  # the shortest and the longest prompt, in tokens
    longest: int
    estimated: bool  # lengths are to be found: nobody said how this server counts

    def calibrated(self, calibration: Calibration) -> Items:
        """Return the same prompts at corrected lengths."""

    def lengthened(self, items: Ints) -> float:
        """Return the share of these items (of all where there are none) that are shorter than any prompt can be made."""


class _Untold(Exception):
    """Say why the server has not told a count."""


class Failed(msgspec.Struct, frozen=True):
    """Why a workload could not be calibrated, in one sentence; its lengths stay estimates."""

    why: str


def calibrate(
    loop: Loop, name: str, source: WorkloadSource, client: Client[Any], budget: Budget, key: str
) -> Calibration | Failed | None:
    """Ask the server how it counts one workload's words: four requests of one output token. None where nothing is to be found.

    Two texts hold every word equally often and give tokens a word and the template's own tokens. Two are drawn as the run's own
    texts are, as long as its shortest and its longest prompt, and tell the error. `key` makes these new to every cache. Nothing is asked
    where the hard limits have no room for these requests and one of the run.
    """
    items = source.items
    if not isinstance(items, Estimated) or not items.estimated:
        return None
    vocabulary, counts = items.vocabulary, list[tuple[int, int]]()
    first = items.conversation(0)
    asked = [_call(source, vocabulary.even(words)) for words in (*(n * len(vocabulary.words) for n in ROUNDS), MOST, MOST)]
    if not budget.fits([*asked, source.call(first, first.turns[0], first.before)]):
        return Failed(
            f"{name}: lengths are not calibrated: its {len(asked)} requests and one of the run do not fit into the limits of `stop`"
        )

    def ask(words: int, text: str) -> None:
        counts.append((words, _count(loop, name, len(counts), text, source, client, budget)))

    try:
        for rounds in ROUNDS:
            words = rounds * len(vocabulary.words)
            ask(words, vocabulary.even(words))
        fitted = fit(counts)
        for number, tokens in enumerate((items.shortest, items.longest)):
            words = min(MOST, fitted.words(tokens))
            ask(words, vocabulary.made(words, "calibration", key, name, number))
    except (_Untold, ValueError) as why:
        return Failed(f"{name}: lengths are not calibrated: {why}")
    error = max(abs(fitted.tokens(words) - tokens) / tokens for words, tokens in counts)
    return msgspec.structs.replace(fitted, error=error, requests=len(counts), input_tokens=sum(tokens for _, tokens in counts))


def _call(source: WorkloadSource, text: str) -> Call:
    turn = Turn(text=text, max_tokens=1)
    return source.call(Conversation(turns=(turn,)), turn, ())


def _count(loop: Loop, name: str, number: int, text: str, source: WorkloadSource, client: Client[Any], budget: Budget) -> int:
    """Send one text and return the input tokens that the server counted; raises _Untold where there are none."""
    call = _call(source, text)
    hold = budget.reserve(call)
    if isinstance(hold, str):
        raise _Untold(hold)
    now_ns = loop.now_ns()
    ticket = Ticket(
        id=f"calibration.{name}.{number}", arrival=-1, turn=number, workload=name, stage=0, item=-1, scheduled_ns=now_ns
    )
    result = client.send(ticket, client.prepare(call), Stream(name, 0, now_ns)).result
    budget.settle(hold, result)
    if result.outcome not in (Outcome.OK, Outcome.TRUNCATED):
        said = result.message or result.reason or ""
        raise _Untold(f"a request for it ended as {result.outcome}" + (f" ({said})" if said else ""))
    if result.token_source != "server" or not result.usage.input_tokens:
        raise _Untold("the server does not tell its token counts")
    return result.usage.input_tokens
