"""Conversations of several turns: made ones, or recorded ones in ShareGPT's shape."""

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from r1perf.datasets import Conversation, Expected, Items, Told, Turn, lengths, silent, talk
from r1perf.datasets.cache import Cache, cached
from r1perf.datasets.files import Rows, open_rows, read_all
from r1perf.datasets.sharegpt import Exchange, Recorded, read_recorded
from r1perf.datasets.streams import Order, Picker, fingerprint, stream
from r1perf.datasets.words import digest, estimated_tokens
from r1perf.errors import DatasetError
from r1perf.target import Message

_TAKEN = r"(proxy-)?authorization|(x-)?api-key|host|connection|transfer-encoding|accept.*|content-.*|expect|te|trailer|upgrade"
"""Headers that carry keys, or that say how a request is to be read."""


class SystemPrompts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """System prompts that conversations share: how many different ones, each about how long in tokens; `count = 0` sends none."""

    count: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = 4
    tokens: lengths.Length = 200


class Chat(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="kind", tag="chat"):
    """Multi-turn conversations with think time between the turns.

    Made ones by default; with a `file`, recorded ones (`conversations` or `messages`), of which `turns`, where given, keeps the
    first turns only. `history = "server"` carries the server's own answers into later turns, "dataset" the recorded (or made,
    `answer_tokens` long) ones, so that different targets get equal inputs. `affinity_header` names a header that carries one
    value for all requests of a conversation, for routers that keep a session on one replica.
    """

    file: str | None = None
    turns: lengths.Length | None = None  # made ones: uniform from 1 to 5
    system: SystemPrompts | None = None  # made ones: 4 of about 200 tokens
    message_tokens: lengths.Length = lengths.Lognormal(median=60, sigma=0.8, low=8, high=2000)
    answer_tokens: lengths.Length = lengths.Lognormal(median=250, sigma=0.7, low=16, high=2000)
    think_time: lengths.Times = lengths.Lognormal(median="5s", sigma=0.6, low="1s", high="60s")
    history: Literal["server", "dataset"] = "server"
    affinity_header: str | None = None
    order: Order = "shuffled"
    cache: Cache = "natural"
    cache_control: bool = False

    def __post_init__(self) -> None:
        """Read the distributions, so that a wrong one is told before the run."""
        _Laws(self)
        if self.affinity_header is not None and not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", self.affinity_header):
            raise ValueError(
                f'affinity_header: "{self.affinity_header}" is no header name; allowed: one such as "x-session-affinity"'
            )
        if re.fullmatch(_TAKEN, self.affinity_header or "", re.IGNORECASE):
            raise ValueError(
                f'affinity_header: "{self.affinity_header}" has a meaning of its own in a request; allowed: one such as "x-session-affinity"'
            )

    def load(self, seed: int, base: Path | None = None, salt: str = "", told: Told = silent) -> Items:
        """Load the conversations; raises DatasetError with file, line and reason."""
        if self.file is None:
            return _Made(self, seed, salt)
        return _Stored(self, open_rows(self.file, base, told), seed, salt, told)


class _Laws:
    """The distributions of a chat."""

    def __init__(self, spec: Chat) -> None:
        default = lengths.Uniform(low=1, high=5) if spec.file is None else None
        turns = spec.turns if spec.turns is not None else default
        self.turns = None if turns is None else lengths.turns(turns, "turns")
        self.message = lengths.tokens(spec.message_tokens, "message_tokens")
        self.answer = lengths.tokens(spec.answer_tokens, "answer_tokens")
        self.think = lengths.times(spec.think_time, "think_time")
        system = spec.system if spec.system is not None else SystemPrompts(count=4 if spec.file is None else 0)
        self.systems = system.count
        self.system = lengths.tokens(system.tokens, "system.tokens")


class _Source:
    """What made and recorded conversations share."""

    def __init__(self, spec: Chat, seed: int, salt: str, content: str = "") -> None:
        self._spec, self._seed, self._salt, self._laws = spec, seed, salt, _Laws(spec)
        self.digest = fingerprint(spec, seed, content)
        self._systems = tuple(
            Message("system", talk.system_prompt(k, self._laws.system.draw(stream(seed, "chat/system", k)), seed))
            for k in range(self._laws.systems)
        )

    def conversation(self, item: int) -> Conversation:
        recorded = self._recorded(item)
        times = stream(self._seed, "chat/think", item)
        before = recorded.before
        if self._systems:
            # A prompt of the scenario's own takes the place of a recorded one.
            before = (self._systems[stream(self._seed, "chat/which-system", item).randrange(len(self._systems))],)
        turns = tuple(
            Turn(
                text=exchange.said,
                recorded_answer=exchange.answered if self._spec.history == "dataset" else None,
                think_time_ns=self._laws.think.draw(times) if number else 0,
            )
            for number, exchange in enumerate(recorded.exchanges)
        )
        headers = {}
        if self._spec.affinity_header is not None:
            headers[self._spec.affinity_header] = digest(self._salt, self._seed, "session", item).hex()
        plain = Conversation(turns=turns, before=before, headers=headers)
        return cached(plain, self._spec.cache, self._salt, self._seed, item)

    def _recorded(self, item: int) -> Recorded:
        raise NotImplementedError


