"""What a workload's requests are expected to need, and how fast an R1-class target is assumed to answer."""

from collections.abc import Iterator

import msgspec

from r1perf.datasets import Conversation, Items
from r1perf.datasets.synthetic import Made
from r1perf.datasets.trace import Replayed
from r1perf.target import Price
from r1perf.traces import Ints
from r1perf.workload import Workload

AIME_TOKENS = 12_000
"""Mean output of DeepSeek R1 on an AIME problem, thinking included (R1-0528: 23,000; both from the R1-0528 model card)."""

REASONING_TOKENS = 3_886
"""Mean output of DeepSeek R1 over MLPerf inference's mixed set of mathematics, science and code (golden accuracy run)."""

CHAT_TOKENS = 1_000
"""Mean output of a reasoning model in chat, thinking included. An assumption: no mean is published."""

ANSWER_TOKENS = 300
"""What of an earlier answer goes into a later prompt: the answer without its thinking. An assumption."""

TOKENS_PER_S = 20.0
"""What one user gets: DeepSeek's own serving report of March 2025 has 20-22 output tokens/s."""

TTFT_S = 1.0

_WISHED: dict[str, tuple[float, str]] = {
    "aime": (AIME_TOKENS, "R1's published mean on AIME"), "chat": (CHAT_TOKENS, "thinking included"),
}  # fmt: skip

_SAMPLE, _WHOLE = 64, 1_000
"""Conversations that are looked at: so many, or all where there are not many more."""

_MANY = 1_000_000
"""Requests of a closed loop, of which nobody knows how many they will be: the first one of each prefix does not count."""


