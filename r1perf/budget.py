"""The hard limits of `[stop]`: what has been spent, and what is in flight taken at its most, never passes them."""

from collections.abc import Iterable

import msgspec

from r1perf.result import Outcome, Result
from r1perf.target import Call, Price, Target

TEMPLATE_TOKENS = 16
"""What a chat template adds at most, once and for each message (R1's: 1 and 1 to 3), beside the text's own tokens."""


MAYBE_SENT = frozenset({"connect", "eof", "reset"})
"""Reasons of a `connect_error` that the SDK gives for a new connection too which had taken the request."""


class Limits(msgspec.Struct, frozen=True):
    """The part of `[stop]` that one worker holds; None where there is no such limit. It is one of `shards` equal shares."""

    cost: float | None = None  # USD
    output_tokens: int | None = None
    requests: int | None = None
    shards: int = 1

    def share(self, shards: int) -> "Limits":
        """Return one worker's equal share: each holds its own, so that all together never pass the whole."""
        return Limits(
            cost=None if self.cost is None else self.cost / shards,
            output_tokens=None if self.output_tokens is None else self.output_tokens // shards,
            requests=None if self.requests is None else self.requests // shards,
            shards=shards,
        )

    @property
    def whose(self) -> str:
        """Say whose limit it is, for sentences."""
        return "" if self.shards == 1 else f" (this worker's share, one of {self.shards})"


class Hold(msgspec.Struct, frozen=True):
    """What one request may cost at most."""

    cost: float
    output_tokens: int


NOTHING = Hold(0.0, 0)
"""The hold of a request where there is no limit."""


class Budget:
    """Reserve before sending, settle at the end.

    A request is reserved at all its output tokens and at one input token a byte of its prompt (a byte-level tokenizer
    never makes more), with some for the template and `extra_bytes` for what every request carries beside it. It is settled at the
    server's own counts; where the server never said, and the request was sent and not refused, the reservation stays spent: nobody
    knows what was billed.
    """

    def __init__(self, limits: Limits, price: Price, extra_bytes: int = 0) -> None:
        self._limits = limits
        self._price = price
        self._extra_bytes = extra_bytes
        self._spent = Hold(0.0, 0)
        self._held = Hold(0.0, 0)
        self._holds = 0
        self._requests = 0

    def fits(self, calls: Iterable[Call]) -> bool:
        """Tell whether all of these could be reserved; nothing is."""
        before = self._held, self._holds, self._requests
        fit = not any(isinstance(self.reserve(call), str) for call in calls)
        self._held, self._holds, self._requests = before
        return fit

    def reserve(self, call: Call) -> "Hold | str":
        """Reserve one request; return its hold, or the sentence that says which limit it could pass or has reached."""
        limits = self._limits
        if limits.requests is not None and self._requests >= limits.requests:
            return f"the limit of {limits.requests:,} requests{limits.whose} is reached"
        if limits.cost is None and limits.output_tokens is None:
            self._requests += 1
            return NOTHING
        most = call.output_tokens or call.max_tokens
        if most is None:
            return "a limit of cost or output tokens needs `max_tokens` on every workload: this request has none"
        given = self.input_most(call)
        hold = Hold(max(self._cost(given, 0, most), self._cost(given, given, most)), most)
        tokens = self._spent.output_tokens + self._held.output_tokens + hold.output_tokens
        if limits.output_tokens is not None and tokens > limits.output_tokens:
            return (
                f"the limit of {limits.output_tokens:,} output tokens{limits.whose} could be passed: {self._spent.output_tokens:,} spent so far, "
                f"{self._flying()} may use {self._held.output_tokens:,}, the next one {hold.output_tokens:,}"
            )
        cost = self._spent.cost + self._held.cost + hold.cost
        if limits.cost is not None and cost > limits.cost:
            return (
                f"the limit of {usd(limits.cost)}{limits.whose} could be passed: {usd(self._spent.cost)} spent so far, "
                f"{self._flying()} may cost {usd(self._held.cost)}, the next one {usd(hold.cost)}"
            )
        self._held = Hold(self._held.cost + hold.cost, self._held.output_tokens + hold.output_tokens)
        self._holds += 1
        self._requests += 1
        return hold

    def input_most(self, call: Call) -> int:
        """Return the most input tokens that a call can have."""
        return _prompt_most(call) + self._extra_bytes

    def settle(self, hold: Hold, result: Result) -> None:
        """Turn a hold into what the request has cost."""
        if hold is NOTHING:
            return
        self._holds -= 1
        self._held = Hold(self._held.cost - hold.cost, self._held.output_tokens - hold.output_tokens)
        usage = result.usage
        if result.token_source == "server":
            given, made = usage.input_tokens, usage.output_tokens or 0
            cost = hold.cost if given is None else self._cost(given, usage.cached_tokens or 0, made)
            spent = Hold(cost, made)
        elif result.sent_ns is None or (result.status is not None and result.status >= 400) or _never_opened(result):
            spent = Hold(0.0, 0)
        else:
            spent = hold
        self._spent = Hold(self._spent.cost + spent.cost, self._spent.output_tokens + spent.output_tokens)

    def _flying(self) -> str:
        return f"{self._holds} request{'' if self._holds == 1 else 's'} in flight"

    def _cost(self, input_tokens: int, cached_tokens: int, output_tokens: int) -> float:
        return self._price.cost(input_tokens, cached_tokens, output_tokens) or 0.0


def _never_opened(result: Result) -> bool:
    """Tell whether there was no connection over which the request could have gone, as far as either engine knows for sure."""
    return result.unconnected and (result.outcome is Outcome.TIMEOUT or result.reason not in MAYBE_SENT)


def carried(target: Target) -> int:
    """Return the bytes that every request to a target carries beside its own."""
    return len(msgspec.json.encode(target.extra_body)) if target.extra_body else 0


def _prompt_most(call: Call) -> int:
    """Return the most tokens that a call's own prompt can have."""
    if call.body is not None:
        said, messages = len(msgspec.json.encode(call.body)), len(call.body.get("messages") or ())
    else:
        said = len((call.prompt or "").encode()) + sum(len(message.content.encode()) for message in call.messages)
        said, messages = said + (len(msgspec.json.encode(call.extra_body)) if call.extra_body else 0), len(call.messages)
    return said + TEMPLATE_TOKENS * (1 + messages)


def usd(amount: float, digits: int = 6) -> str:
    """Write an amount, a limit as it was given: an N-th of a cent is no cent. Below a dollar so many digits count."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.{digits}g}"
