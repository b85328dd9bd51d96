"""Conversations, a client and somebody who watches, for tests of traffic on virtual time."""

from r1perf.client import Reply
from r1perf.datasets import Conversation, Expected, Turn
from r1perf.loop import Cancelled
from r1perf.result import Outcome, Result, Usage

MS, S = 10**6, 10**9
T0 = 1_000 * S


class Talks:
    """Conversations of `turns` turns with think time between them."""

    size = None
    digest = "talks"

    def __init__(self, turns=1, think_ms=0, expected=None):
        self.turns, self.think_ms, self.right = turns, think_ms, expected
        self.expected = Expected(turns, None, None)

    def conversation(self, item):
        turns = tuple(
            Turn(text=f"{item}.{n}", think_time_ns=self.think_ms * MS if n else 0, expected=self.right) for n in range(self.turns)
        )
        return Conversation(turns=turns)


class FakeClient:
    """Answers after `service_ms`; `outcomes` says by request id what comes of it, else ok; `told` are the tokens of those that were not. Keeps what it was asked."""

    def __init__(
        self, loop, service_ms=100, outcomes=None, retry_after_ns=None, output_tokens=10, status=500, answer=None, told=Usage()
    ):
        self.loop, self.service_ms, self.outcomes, self.retry_after_ns = loop, service_ms, outcomes or {}, retry_after_ns
        self.output_tokens, self.status, self.answer, self.told = output_tokens, status, answer, told
        self.sent, self.calls = [], []

    def prepare(self, call):
        return call

    def send(self, ticket, call, stream):
        stream.sent_ns = self.loop.now_ns()
        self.sent.append((ticket.id, (stream.sent_ns - T0) / MS))
        self.calls.append(call)
        outcome = self.outcomes.get(ticket.id, Outcome.OK)
        try:
            self.loop.sleep_until(stream.sent_ns + self.service_ms * MS)
        except Cancelled:
            outcome = Outcome.CANCELLED
        ok = outcome is Outcome.OK
        result = Result(
            id=ticket.id, arrival=ticket.arrival, turn=ticket.turn, workload=ticket.workload, stage=ticket.stage, item=ticket.item,
            outcome=outcome, status=200 if ok else self.status, scheduled_ns=ticket.scheduled_ns, sent_ns=stream.sent_ns,
            done_ns=self.loop.now_ns(), streamed=False, last_ns=self.loop.now_ns() if ok else None,
            usage=Usage(output_tokens=self.output_tokens) if ok else self.told, token_source="server" if ok else None,
            retry_after_ns=self.retry_after_ns,
        )  # fmt: skip
        return Reply(result, (self.answer or f"answer to {ticket.id}") if call.keep_answer else None)

    def close(self):
        pass


class Silent:
    """A collector's view that keeps what it is told."""

    def __init__(self):
        self.notes = []

    def note(self, sentence):
        self.notes.append(sentence)

    def show(self, summary, phase):
        pass
