"""Show a run while it goes on: a block that is redrawn, or plain lines where there is no terminal."""

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from r1perf.report.wording import NONE, count, duration_us, rate, span
from r1perf.schedule import begins_ns
from r1perf.summary import Recent, Summary, recent

SIDE_BY_SIDE = 75
"""So many columns hold two pairs of a label and its value side by side; in fewer they stand one below the other."""


class _Grid:
    """Rows of two labelled values, laid out by the width that there is."""

    def __init__(self, rows: list[tuple[str, str, str, str]]) -> None:
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid, wide = Table.grid(padding=(0, 2)), options.max_width >= SIDE_BY_SIDE
        for label_width in (13, 6) if wide else (13,):
            grid.add_column(style="dim", min_width=label_width, no_wrap=True)
            grid.add_column(min_width=24 if wide else None, no_wrap=wide)
        halves = [(row[:2], row[2:]) for row in self._rows]
        below = [half for column in zip(*halves, strict=True) for half in column if any(half)]
        for row in self._rows if wide else below:
            grid.add_row(*row)
        yield grid


def live_block(summary: Summary, total_s: float | None = None) -> Group:
    """Draw the present; `total_s` is the planned length of the window, where it is known."""
    now = recent(summary)
    pairs = [
        ("in flight", _in_flight(now), "TTFT", _pair(now.ttft_p50, now.ttft_p95)),
        ("done", count(now.done), "ITL", _pair(now.itl_p50, now.itl_p95)),
        ("arrivals", f"{rate(now.scheduled_per_s)}/s, sent {rate(now.sent_per_s)}/s", "output", f"{_tokens(now)} tok/s"),
        ("conversations", f"{count(now.conversations)} begun", "", f"(the last {span(now.seconds)})" if now.seconds else ""),
    ]
    head = Text.assemble(
        (summary.run.name, "bold"), f" on {summary.run.target}  {_clock(now, total_s)}  stage {now.stage or NONE}"
    )
    lines: list[RenderableType] = [head, _Grid(pairs), Text.assemble(("generator", "dim"), f"      {_generator(now)}")]
    if now.failed or now.censored:
        lines.append(Text(f"failed: {_failed(now)}", style="red"))
    return Group(*lines)


def window_s(summary: Summary) -> float | None:
    """Return how long arrivals go on, warmup and cooldown included; None where requests end them, or something already has."""
    drain = summary.run.stages[-1]
    begins = begins_ns(drain, summary.stages, summary.ended)
    return None if drain.follows is not None or begins != drain.start_ns else drain.start_ns / 1e9


def live_line(summary: Summary, total_s: float | None = None) -> str:
    """Say the present in one line, for logs."""
    now = recent(summary)
    parts = [
        _clock(now, total_s),
        now.stage or NONE,
        f"scheduled {rate(now.scheduled_per_s)}/s sent {rate(now.sent_per_s)}/s",
        f"in flight {_in_flight(now)}",
        f"done {count(now.done)}",
        f"failed {count(sum(now.failed.values()))}" + (f" ({_failed(now)})" if now.failed or now.censored else ""),
        f"{_tokens(now)} tok/s",
        f"TTFT {_pair(now.ttft_p50, now.ttft_p95)}",
        f"ITL {_pair(now.itl_p50, now.itl_p95)}",
        _generator(now),
    ]
    return " | ".join(parts)


def _clock(now: Recent, total_s: float | None) -> str:
    elapsed = span(now.elapsed_ns / 1e9)
    return f"{elapsed} of {span(total_s)}" if total_s is not None else elapsed


def _in_flight(now: Recent) -> str:
    return f"{count(now.in_flight)} (+{count(now.waiting)} waiting)" if now.waiting else count(now.in_flight)


def _failed(now: Recent) -> str:
    kinds = {**now.failed, **now.censored}
    return ", ".join(f"{outcome.replace('_', ' ')} {count(n)}" for outcome, n in kinds.items())


def _pair(p50: int | None, p95: int | None) -> str:
    return NONE if p50 is None else f"p50 {duration_us(p50)}, p95 {duration_us(p95)}"


def _tokens(now: Recent) -> str:
    """Mark the estimate while no request has told how many tokens a chunk holds."""
    return rate(now.output_tokens_per_s) if now.tokens_known else f"~{rate(now.output_tokens_per_s)}"


def _generator(now: Recent) -> str:
    cpu = NONE if now.cpu is None else f"{100 * now.cpu:.0f} %"
    delay, lag = duration_us(now.delay_max_ns // 1000), duration_us(now.loop_lag_max_ns // 1000)
    return f"CPU {cpu}, schedule delay up to {delay}, loop lag up to {lag}"
