"""Write numbers for people: three significant digits with a unit; what is missing is a dash, never a zero."""

from r1perf.budget import usd

NONE = "–"


def digits(value: float) -> str:
    """Write a number with three significant digits, and thousands apart above them."""
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.0f}" if size >= 99.95 else f"{value:.1f}" if size >= 9.995 else f"{value:.2f}"


def duration(ms: float | None) -> str:
    """Write a latency given in ms."""
    if ms is None:
        return NONE
    if abs(ms) < 999.5:
        return f"{digits(ms)} ms"
    if abs(ms) < 999_500:
        return f"{digits(ms / 1000)} s"
    return f"{digits(ms / 60_000)} min"


def duration_us(us: int | None) -> str:
    """Write a latency given in us."""
    return duration(None if us is None else us / 1000)


def span(seconds: float) -> str:
    """Write how long something took, to the second: "6 s", "4:05", "1:02:03"."""
    whole = int(seconds + 0.5)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}:{minutes:02}:{rest:02}"
    return f"{minutes}:{rest:02}" if minutes else f"{rest} s"


def count(n: int | None) -> str:
    """Write a count."""
    return NONE if n is None else f"{n:,}"


def whole(tokens: float) -> str:
    """Write a number of tokens that some request had."""
    return f"{tokens:,.0f}"


def rate(per_s: float | None) -> str:
    """Write a rate per second, without its unit."""
    return NONE if per_s is None else digits(per_s)


def share(part: int, whole: int) -> str:
    """Write a share in percent; what is not nothing does not read as nothing."""
    if not whole:
        return NONE
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    return ">99.9 %" if 99.9 < percent < 100 else f"{percent:.1f} %"


def percent(part: float) -> str:
    """Write a share that is given as a number from 0 to 1."""
    return f"{100 * part:.1f} %"


def plural(n: int, noun: str) -> str:
    """Write a count with its noun."""
    return f"{count(n)} {noun}" if n == 1 else f"{count(n)} {noun}s"


def money(amount: float | None) -> str:
    """Write USD: cents above one dollar, three significant digits below."""
    return NONE if amount is None else usd(amount, 3) if amount else "$0.00"
