"""What is shown while a run goes on: a live block on a terminal, plain lines elsewhere, nothing with --quiet."""

from rich.console import Console
from rich.live import Live
from rich.text import Text

from r1perf import clock
from r1perf.report import live_block, live_line, window_s
from r1perf.summary import Summary

REDRAW_NS = 500_000_000
LINE_NS = 5_000_000_000


class Quiet:
    """Show notes alone."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def note(self, sentence: str) -> None:
        """Print a sentence."""
        self._console.print(Text(f"note: {sentence}"), soft_wrap=True)

    def show(self, summary: Summary, phase: str) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Have nothing to end."""


class Lines(Quiet):
    """A line every few seconds: for logs."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._due_ns = clock.monotonic_ns()

    def show(self, summary: Summary, phase: str) -> None:
        """Print a line where it is time for one."""
        if summary.elapsed_ns and clock.monotonic_ns() >= self._due_ns:
            self._due_ns = clock.monotonic_ns() + LINE_NS
            self._console.print(Text(f"{phase} | {live_line(summary, window_s(summary))}"), soft_wrap=True)


class Block(Quiet):
    """One block that is redrawn in place."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._due_ns = 0
        # Drawn by us, twice a second: a thread of its own would draw while the collector merges.
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._live.start()

    def show(self, summary: Summary, phase: str) -> None:
        """Redraw where it is time to."""
        if clock.monotonic_ns() >= self._due_ns:
            self._due_ns = clock.monotonic_ns() + REDRAW_NS
            self._live.update(live_block(summary, window_s(summary)), refresh=True)

    def close(self) -> None:
        """Take the block away: the tables follow."""
        self._live.update("", refresh=True)
        self._live.stop()


def view(console: Console, *, quiet: bool) -> Quiet:
    """Choose what suits the place where the output goes."""
    if quiet:
        return Quiet(console)
    # A dumb terminal cannot redraw: it would show nothing until the end.
    return Block(console) if console.is_terminal and not console.is_dumb_terminal else Lines(console)
