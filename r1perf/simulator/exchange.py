"""Answer one completions request: plan, queue in the engine, write each chunk as it comes, strike with its fault, end."""

import asyncio
from typing import TYPE_CHECKING

import msgspec

from r1perf.simulator.answers import plan
from r1perf.simulator.calls import Call
from r1perf.simulator.dialects import ANSWER, DIALECTS, DONE, THINKING, Counts, Wire
from r1perf.simulator.engine import Stream
from r1perf.simulator.faults import Fault
from r1perf.simulator.profiles import Batched
from r1perf.simulator.prompts import block_hashes
from r1perf.simulator.protocol import Connection, Request
from r1perf.simulator.timer import monotonic_ns
from r1perf.simulator.truth import Truth
from r1perf.simulator.wording import Wording, unescaped

if TYPE_CHECKING:
    from r1perf.simulator.server import Simulator

BROKEN = "EngineCore encountered an issue"
ENDS_STREAM = frozenset({"cut", "error_object", "error_event", "content_filter"})

Part = tuple[bytes, int, int]
"""Body bytes, and how many tokens and text-bearing chunks they bring."""


class Exchange:
    """One request and its answer.

    The common case, one more token of a stream, takes the short way through `emit`; the first and last token, every fault
    and everything unusual take the long one. `_slow_from` is the first token that must; after a fault has struck, all do.
    """

    __slots__ = (
        "_answer", "_call", "_complete", "_counts", "_dialect", "_fault", "_group", "_held", "_last_ns", "_link", "_over",
        "_parts", "_pending", "_plan", "_sim", "_slow_from", "_stream", "_strike", "_thinking", "_timer",
        "_tokens_ns", "_wire", "_words", "sent", "truth",
    )  # fmt: skip

    def __init__(
        self, sim: "Simulator", link: Connection, request: Request, call: Call, fault: Fault | None, truth: Truth
    ) -> None:
        self._sim, self._link, self._call, self._fault, self.truth = sim, link, call, fault, truth
        dialect = self._dialect = sim.dialect
        made = self._plan = plan(
            call.text, call.asked, sim.profile.lengths, call.limits, seed=f"{sim.options.seed}:{call.seed}",
            answer=request.headers.get("x-r1sim-answer"), thinks=dialect.thinks,
        )  # fmt: skip
        name, argument = (fault.name, fault.argument) if fault is not None else ("", "")
        mute, rerouted = name == "no_usage", name == "rerouted"
        self._wire = Wire(
            truth.id, sim.created(), argument if rerouted else call.model, call.chat, call.usage and not mute, call.continuous,
            mute, rerouted, call.body,
        )  # fmt: skip
        engine = sim.profile.engine
        hashes = block_hashes(call.data, engine.block, call.salt) if isinstance(engine, Batched) else ()
        self._stream = Stream(call.prompt_tokens, made.total, hashes, self)
        self._counts = Counts(call.prompt_tokens, 0, 0, 0)
        self._words = Wording(made, dialect, chat=call.chat, stream=call.stream)
        self._strike = fault.strikes_at(made.total) if fault is not None and fault.kind.mid_stream else None
        self._group = int(argument) if name == "multi_token" else 0  # tokens a chunk, where ordered
        self._pending: list[bytes] = []  # tokens that wait for their group
        self._parts: list[Part] = []  # what this step has to write
        self._held: list[Part] | None = None  # what a fault holds back
        self._timer: asyncio.TimerHandle | None = None
        self._tokens_ns: list[int] | None = [] if sim.options.truth_tokens else None
        self._over = False  # nothing more is taken from the engine
        self._complete = False  # the last byte is in `_parts` or `_held`, or written
        self._last_ns = 0
        self.sent = 0
        plain = call.stream and not self._group and not dialect.holds_bytes and not dialect.continuous(self._wire)
        self._slow_from = (min(made.total, self._strike or made.total) - 1) if plain else 0
        self._thinking = dialect.parts(self._wire, THINKING) if plain else []
        self._answer = dialect.parts(self._wire, ANSWER) if plain else []
        truth.planned_tokens, truth.prompt_tokens = made.total, call.prompt_tokens
        truth.answer = made.boxed

    def start(self) -> None:
        """Send the head of a stream, and queue the request in the engine."""
        fault, now_ns = self._fault, self.truth.received_ns
        if fault is not None and fault.name in ("burst", "slow_head"):
            self._held = []
        if fault is not None and fault.name == "slow_head":
            self._timer = self._sim.later(fault.seconds, self._release)
        elif self._call.stream:
            self._send_head()
        self._keep_alive(first=True)
        self._sim.driver.submit(self._stream, now_ns)

    def emit(self, count: int) -> None:
        """Write `count` more tokens, which the engine has just made."""
        index = self.sent
        if count == 1 and 0 < index < self._slow_from and self._held is None:
            body = self._words.escaped(index).join(self._thinking if index < self._plan.reasoning else self._answer)
            self.sent = index + 1
            link = self._link
            now_ns = monotonic_ns()
            link.write(b"%x\r\n%b\r\n" % (len(body), body) if link.chunked else body)
            stats = self._sim.stats
            stats.chunks += 1
            stats.itl.add(now_ns - self._last_ns)
            self._last_ns = now_ns
            self.truth.chunks += 1
            if self._tokens_ns is not None:
                self._tokens_ns.append(now_ns)
        elif not self._over:
            self._emit_slowly(count)

    def gone(self) -> None:
        """Take note that the client has left."""
        if not self.truth.ending:
            self._forget()
            self._end("aborted")

    def stop(self) -> None:
        """Take note that the simulator is being ended."""
        if not self.truth.ending:
            self._forget()
            self._end("stopped")

    # The long way.

    def _emit_slowly(self, count: int) -> None:
        """Take tokens one by one; cut them into chunks at the step's end, or in groups where so ordered."""
        made, counts = self._plan, self._counts
        if self.sent == 0:
            counts.cached = self._stream.cached or 0
            if self._call.stream:
                self._parts.append((self._dialect.opening(self._wire, counts), 0, 0))
        pending = self._pending
        for left in range(count - 1, -1, -1):
            index = self.sent
            self.sent = counts.output = index + 1
            counts.reasoning = min(self.sent, made.reasoning)
            pending.append(self._words.escaped(index))
            struck, last = self.sent == self._strike, self.sent == made.total
            due = len(pending) >= self._group if self._group else left == 0
            if due or struck or last or self.sent == made.reasoning:
                self._write_chunk(index, struck=struck, last=last)
            if struck and not self._strike_now():
                return
            if last:
                self._conclude(made.finish)
                return
        self._flush()

    def _write_chunk(self, index: int, *, struck: bool, last: bool) -> None:
        """Turn the pending tokens into one chunk; the last one carries the finish where the family has it so."""
        text, tokens = unescaped(b"".join(self._pending)), len(self._pending)
        self._pending.clear()
        if not self._call.stream:
            self._parts.append((b"", tokens, 0))
            return
        name = self._fault.name if self._fault is not None else ""
        carries = last and not self._dialect.own_finish and name != "no_finish" and not (struck and name in ENDS_STREAM)
        kind = THINKING if index < self._plan.reasoning else ANSWER
        event = self._dialect.token(self._wire, kind, text, self._plan.finish if carries else None, self._counts)
        self._parts.append((event, tokens, 1 if text else 0))

    def _conclude(self, finish: str, *, own: bool = False) -> None:
        """Write all that follows the last token; `own` puts the finish into a chunk of its own in every family."""
        self._over = self._complete = True
        reason = None if self._fault is not None and self._fault.name == "no_finish" else finish
        self.truth.finish_reason = reason
        if self._call.stream:
            dialect, wire, counts = self._dialect, self._wire, self._counts
            own_chunk = dialect.finish(wire, reason, counts) if reason is not None and (own or dialect.own_finish) else b""
            self._parts.append((own_chunk, 0, 0))
            self._parts.append((dialect.closing(wire, counts), 0, 0))
            self._parts.append((DONE, 0, 0))
        self._flush()

    def _strike_now(self) -> bool:
        """Let the fault strike; return whether the answer goes on."""
        fault = self._fault
        assert fault is not None, "nothing strikes without a fault"
        if fault.name == "stall":
            self._flush()
            self._held = []
            if fault.argument != "forever":
                self._timer = self._sim.later(fault.seconds, self._release)
            return True
        if fault.name == "bad_json":
            if self._call.stream:
                self._parts.append((b'data: {"id": "chatcmpl-\n\n', 0, 0))
            return True
        self._forget()
        self._over = True
        if fault.name == "content_filter":
            self._conclude("content_filter", own=True)
        elif fault.name == "cut":
            self._cut(fault.argument)
        else:
            self._break(fault.name)
        return False

    def _cut(self, way: str) -> None:
        """Break the connection, or end the body too early."""
        if self._call.stream:
            self._flush()
            self._end("cut")
            {"reset": self._link.reset, "eof": self._link.close, "end": self._link.end_stream}[way]()
            return
        body = self._whole()
        half = body[: len(body) // 2]
        self.truth.status = 200
        self._end("cut")
        if way == "end":
            self._link.respond(200, [], half, keep=False)
            return
        self._link.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + half)
        (self._link.reset if way == "reset" else self._link.close)()

    def _break(self, name: str) -> None:
        """Send an error in the stream, as the family does or as Dynamo does."""
        if not self._call.stream:
            self.truth.status = 500
            self._end("error")
            self._link.respond(500, [], msgspec.json.encode(self._dialect.error(500, BROKEN, "InternalServerError")))
            return
        family = DIALECTS["dynamo"] if name == "error_event" else self._dialect
        self._parts.append((family.broken(self._wire, BROKEN), 0, 0))
        self._flush()
        self._end("error")
        self._link.end_stream()

    # Bytes and stamps.

    def _send_head(self) -> None:
        """Send the head of the stream, and what the family sends with it."""
        dialect, wire = self._dialect, self._wire
        head = self._link.begin_stream([*self._sim.headers(), *dialect.headers(wire)])
        self.truth.head_ns = monotonic_ns()
        self.truth.status = 200
        self._link.write(head + self._link.frame(dialect.at_once(wire)))

    def _keep_alive(self, *, first: bool = False) -> None:
        """Send a comment, and again after a while, until the first token."""
        fault, every = self._fault, self._dialect.keep_alive_s
        at_once = fault is not None and fault.name == "keep_alive"
        if at_once and fault is not None:
            every = fault.seconds
        if every is None or not self._call.stream or self.sent or self._over or self.truth.ending or self._held is not None:
            return
        if not first or at_once:
            self._link.write(self._link.frame(self._dialect.keep_alive()))
        self._sim.later(max(every, 0.001), self._keep_alive)

    def _flush(self) -> None:
        """Send what is queued, or keep it while output is held back; end when all is out."""
        parts, self._parts = self._parts, []
        if self._held is not None:
            self._held += parts
            if not (self._complete and self._fault is not None and self._fault.name == "burst"):
                return
            parts, self._held = self._held, None
        self._stamp(sum(part[1] for part in parts), sum(part[2] for part in parts))
        data = b"".join([self._link.frame(part[0]) for part in parts])
        if data:
            self._link.write(data)
        if self._complete and not self.truth.ending:
            self._finish()

    def _stamp(self, tokens: int, chunks: int) -> None:
        """Take the time of a write that brings tokens or chunks."""
        if not tokens:
            return
        now_ns = monotonic_ns()
        if self._tokens_ns is not None:
            self._tokens_ns += [now_ns] * tokens
        if not chunks:
            return
        stats, truth = self._sim.stats, self.truth
        stats.chunks += chunks
        truth.chunks += chunks
        if truth.first_ns is None:
            truth.first_ns = now_ns
            stats.ttft.add(now_ns - truth.received_ns)
        else:
            stats.itl.add(now_ns - self._last_ns)
        self._last_ns = now_ns

    def _release(self) -> None:
        """Let out what was held back."""
        if self.truth.ending:
            return
        if self.truth.head_ns is None and self._call.stream:
            self._send_head()
        held, self._held = self._held or [], None
        self._parts = held + self._parts
        self._flush()

    def _finish(self) -> None:
        """End an answer that is complete."""
        if self._call.stream:
            self._end("complete")
            self._link.end_stream()
            return
        body = self._whole()
        self.truth.status = 200
        self.truth.head_ns = self._last_ns = monotonic_ns()
        self._end("complete")
        self._link.respond(200, [*self._sim.headers(), *self._dialect.headers(self._wire)], body)

    def _whole(self) -> bytes:
        """Write the answer, as far as it came, in one piece."""
        reasoning, answer = self._words.whole(self.sent)
        counts = None if self._wire.mute else self._counts
        body = msgspec.json.encode(self._dialect.whole(self._wire, reasoning, answer, self.truth.finish_reason, counts))
        return body[:-2] if self._fault is not None and self._fault.name == "bad_json" else body

    def _forget(self) -> None:
        """Take the stream out of the engine, where it still is there."""
        if self._stream.emitted < self._stream.output:
            self._sim.driver.abort(self._stream)

    def _end(self, ending: str) -> None:
        """Close the books on this request."""
        truth = self.truth
        self._over = True
        self._slow_from = 0
        if self._timer is not None:
            self._timer.cancel()
        truth.output_tokens = self.sent
        truth.reasoning_tokens = min(self.sent, self._plan.reasoning)
        truth.cached_tokens = self._stream.cached or 0
        truth.last_ns = self._last_ns or None
        truth.tokens_ns = self._tokens_ns
        self._sim.ended(self, ending)