class Speed(msgspec.Struct, frozen=True):
    """How the target is assumed to answer: seconds to the first token, then tokens/s for one user.

    `answers` are mean lengths by kind of dataset, for who knows more than what is published of R1 (a simulated profile);
    `source` says who.
    """

    ttft_s: float = TTFT_S
    tokens_per_s: float = TOKENS_PER_S
    answers: dict[str, float] = {}
    source: str = ""

    def residence_s(self, output_tokens: float) -> float:
        """Return how long a request is in the system."""
        return self.ttft_s + output_tokens / self.tokens_per_s

    def says(self) -> str:
        """Say it."""
        first = f"{self.ttft_s:.3g} s" if self.ttft_s >= 1 else f"{self.ttft_s * 1000:.3g} ms"
        pace = f"{self.tokens_per_s:,.0f}" if self.tokens_per_s >= 100 else f"{self.tokens_per_s:.3g}"
        said = f"the first token after {first}, then {pace} tokens/s for each user"
        return said + (f" ({self.source})" if self.source else "")


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What a workload needs: per request tokens in and out, per conversation turns and seconds of think time.

    `wished` is the length an answer would have without a bound; `assumed` says what is not known from the dataset.
    """

    turns: float
    pauses_s: float
    input_tokens: float
    output_tokens: float
    wished: float
    most_output_tokens: int | None
    assumed: tuple[str, ...]
    bounded: bool  # every answer has some bound, even where the largest is not known
    cached: float | None = None  # share of input tokens that a prefix cache can serve, where the dataset orders it
    lengthened: float = 0.0  # share of prompts that are asked to be shorter than any can be made

    def cost(self, price: Price, output_tokens: float) -> float:
        """Price one request in USD, with what a prefix cache serves of it."""
        return price.cost(self.input_tokens, self.input_tokens * (self.cached or 0.0), output_tokens) or 0.0

    def most_cost(self, price: Price, output_tokens: float) -> float:
        """Price it with nothing in the prefix cache, or all, where that costs more."""
        given = self.input_tokens
        return max(price.cost(given, 0, output_tokens) or 0.0, price.cost(given, given, output_tokens) or 0.0)

    def uncached(self, price: Price) -> bool:
        """Tell whether cached tokens have a price that the cost leaves out, since nothing says how many there are."""
        per_token = price.input_per_1m is not None or price.output_per_1m is not None
        return per_token and price.cached_per_1m not in (None, price.input_per_1m) and self.cached is None

    @property
    def cut(self) -> bool:
        """Tell whether the bound is below the mean length, so that most answers end at it."""
        return self.most_output_tokens is not None and self.most_output_tokens < self.wished


def needs(workload: Workload, items: Items, speed: Speed, planned: Ints) -> Needs:
    """Estimate from the dataset's own expectation, from some of its conversations, and from published mean lengths.

    `planned` are the items that arrivals ask for: of a trace their own lengths count. Where every length is ordered nothing is estimated,
    and no prompt is made to be measured.
    """
    expected, assumed = items.expected, list[str]()
    if expected.ordered and expected.output_tokens is not None and expected.input_tokens is not None:
        if isinstance(items, Replayed) and len(planned):
            expected = items.expected_of(planned)
        return Needs(
            cached=_cached(workload, items, len(planned) or _MANY),
            lengthened=items.lengthened(planned) if isinstance(items, Made | Replayed) else 0.0,
            turns=1.0, pauses_s=0.0, input_tokens=expected.input_tokens or 0.0, output_tokens=expected.output_tokens or 0.0,
            wished=expected.output_tokens or 0.0, most_output_tokens=expected.most_output_tokens, assumed=(), bounded=True,
        )  # fmt: skip
    whole = items.size is not None and items.size <= _WHOLE
    sample = [items.conversation(item) for item in range(items.size if items.size is not None and whole else _SAMPLE)]
    wished = expected.output_tokens
    if wished is None:
        kind = str(workload.dataset.__struct_config__.tag)
        wished, source = _WISHED.get(kind, (REASONING_TOKENS, "R1's mean over MLPerf's mixed set"))
        if kind in speed.answers:
            wished, source = speed.answers[kind], f"{speed.source}, thinking included" if speed.source else "thinking included"
        assumed.append(f"answers of {wished:,.0f} tokens, {source}")
    pauses = sum(turn.think_time_ns for conversation in sample for turn in conversation.turns) / 1e9 / max(1, len(sample))
    # The turns' own orders and bounds come before the workload's.
    asked = [turn for conversation in sample for turn in conversation.turns]
    bounds = [turn.output_tokens or turn.max_tokens or workload.max_tokens for turn in asked]
    known = [int(bound) for bound in bounds if bound is not None]
    bounded, own = 0 < len(known) == len(bounds), any(turn.output_tokens or turn.max_tokens for turn in asked)
    lengths = [turn.output_tokens or min(wished, bound or wished) for turn, bound in zip(asked, bounds, strict=True)]
    given = expected.input_tokens
    if given is None:
        output = iter(lengths)
        given = sum(_input_tokens(conversation, output) for conversation in sample) / max(1, len(asked))
        kept = min(ANSWER_TOKENS, max(lengths, default=ANSWER_TOKENS))
        assumed.append(f"prompts of {given:,.0f} tokens: earlier turns with answers of {kept:,.0f} tokens, 4 characters a token")
    return Needs(
        turns=max(1.0, expected.turns), pauses_s=pauses, input_tokens=given, wished=wished, assumed=tuple(assumed),
        output_tokens=sum(lengths) / max(1, len(lengths)),
        most_output_tokens=max(known) if bounded and (whole or not own) else None, bounded=bounded,
    )  # fmt: skip


def _cached(workload: Workload, items: Items, requests: int) -> float | None:
    """Return the share of input tokens that a prefix cache can serve, where texts are new in this run or share what is ordered."""
    ratio = items.hit_ratio(requests) if isinstance(items, Made) else 0.0
    return ratio if ratio or (isinstance(items, Made) and workload.dataset.cache == "bust") else None


def _input_tokens(conversation: Conversation, outputs: Iterator[float]) -> float:
    """Add up the prompts of all turns of a conversation, each with everything before it; `outputs` are its answers' lengths."""
    said = sum(len(message.content) for message in conversation.before) / 4
    total = 0.0
    for turn, output in zip(conversation.turns, outputs, strict=False):
        said += len(turn.text) / 4
        total += said
        said += min(ANSWER_TOKENS, output) if turn.recorded_answer is None else len(turn.recorded_answer) / 4
    return total


def time_text(seconds: float) -> str:
    """Write a length of time for people."""
    if 0 < seconds < 0.001:
        return "under 1ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{seconds:.3g}s"
