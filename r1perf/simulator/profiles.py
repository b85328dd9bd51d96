"""Name the machines that can be simulated: how fast they compute, how much they hold, how long their answers are.

Times are integer nanoseconds, lengths tokens. A profile says in `note` what its figures rest on.
"""

import math
from typing import Annotated

import msgspec

Positive = Annotated[int, msgspec.Meta(gt=0)]
MS = 1_000_000


class Length(msgspec.Struct, frozen=True):
    """Give the lengths of one kind of text: lognormal, ln(tokens) ~ N(ln(median), sigma^2), at least `least`.

    Its mean is median * exp(sigma^2 / 2).
    """

    median: float
    sigma: float
    least: int = 1

    def tokens(self, normal: float) -> int:
        """Turn one standard normal number into a length in tokens."""
        return max(self.least, round(self.median * math.exp(self.sigma * normal)))

    @property
    def mean(self) -> float:
        """Return the mean length."""
        return self.median * math.exp(self.sigma**2 / 2)


class Lengths(msgspec.Struct, frozen=True):
    """Say how long the model thinks and answers; `maths` for prompts that hold mathematics, `chat` for all others.

    With `reasoning_share` set, thinking is that share of the whole output instead, rounded (half to even).
    """

    thinking_maths: Length
    thinking_chat: Length
    answer_maths: Length
    answer_chat: Length
    accuracy: float = 0.7
    reasoning_share: float | None = None


class Batched(msgspec.Struct, frozen=True, tag="batched"):
    """Describe one continuous-batching engine.

    One step lasts (step_ns + step_per_stream_ns * decoding streams) * noise, plus, where it prefills,
    prefill_ns + tokens / prefill_rate. `prefill_chunk` bounds the prompt tokens of one step; `kv_tokens` is
    the room for prompts and outputs, in blocks of `block`; `noise` is the sigma of a lognormal factor of mean
    1 on the decode part (the most loaded expert's GPU makes all wait); `tokens_per_chunk` is what one step
    gives each decoding stream (multi-token prediction).
    """

    step_ns: Positive
    step_per_stream_ns: int
    prefill_rate: Positive  # tokens/s
    prefill_ns: int
    prefill_chunk: Positive
    kv_tokens: Positive
    max_batch: Positive
    block: Positive = 16
    noise: float = 0.0
    tokens_per_chunk: Positive = 1


class Timetable(msgspec.Struct, frozen=True, tag="timetable"):
    """Describe an engine without contention: chunk k of a stream is due at received + ttft_ns + k * itl_ns."""

    ttft_ns: Positive
    itl_ns: Positive
    tokens_per_chunk: Positive = 1


class Profile(msgspec.Struct, frozen=True):
    """One simulated deployment. `context` is the longest prompt + output in tokens, as `max_model_len` in vLLM."""

    name: str
    note: str
    engine: Batched | Timetable
    lengths: Lengths
    context: Positive = 65_536

    def pace(self, streams: float, prompt_tokens: float) -> tuple[float, float]:
        """Return about what one of so many streams gets: seconds to its first token where nothing queues, then tokens/s."""
        engine = self.engine
        if isinstance(engine, Timetable):
            return engine.ttft_ns / 1e9, engine.tokens_per_chunk * 1e9 / engine.itl_ns
        step_ns = engine.step_ns + engine.step_per_stream_ns * min(streams, engine.max_batch)
        prefill_s = engine.prefill_ns / 1e9 + prompt_tokens / engine.prefill_rate
        return prefill_s + step_ns / 1e9, engine.tokens_per_chunk * 1e9 / step_ns

    def faster(self, speed: float) -> "Profile":
        """Return this profile with its engine `speed` times as fast; lengths and capacities stay."""
        if speed == 1:
            return self
        engine = self.engine
        if isinstance(engine, Timetable):
            changed: Batched | Timetable = msgspec.structs.replace(
                engine, ttft_ns=max(1, round(engine.ttft_ns / speed)), itl_ns=max(1, round(engine.itl_ns / speed))
            )
        else:
            changed = msgspec.structs.replace(
                engine,
                step_ns=max(1, round(engine.step_ns / speed)),
                step_per_stream_ns=round(engine.step_per_stream_ns / speed),
                prefill_rate=max(1, round(engine.prefill_rate * speed)),
                prefill_ns=round(engine.prefill_ns / speed),
            )
        return msgspec.structs.replace(self, engine=changed)


