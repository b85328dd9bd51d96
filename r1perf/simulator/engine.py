"""Decode many streams in one batch, step by step, on a clock that the caller moves: no input or output, no waiting.

An engine has `submit(sequence, now_ns)`, `abort(sequence)`, `due_ns` (when the current step ends; None where there is
nothing to do) and `step()`, which ends that step and returns what it emitted. The next step begins exactly where the last
one ended, however late `step()` was called, so lateness never adds up. Before `submit`, the caller ends every step that
was due by then.
"""

import math
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Any, Protocol

from r1perf.simulator.kv import BlockPool
from r1perf.simulator.profiles import Batched

Emission = tuple["Stream", int]
"""A stream and how many tokens it got in this step."""


class Stream:
    """One request in an engine. `cached` is how many prompt tokens its first admission found in the prefix cache."""

    __slots__ = ("blocks", "cached", "emitted", "hashes", "left", "output", "prompt", "received_ns", "shared", "slots", "tag")

    def __init__(self, prompt: int, output: int, hashes: Sequence[int] = (), tag: Any = None) -> None:
        self.prompt = prompt
        self.output = output
        self.hashes = hashes  # one a full block of the prompt, each over all the text up to its end
        self.tag = tag  # the caller's own
        self.emitted = 0
        self.cached: int | None = None
        self.received_ns = 0
        # The engine's own: blocks held (private count, shared hashes), KV slots in them, tokens still to prefill.
        self.blocks = 0
        self.shared: list[int] = []
        self.slots = 0
        self.left = 0


class Engine(Protocol):
    """What drives the answers."""

    steps: int
    preemptions: int

    @property
    def due_ns(self) -> int | None:
        """Say when the current step ends; None where there is nothing to do."""

    @property
    def running(self) -> int:
        """Count the streams in the batch."""

    @property
    def waiting(self) -> int:
        """Count the streams in the queue."""

    @property
    def kv_usage(self) -> float:
        """Return the share of the KV cache that streams hold."""

    def submit(self, stream: Stream, now_ns: int) -> None:
        """Take a stream in."""

    def abort(self, stream: Stream) -> None:
        """Forget a stream that has not ended."""

    def step(self) -> list[Emission]:
        """End the step that is due and begin the next."""