class _Made(_Source):
    def __init__(self, spec: Chat, seed: int, salt: str) -> None:
        super().__init__(spec, seed, salt)
        self.size: int | None = None
        laws = self._laws
        assert laws.turns is not None
        turns, message, answer = laws.turns, laws.message.mean, laws.answer.mean
        # A request of turn t carries t messages and t - 1 answers: over T turns T (T + 1) / 2 and T (T - 1) / 2.
        inputs = None
        if spec.history == "dataset" or turns.mean_of(lambda t: t - 1) == 0:
            said, answered = turns.mean_of(lambda t: t * (t + 1) / 2), turns.mean_of(lambda t: t * (t - 1) / 2)
            inputs = (laws.system.mean if laws.systems else 0) + (said * message + answered * answer) / turns.mean
        self.expected = Expected(turns.mean, inputs, None)

    def _recorded(self, item: int) -> Recorded:
        random, laws = stream(self._seed, "chat", item), self._laws
        assert laws.turns is not None
        exchanges = []
        count = laws.turns.draw(random)
        for turn in range(count):
            say = talk.follow_up if turn else talk.opening
            said = say(random, laws.message.draw(random), "chat", self._seed, item, turn)
            length = laws.answer.draw(random)
            answered = None
            if self._spec.history == "dataset" and turn + 1 < count:
                answered = talk.sentences(length, "answer", self._seed, item, turn)
            exchanges.append(Exchange(said, answered))
        return Recorded((), tuple(exchanges))


class _Stored(_Source):
    def __init__(self, spec: Chat, rows: Rows, seed: int, salt: str, told: Told) -> None:
        super().__init__(spec, seed, salt, rows.digest)
        self._rows = rows
        self._usable: list[int] = []
        turns, inputs = 0, 0.0
        for index, recorded in enumerate(read_all(rows, read_recorded, told)):
            kept = self._kept(recorded, len(self._usable))
            if not kept:
                continue
            self._usable.append(index)
            turns += len(kept)
            inputs += _input_tokens(recorded.before, kept)
        if not self._usable:
            raise DatasetError(f"{spec.file}: none of its {len(rows)} conversations can be asked; allowed: a user message"
                               + (" and an answer after each but the last" if spec.history == "dataset" else ""))  # fmt: skip
        self.left_out = None
        if unusable := len(rows) - len(self._usable):
            self.left_out = f"{unusable:,} of {spec.file}'s {len(rows):,} conversations cannot be asked and are left out"
            told(self.left_out)
        self.size: int | None = len(self._usable)
        self._pick = Picker(seed, "chat", len(self._usable), spec.order)
        own = spec.history == "dataset" or turns == len(self._usable)
        extra = self._laws.system.mean if self._laws.systems else 0
        self.expected = Expected(turns / len(self._usable), inputs / turns + extra if own else None, None)

    def _recorded(self, item: int) -> Recorded:
        place = self._pick(item)
        recorded = read_recorded(self._rows.row(self._usable[place]))
        return Recorded(recorded.before, self._kept(recorded, place))

    def _kept(self, recorded: Recorded, place: int) -> tuple[Exchange, ...]:
        """Keep the first turns: as many as drawn, and with recorded history up to the first that has no answer."""
        exchanges = recorded.exchanges
        if self._spec.history == "dataset":
            missing = next((k for k, exchange in enumerate(exchanges) if exchange.answered is None), len(exchanges) - 1)
            exchanges = exchanges[: missing + 1]
        if self._laws.turns is not None:
            exchanges = exchanges[: self._laws.turns.draw(stream(self._seed, "chat/turns", place))]
        return exchanges


def _input_tokens(before: tuple[Message, ...], exchanges: tuple[Exchange, ...]) -> float:
    """Estimate the input of all requests of a conversation together, with its recorded answers as history."""
    history, total = sum(estimated_tokens(message.content) for message in before), 0.0
    for exchange in exchanges:
        history += estimated_tokens(exchange.said)
        total += history
        history += estimated_tokens(exchange.answered or "")
    return total
