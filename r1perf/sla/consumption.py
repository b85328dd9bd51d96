"""Part what a run did over its intervals: requests and tokens per second, and what they cost.

Tokens are known only when a request has ended, so they are spread over the time in which they came: a workload's output tokens of
the judged window in proportion to the chunks of each interval, its input tokens in proportion to first chunks. The sums are those of
the run's tables.
"""

from collections.abc import Iterable, Mapping, Sequence

from r1perf.sla.clauses import Cost, Throughput
from r1perf.summary import ALL, Summary
from r1perf.summary.merged import TTFT_COUNT

Row = tuple[float, float]
"""Numerator and denominator of one interval."""

ENDLESS = 10**15
"""More output tokens than any answer has: of one without a bound."""

Spans = Sequence[tuple[int, float]]
"""The judged intervals, each with how many seconds of it are judged."""


def throughput(summary: Summary, aggregate: Throughput, workload: str | None, stages: set[int], spans: Spans) -> list[Row]:
    """Return events and seconds by interval; nothing where no request told its tokens."""
    happened = _happened(summary, aggregate.of, workload, stages, spans)
    return [] if happened is None else [(happened.get(k, 0.0), seconds) for k, seconds in spans]


def cost(summary: Summary, aggregate: Cost, workload: str | None, stages: set[int], spans: Spans) -> list[Row]:
    """Return USD and millions of tokens by interval, of the requests whose input tokens are known.

    With prices by tokens these are the requests that were scheduled in the window, in the interval of their end, which may lie behind it;
    with GPU hours the window's time and what was produced in it.
    """
    price, gpus = summary.run.price, summary.run.system.gpus
    if not _by_tokens(summary):
        tokens = _happened(summary, aggregate.of, workload, stages, spans)
        if tokens is None or price.gpu_hour is None or gpus is None:
            return []
        return [(price.gpu_hour * gpus * seconds / 3600, tokens.get(k, 0.0) / 1e6) for k, seconds in spans]
    rows = []
    first = min((k for k, _ in spans), default=0)
    for k in range(first, max(summary.flow, default=-1) + 1):
        given, cached, output = (
            sum(_by_interval(summary, name, workload, stages, (k,)).values())
            for name in ("input_tokens", "cached_tokens", "output_tokens")
        )
        if _needs_input(summary, aggregate):
            output -= sum(_by_interval(summary, "untold_output_tokens", workload, stages, (k,)).values())
        rows.append((price.cost(given, cached, output) or 0.0, _of(aggregate, given, output) / 1e6))
    return rows


def untold(summary: Summary, aggregate: Throughput | Cost, workload: str | None, stages: set[int]) -> tuple[int, tuple[Row, ...]]:
    """Return how many requests there are whose input tokens nobody told and are missing in the ratio, and what they can add to it.

    Each may have had from none to one a byte of its prompt, all cached or none; between these the ratio is monotone, so these are its ends.
    Output of a stream counts as it came; what was not streamed may have had none, or as much as its bound. What was scheduled before a window may have begun in it, so a throughput looks at all stages.
    """
    by_tokens = isinstance(aggregate, Cost) and _by_tokens(summary)
    if not (_needs_input(summary, aggregate) if by_tokens else aggregate.of in ("input_tokens", "total_tokens")):
        return 0, ()
    n, output, most, more, unbounded = (
        sum(
            tokens
            for (c, w, s), tokens in summary.counters.items()
            if c == name and workload in (None, w) and (s in stages or not by_tokens)
        )
        for name in ("untold", "untold_output_tokens", "untold_input_most", "untold_output_most", "untold_unbounded")
    )
    if not n:
        return 0, ()
    if isinstance(aggregate, Throughput):
        return n, ((float(most), 0.0),)
    if not by_tokens:
        return n, ((0.0, most / 1e6),)
    outputs = {output, output + more + (ENDLESS if unbounded else 0)}
    return n, tuple(
        (summary.run.price.cost(given, cached, produced) or 0.0, _of(aggregate, given, produced) / 1e6)
        for produced in sorted(outputs)
        for given, cached in ((0, 0), (most, 0), (most, most))
    )


def _by_tokens(summary: Summary) -> bool:
    return summary.run.price.input_per_1m is not None or summary.run.price.output_per_1m is not None


def _needs_input(summary: Summary, aggregate: Throughput | Cost) -> bool:
    """Say whether a cost by tokens depends on input tokens at all."""
    return aggregate.of != "output_tokens" or summary.run.price.input_costs


def _of(aggregate: Cost, given: int, output: int) -> int:
    return {"input_tokens": given, "output_tokens": output, "total_tokens": given + output}[aggregate.of]


def _happened(summary: Summary, of: str, workload: str | None, stages: set[int], spans: Spans) -> dict[int, float] | None:
    """Return how many requests or tokens there were by interval; None where no request told its tokens."""
    ks = [k for k, _ in spans]
    if of == "requests":
        return {k: float(n) for k, n in _by_interval(summary, "completed", workload, stages, ks).items()}
    wanted = ("input_tokens", "output_tokens") if of == "total_tokens" else (of,)
    if not all(summary.counter(name, workload, ALL) for name in wanted):
        return None
    found: dict[int, float] = {}
    for name in wanted:
        for one in summary.workloads if workload is None else (workload,):
            for k, tokens in _spread(summary, name, one, stages, ks).items():
                found[k] = found.get(k, 0.0) + tokens
    return found


def _spread(summary: Summary, name: str, workload: str, stages: set[int], ks: Sequence[int]) -> dict[int, float]:
    """Spread a workload's tokens in these stages over the intervals in which they came."""
    tokens = sum(n for (c, w, s), n in summary.counters.items() if c == f"window_{name}" and w == workload and s in stages)
    weights: Mapping[int, int]
    if name == "output_tokens":
        weights = _by_interval(summary, "chunks", workload, stages, ks)
    else:
        weights = _by_interval(summary, TTFT_COUNT, workload, None, ks)
    if not sum(weights.values()):  # not streamed: what is known came when it ended
        weights = _by_interval(summary, f"window_{name}", workload, stages, ks)
    whole = sum(weights.values())
    return {k: tokens * weight / whole for k, weight in weights.items()} if whole else {}


def _by_interval(summary: Summary, name: str, workload: str | None, stages: set[int] | None, ks: Iterable[int]) -> dict[int, int]:
    found = {}
    for k in ks:
        flow = summary.flow.get(k, {})
        found[k] = sum(
            n for (c, w, s), n in flow.items() if c == name and workload in (None, w) and (stages is None or s in stages)
        )
    return found
