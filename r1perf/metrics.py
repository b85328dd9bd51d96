"""The metrics and counters by name, with their unit, their window and their definition: the one place that lists them."""

from typing import Literal

import msgspec


class Metric(msgspec.Struct, frozen=True):
    """One distribution. `stage` says which stage a value belongs to: that of the schedule, or that in which it happened."""

    name: str
    title: str
    unit: Literal["us", "tokens"]
    stage: Literal["scheduled", "happened"]
    definition: str


METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("schedule_delay", "schedule delay", "us", "scheduled", "sent - scheduled: how late the generator was"),
        Metric("ttft", "TTFT", "us", "scheduled", "first output chunk of any kind - scheduled"),
        Metric(
            "ttft_cold", "TTFT cold", "us", "scheduled", "TTFT of requests of whose prompt under 5 % came from the prefix cache"
        ),
        Metric(
            "ttft_warm",
            "TTFT warm",
            "us",
            "scheduled",
            "TTFT of requests of whose prompt half or more came from the prefix cache",
        ),
        Metric("ttfo", "TTFO", "us", "scheduled", "first non-blank answer chunk after the last reasoning chunk - scheduled"),
        Metric("thinking", "thinking", "us", "scheduled", "that same chunk - first reasoning chunk"),
        Metric("itl", "ITL", "us", "happened", "each gap between successive reads that brought output chunks"),
        Metric("itl_max", "ITL max", "us", "scheduled", "the longest such gap of a request"),
        Metric("tpot", "TPOT", "us", "scheduled", "(last output chunk - first output chunk) / (output tokens - 1)"),
        Metric("e2e", "E2E", "us", "scheduled", "last output chunk - scheduled; not streamed: body complete - scheduled"),
        Metric("service_ttft", "service TTFT", "us", "scheduled", "first output chunk - sent: what most tools call TTFT"),
        Metric("service_e2e", "service E2E", "us", "scheduled", "last output chunk - sent: what most tools call latency"),
        Metric("connect", "connect", "us", "scheduled", "DNS + TCP + TLS, only for requests that opened a connection"),
        Metric("input_tokens", "input tokens", "tokens", "scheduled", "prompt tokens of a request"),
        Metric("output_tokens", "output tokens", "tokens", "scheduled", "completion tokens of a request, reasoning included"),
        Metric("reasoning_tokens", "reasoning tokens", "tokens", "scheduled", "completion tokens that were reasoning"),
        Metric("cached_tokens", "cached tokens", "tokens", "scheduled", "prompt tokens that came from the prefix cache"),
    )
}

LEAST_S = 0.1
"""A shorter window has no rates, planned or measured: a few requests would make any. A drain that was cut at once has none."""

COUNTERS: dict[str, str] = {
    "scheduled": "requests that became due (turns of conversations included), by the stage of their schedule",
    "sent": "requests that were begun to be sent",
    "late": "requests that were sent more than 5 ms after they were scheduled",
    "conversations": "conversations that were begun",
    "conversations_done": "conversations that ended with all their turns",
    "abandoned_turns": "turns that were never scheduled since an earlier turn of their conversation failed or the window ended",
    "chunks": "output chunks, in the stage in which they happened",
    "first_chunks": "requests that had their first output chunk, in the stage in which it came",
    "coalesced": "output chunks that shared a read with the chunk before them",
    "window_output_tokens": "output tokens spread over the request's own chunks, in the stage in which they happened",
    "window_input_tokens": "input tokens, in the stage in which their request's first output chunk came",
    "counted_chunks": "output chunks of ended requests whose tokens are known: with output_tokens, the tokens of a chunk",
    "counted_first_chunks": "first output chunks of ended requests whose input tokens are known",
    "completed": "requests that ended well, in the stage in which they ended",
    "busy_ns": "how long ended requests were in flight, in ns",
    "input_tokens": "input tokens of ended requests",
    "output_tokens": "output tokens of ended requests",
    "reasoning_tokens": "reasoning tokens of ended requests",
    "cached_tokens": "cached input tokens of ended requests",
    "partly_cached": "requests that ended well and are neither cold nor warm: 5 to 50 % of the prompt came from the prefix cache",
    "cache_told_tokens": "input tokens of ended requests whose cached tokens the server told: with cached_tokens, the hit ratio",
    "tokens_from_server": "requests whose tokens the server counted",
    "tokens_from_tokenizer": "requests whose tokens were counted by a tokenizer here",
    "tokens_from_chunks": "requests whose tokens were taken to be their chunks",
    "untold": "requests that were sent and not refused, and of which nobody told the input tokens",
    "untold_output_tokens": "output tokens of those, as far as they came: part of output_tokens",
    "untold_input_most": "input tokens of those at most: one for each byte of their prompts; not part of input_tokens",
    "untold_output_most": "output tokens, at most, of those that were not streamed and of which nobody told these either",
    "untold_unbounded": "requests among those of whose output nothing is known, not even a bound",
    "no_answer": "requests that ended well without an answer",
    "length_mismatch": "requests whose length was ordered and came out different",
    "reasoning_hidden": "requests whose reasoning was counted but not streamed",
    "not_streamed": "requests for which ttft, itl and tpot are not applicable",
    "stray_events": "events of a stream that were neither JSON nor [DONE]: ignored, with the text that they may have held",
    "connections": "connections that were opened",
    "backoff_ns": "how long closed sessions paused after failures, in ns",
}
"""Counters beside the outcomes; an outcome counts under `outcome.<name>`, its reasons under `reason.<outcome>.<reason>`."""
