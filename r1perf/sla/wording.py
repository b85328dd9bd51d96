"""Write the numbers of verdicts for people: three digits, the unit that fits, no false precision."""

import math

from r1perf.sla.clauses import Dimension

_STEPS_NS = ((3_600_000_000_000, "h"), (60_000_000_000, "m"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))


def amount(value: float, dimension: Dimension) -> str:
    """Write a value in its base unit (ns, tokens, per second, share of 1, USD): `941 ms`, `2,031/s`, `8.7 %`, `$2.41`."""
    if math.isinf(value):
        return "no limit"
    match dimension:
        case "time":
            return duration(value)
        case "share":
            return percent(value)
        case "money":
            return f"${value:,.4g}" if value < 0.1 else f"${value:,.2f}"
        case "rate":
            return f"{number(value)}/s"
    return f"{number(value)} tokens"


def duration(ns: float) -> str:
    """Write a duration: `941 ms`, `2.05 s`, `3 m`."""
    for size, unit in _STEPS_NS:
        if abs(ns) >= size * (10 if unit in ("m", "h") else 1):  # 90 s says more than 1.5 m
            return f"{number(ns / size)} {unit}"
    return f"{number(ns / 1000)} us"


def number(value: float) -> str:
    """Write a number in three significant digits, whole ones with all of theirs."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share: float) -> str:
    """Write a share: `8.7 %`, `0.032 %`, `100 %`; never rounded up to all or down to none."""
    value = 100 * share
    if 0 < value < 0.0001:
        return "under 0.0001 %"
    if 99.9999 < value < 100:
        return "over 99.9999 %"
    if 0 < value < 0.1:
        return f"{value:.2g} %"
    if 99.9 < value < 100:
        return f"{100 - float(f'{100 - value:.1g}'):g} %"
    return f"{value:.1f}".removesuffix(".0") + " %"


def decide(n: int) -> str:
    """Write the verb for so many things of which not all is known."""
    return "decides" if n == 1 else "decide"


def count(n: int, thing: str) -> str:
    """Write a count and its thing: `1 run`, `2,000 requests`."""
    return f"{n:,} {thing}" + ("" if n == 1 else "s")