# DeepSeek-R1's model card and the AIME literature give means of about 12,000 tokens an AIME problem for R1 (23,000 for
# R1-0528); a lognormal of sigma 0.7 and median 9,400 has mean 12,010. The chat lengths and sigmas are assumptions.
_R1_LENGTHS = Lengths(
    thinking_maths=Length(9_400, 0.7, 64),
    thinking_chat=Length(350, 0.8, 16),
    answer_maths=Length(450, 0.4, 24),
    answer_chat=Length(320, 0.7, 8),
    accuracy=0.7,
)
_SHORT_LENGTHS = Lengths(
    thinking_maths=Length(60, 0.4, 8),
    thinking_chat=Length(16, 0.5, 4),
    answer_maths=Length(24, 0.3, 16),
    answer_chat=Length(24, 0.4, 4),
    accuracy=0.7,
)

PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="r1-16xh100",
            # Published anchors: DeepSeek's "DeepSeek-V3/R1 Inference System Overview" (1 March 2025) has 14,800 output
            # tokens/s per decode node of 8 H800 at 20-22 tokens/s a user. Two nodes at 1,200 streams here: 50.8 ms a
            # step, 19.7 tokens/s a user, 11,800 tokens/s per node; it is set below the published figure because that
            # one is of wide expert parallelism (18 nodes a unit), not of two nodes.
            # KV: latent attention keeps (512 + 64) values * 61 layers * 2 bytes = 70,272 bytes a token (DeepSeek-V3
            # Technical Report). Of 85.5e9 bytes on each of 16 GPUs 0.9 are used; 654e9 routed expert weights in FP8 are
            # split 16 ways, 18e9 bytes of other weights are on each (data-parallel attention), 4e9 are work space: 14e9
            # are left, which is 199,000 tokens a GPU and 3.2 million in all.
            # Assumed, not calibrated: the step at batch 1, the prefill rate (half of one published prefill node's
            # uncached rate, 73,700 * (1 - 0.563)), the noise.
            note="decode anchored on DeepSeek's published 20-22 tokens/s a user; step at batch 1, prefill and noise assumed",
            engine=Batched(
                step_ns=28 * MS,
                step_per_stream_ns=19_000,
                prefill_rate=16_000,
                prefill_ns=12 * MS,
                prefill_chunk=8_192,
                kv_tokens=3_000_000,
                max_batch=1_024,
                block=64,
                noise=0.06,
            ),
            lengths=_R1_LENGTHS,
        ),
        Profile(
            name="tiny",
            note="invented: fast and small, for demonstrations and tests",
            engine=Batched(
                step_ns=5 * MS,
                step_per_stream_ns=20_000,
                prefill_rate=20_000,
                prefill_ns=15 * MS,
                prefill_chunk=512,
                kv_tokens=131_072,
                max_batch=128,
                noise=0.05,
            ),
            lengths=_SHORT_LENGTHS,
        ),
        Profile(
            name="exact",
            note="invented: every stream has TTFT 100 ms and ITL 20 ms whatever the load, to hold a client against",
            engine=Timetable(ttft_ns=100 * MS, itl_ns=20 * MS),
            lengths=msgspec.structs.replace(_SHORT_LENGTHS, reasoning_share=0.5),
        ),
        Profile(
            name="slow",
            note="invented: TTFT of seconds, long steps, a small batch that queues early",
            engine=Batched(
                step_ns=120 * MS,
                step_per_stream_ns=5 * MS,
                prefill_rate=500,
                prefill_ns=1_500 * MS,
                prefill_chunk=256,
                kv_tokens=40_960,
                max_batch=8,
                noise=0.15,
            ),
            lengths=_SHORT_LENGTHS,
            context=40_960,
        ),
    )
}
