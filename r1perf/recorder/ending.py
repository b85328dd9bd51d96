"""Compute the values that a request has once it has ended."""

from collections.abc import Iterator, Mapping

from r1perf.result import Result


def values(result: Result) -> Iterator[tuple[str, int]]:
    """Go through the per-request metrics of a request that ended well, as (metric, us or tokens).

    ttft and service_ttft are not among them: they are entered when they happen. What a request did not do is absent.
    """
    if result.last_ns is not None:
        yield "e2e", (result.last_ns - result.scheduled_ns) // 1000
        if result.sent_ns is not None:
            yield "service_e2e", (result.last_ns - result.sent_ns) // 1000
    if result.streamed:
        warmth = result.usage.warmth
        if warmth in ("cold", "warm") and result.first_ns is not None:
            yield f"ttft_{warmth}", (result.first_ns - result.scheduled_ns) // 1000
        if result.first_answer_ns is not None:
            yield "ttfo", (result.first_answer_ns - result.scheduled_ns) // 1000
            if result.first_reasoning_ns is not None:
                yield "thinking", (result.first_answer_ns - result.first_reasoning_ns) // 1000
        if result.itl_max_ns is not None:
            yield "itl_max", result.itl_max_ns // 1000
        tpot = tpot_us(result)
        if tpot is not None:
            yield "tpot", tpot
    usage = result.usage
    for name, tokens in (
        ("input_tokens", usage.input_tokens),
        ("output_tokens", usage.output_tokens),
        ("reasoning_tokens", usage.reasoning_tokens),
        ("cached_tokens", usage.cached_tokens),
    ):
        if tokens is not None:
            yield name, tokens


def tpot_us(result: Result) -> int | None:
    """Return (last - first output chunk) / (tokens - 1) in us, as vLLM and MLPerf; None under 2 tokens.

    Where reasoning was counted but not streamed, both chunks are the answer's, and so are the tokens.
    """
    tokens = result.usage.output_tokens
    if tokens is None or result.first_ns is None or result.last_ns is None:
        return None
    if result.reasoning_hidden:
        tokens -= result.usage.reasoning_tokens or 0
    if tokens < 2:
        return None
    return (result.last_ns - result.first_ns) // (1000 * (tokens - 1))


def apportion(total: int, shares: Mapping[int, int]) -> dict[int, int]:
    """Part an integer in proportion to `shares` so that the parts add up to it exactly.

    By largest remainder (Hamilton's method); equal remainders go to the lower key. Keys whose part is 0 are left out.
    """
    whole = sum(shares.values())
    parts = {key: total * share // whole for key, share in shares.items()}
    left = total - sum(parts.values())
    for key in sorted(shares, key=lambda key: (-(total * shares[key] % whole), key))[:left]:
        parts[key] += 1
    return {key: part for key, part in parts.items() if part}
