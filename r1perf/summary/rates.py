"""Compute throughput and cost: what happened inside the judged window, divided by its length."""

from collections.abc import Iterable

import msgspec

from r1perf.metrics import LEAST_S
from r1perf.summary.merged import ALL, Summary

CHUNKS = {
    "window_output_tokens": ("chunks", "counted_chunks"),
    "window_input_tokens": ("first_chunks", "counted_first_chunks"),
}
"""Counters of tokens: with which chunks they come, and the chunks of requests that have told their tokens, at their end."""


LEAST_FLIPS = 30
"""From fewer levels no mean of what was in flight is taken: nobody counted within the first and the last interval, a thirtieth of the run each."""


class Rates(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Throughput over `seconds`. Tokens are absent where no request told how many it had.

    `per_gpu` is total tokens/s divided by `target.system.gpus`, as InferenceX does.
    """

    seconds: float
    requests_per_s: float
    scheduled_per_s: float | None = None
    output_tokens_per_s: float | None = None
    input_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    total_tokens_per_s_per_gpu: float | None = None
    output_tokens_per_s_per_gpu: float | None = None


class Cost(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run cost, in USD. `basis` says how it was computed: from tokens, or from GPUs and hours.

    `usd` covers the whole run; `usd_per_1m_output_tokens` the judged window (GPU hours), or the requests that were scheduled
    in it and whose input tokens are known (token prices). What nobody told of `untold` requests is not in `usd`, which is a least
    then, or absent where nobody told anything; it would make it `usd_most` at most, absent where nothing bounds it.
    """

    basis: str
    usd: float | None = None
    usd_per_1m_output_tokens: float | None = None
    usd_per_request: float | None = None
    usd_most: float | None = None
    untold: int | None = None


class Little(msgspec.Struct, frozen=True, kw_only=True):
    """Little's law over the whole run: both must agree, since one is counted at flips and the other from stamps."""

    in_flight_mean: float
    from_residence: float  # seconds that requests spent in flight / seconds of the run


def rates(summary: Summary, workload: str | None = None, stage: int | None = None) -> Rates | None:
    """Return the throughput of one stage, or of the judged window (None); None where that is shorter than `LEAST_S`."""
    seconds = sum(end - begin for begin, end in summary.windows(stage)) / 1e9
    if seconds < LEAST_S:
        return None

    output, input_ = (None if n is None else n / seconds for n in (came(summary, name, workload, stage) for name in CHUNKS))
    total = output + input_ if output is not None and input_ is not None else None
    gpus = summary.run.system.gpus
    return Rates(
        seconds=seconds,
        requests_per_s=summary.counter("completed", workload, stage) / seconds,
        scheduled_per_s=summary.counter("scheduled", workload, stage) / seconds,
        output_tokens_per_s=output,
        input_tokens_per_s=input_,
        total_tokens_per_s=total,
        total_tokens_per_s_per_gpu=total / gpus if gpus and total is not None else None,
        output_tokens_per_s_per_gpu=output / gpus if gpus and output is not None else None,
    )


def per_chunk(counted: Iterable[tuple[str, str, int]]) -> dict[tuple[str, str], float]:
    """Return how many tokens came with a chunk by counter of `CHUNKS` and workload, from all that a run has counted so far."""
    sums: dict[tuple[str, str], int] = {}
    for name, workload, n in counted:
        sums[name, workload] = sums.get((name, workload), 0) + n
    return {
        (name, workload): n / chunks
        for (name, workload), n in sums.items()
        if name in CHUNKS and (chunks := sums.get((CHUNKS[name][1], workload), 0))
    }


def came(summary: Summary, name: str, workload: str | None = None, stage: int | None = None) -> float | None:
    """Return the tokens of a counter of `CHUNKS` that came in one stage, or the judged ones; None where nobody counted any.

    They are counted when their request ends, which for a whole run does not matter. A part of one has chunks whose tokens were
    counted behind it, and tokens of chunks before it: so its chunks are counted, times what a chunk of their workload held over
    the whole run. What was not streamed came when it ended.
    """
    told = summary.counter(name.removeprefix("window_"), workload, ALL)
    if summary.per_chunk is None:
        return summary.counter(name, workload, stage) if told else None
    workloads = summary.workloads if workload is None else (workload,)
    each = {one: summary.per_chunk.get((name, one)) for one in workloads}
    if not told and not any(each.values()):
        return None
    return sum(
        summary.counter(name, one, stage) if held is None else held * summary.counter(CHUNKS[name][0], one, stage)
        for one, held in each.items()
    )


def cost(summary: Summary) -> Cost | None:
    """Return what the run cost; None where no price (or, for GPU hours, no number of GPUs) is stated."""
    price, gpus = summary.run.price, summary.run.system.gpus
    most, untold = None, 0
    if price.input_per_1m is not None or price.output_per_1m is not None:
        usd = _token_cost(summary, ALL)
        left_out = 0
        given, produced = (summary.counter(f"untold_{of}_most", stage=ALL) for of in ("input", "output"))
        unbounded = summary.counter("untold_unbounded", stage=ALL)
        if price.input_costs or produced or unbounded:
            untold = summary.counter("untold", stage=ALL)
        if untold:
            if not unbounded:
                most = usd + max(price.cost(given, cached, produced) or 0.0 for cached in (0, given))
            left_out = summary.counter("untold_output_tokens")
        tokens = summary.counter("output_tokens") - left_out
        per_1m = _token_cost(summary, None, left_out) / tokens * 1e6 if tokens else None
        basis = "tokens"
    elif price.gpu_hour is not None and gpus:
        usd = price.gpu_hour * gpus * summary.covered_ns / 3.6e12
        window_ns = sum(end - begin for begin, end in summary.windows())
        came_out = came(summary, "window_output_tokens")
        per_1m = price.gpu_hour * gpus * window_ns / 3.6e12 / came_out * 1e6 if came_out else None
        basis = "gpu_hours"
    else:
        return None
    completed = summary.counter("completed", stage=ALL)
    known = usd if usd or not untold else None
    return Cost(
        basis=basis,
        usd=known,
        usd_per_1m_output_tokens=per_1m,
        usd_per_request=known / completed if completed and known is not None else None,
        usd_most=most,
        untold=untold or None,
    )


def little(summary: Summary) -> Little | None:
    """Return both sides of Little's law; None under `LEAST_FLIPS`, and of a part: what ends in it began before it.

    Between two flips requests in flight are taken to change evenly; the last flip comes when the last request has ended.
    """
    interval_ns = summary.run.interval_ns
    levels = summary.levels((summary.since_ns, summary.elapsed_ns + interval_ns))
    busy_ns = summary.counter("busy_ns", stage=ALL)
    if len(levels) < LEAST_FLIPS or not busy_ns or summary.per_chunk is not None:
        return None
    ends_ns = [min((n + 1) * interval_ns, summary.covered_ns) for n in range(len(levels))]
    area = sum(
        (before + level) / 2 * (end_ns - begin_ns)
        for before, level, begin_ns, end_ns in zip([0, *levels], levels, [0, *ends_ns], ends_ns, strict=False)
    )
    return Little(in_flight_mean=area / summary.covered_ns, from_residence=busy_ns / summary.covered_ns)


def _token_cost(summary: Summary, stage: int | None, left_out: int = 0) -> float:
    """Price the tokens of requests scheduled in a stage, without so many output tokens."""
    given, cached, output = (summary.counter(name, stage=stage) for name in ("input_tokens", "cached_tokens", "output_tokens"))
    return summary.run.price.cost(given, cached, output - left_out) or 0.0