class BatchEngine:
    """Batch continuously: each step gives every decoding stream one chunk, and prefills what fits beside them.

    Streams are admitted in order of arrival, while the batch and the KV cache have room. Where a decoding stream finds no
    block, the stream that was admitted last gives its blocks back and returns to the head of the queue; its prompt and what
    it had emitted are prefilled again.
    """

    def __init__(self, profile: Batched, seed: int = 0) -> None:
        self.profile = profile
        self.pool = BlockPool(profile.kv_tokens // profile.block)
        self.due_ns: int | None = None
        self.steps = 0
        self.preemptions = 0
        self._queue: deque[Stream] = deque()
        self._decoding: list[Stream] = []  # in order of admission, as is:
        self._prefilling: list[Stream] = []
        self._order: list[Stream] = []  # all that were admitted
        self._finishing: list[Stream] = []  # prefill ends with this step
        self._deciding: list[Stream] = []  # decode in this step
        self._random = Random(f"{seed}:noise")

    @property
    def running(self) -> int:
        """Count the streams in the batch."""
        return len(self._order)

    @property
    def waiting(self) -> int:
        """Count the streams in the queue."""
        return len(self._queue)

    @property
    def kv_usage(self) -> float:
        """Return the share of the KV cache that streams hold."""
        return self.pool.used / self.pool.capacity

    def submit(self, stream: Stream, now_ns: int) -> None:
        """Queue a stream; raises ValueError where its prompt and output can never fit the KV cache."""
        if self._need(stream.prompt + stream.output) > self.pool.capacity:
            raise ValueError(f"{stream.prompt} + {stream.output} tokens never fit a KV cache of {self.profile.kv_tokens}")
        stream.received_ns = now_ns
        self._queue.append(stream)
        if self.due_ns is None:
            self._begin(now_ns)

    def abort(self, stream: Stream) -> None:
        """Forget a stream, wherever it is; its blocks are free at once. The step under way keeps its length."""
        if stream in self._order:
            self._remove(stream)
        elif stream in self._queue:
            self._queue.remove(stream)

    def step(self) -> list[Emission]:
        """End the step: decoding streams get their chunk, streams whose prefill ended their first token."""
        assert self.due_ns is not None, "there is no step to end"
        self.steps += 1
        emissions: list[Emission] = []
        per_chunk = self.profile.tokens_per_chunk
        for stream in self._deciding:
            count = min(per_chunk, stream.output - stream.emitted)
            stream.emitted += count
            emissions.append((stream, count))
        for stream in self._finishing:
            self._prefilling.remove(stream)
            self._decoding.append(stream)
            self._offer(stream)
            stream.emitted += 1
            emissions.append((stream, 1))
        for stream, _ in emissions:
            if stream.emitted >= stream.output:
                self._remove(stream)
        self._begin(self.due_ns)
        return emissions

    def _begin(self, start_ns: int) -> None:
        """Plan the step that starts now: grow, preempt, prefill, admit; then say when it ends."""
        if not self._order and not self._queue:
            self.due_ns, self._deciding, self._finishing = None, [], []
            return
        self._grow()
        tokens = self._prefill()
        profile = self.profile
        length = 0
        self._deciding = list(self._decoding)
        if self._deciding:
            length = profile.step_ns + profile.step_per_stream_ns * len(self._deciding)
            if profile.noise:
                sigma = profile.noise
                length = round(length * math.exp(self._random.gauss(0.0, sigma) - sigma * sigma / 2))
        if tokens:
            length += profile.prefill_ns + tokens * 1_000_000_000 // profile.prefill_rate
        self.due_ns = start_ns + max(1, length)

    def _grow(self) -> None:
        """Give every decoding stream, oldest first, the slots that its next chunk needs."""
        for stream in self._decoding.copy():
            wanted = stream.prompt + min(stream.emitted + self.profile.tokens_per_chunk, stream.output)
            if stream.slots >= wanted or stream not in self._decoding:
                continue  # it has room, or was preempted for an older one a moment ago
            while stream.slots < wanted:
                if self.pool.take((), 1):
                    stream.blocks += 1
                    stream.slots += self.profile.block
                    continue
                victim = self._order[-1]
                self._preempt(victim)
                if victim is stream:
                    break

    def _prefill(self) -> int:
        """Spread this step's prompt tokens over streams in order of admission, then admit; return how many there are."""
        budget = self.profile.prefill_chunk
        self._finishing = []
        for stream in self._prefilling:
            budget -= self._feed(stream, budget)
        while budget > 0 and self._queue and len(self._order) < self.profile.max_batch and self._admit(self._queue[0]):
            budget -= self._feed(self._queue.popleft(), budget)
        return self.profile.prefill_chunk - budget

    def _feed(self, stream: Stream, budget: int) -> int:
        """Prefill what the budget lets of one stream; return how many tokens."""
        count = min(stream.left, budget)
        stream.left -= count
        if count and not stream.left:
            self._finishing.append(stream)
        return count

    def _admit(self, stream: Stream) -> bool:
        """Give a waiting stream its blocks and put it in the batch; return False where there is no room."""
        block = self.profile.block
        total = stream.prompt + stream.emitted
        # The last token is always computed, since its logits give the first token: a whole-prompt hit is one block less.
        hits = min(self.pool.hits(stream.hashes), (total - 1) // block)
        shared = list(stream.hashes[:hits])
        private = self._need(total + 1) - hits
        if not self.pool.take(shared, private):
            return False
        stream.shared, stream.blocks, stream.slots = shared, private, (hits + private) * block
        stream.left = total - hits * block
        if stream.cached is None:
            stream.cached = hits * block
        self._order.append(stream)
        self._prefilling.append(stream)
        return True

    def _offer(self, stream: Stream) -> None:
        """Let other prompts hit the prompt blocks that have just been computed."""
        fresh = self.pool.share(stream.hashes[len(stream.shared) :])
        stream.shared += fresh
        stream.blocks -= len(fresh)

    def _preempt(self, stream: Stream) -> None:
        """Send a stream back to the head of the queue."""
        self.preemptions += 1
        self._remove(stream)
        self._queue.appendleft(stream)

    def _remove(self, stream: Stream) -> None:
        """Take a stream out of the batch and free its blocks."""
        self._order.remove(stream)
        for group in (self._decoding, self._prefilling, self._finishing, self._deciding):
            if stream in group:
                group.remove(stream)
        self.pool.release(stream.shared, stream.blocks)
        stream.shared, stream.blocks, stream.slots = [], 0, 0

    def _need(self, tokens: int) -> int:
        """Return how many blocks hold that many tokens."""
        return -(-tokens // self.profile.block)
