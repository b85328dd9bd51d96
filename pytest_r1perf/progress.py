"""Show how a load goes, in a test session: one line that is rewritten on a terminal, a line now and then in a log."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pytest_r1perf.messages import Note, Progress
from r1perf import clock

LOG_NS = 30_000_000_000
"""How often a log gets a line."""


class Shown:
    """Write past pytest's capture; say nothing with -q, or where there is no terminal reporter."""

    def __init__(self, config: pytest.Config) -> None:
        self._plugins = config.pluginmanager  # asked when there is something to show: at first not all are there
        self._quiet = config.get_verbosity() < 0
        self._due_ns = 0

    def begin(self, sentence: str) -> None:
        """Say what is about to be sent, and to where."""
        self._due_ns = clock.monotonic_ns() + (0 if self._rewrites else LOG_NS)
        self._line(f"r1perf: {sentence}")

    def tell(self, said: Note | Progress) -> None:
        """Show a note, or the present."""
        if isinstance(said, Note):
            self._line(f"r1perf: {said.sentence}")
        elif self._rewrites:
            with self._terminal() as reporter:
                if reporter is not None:
                    reporter.rewrite(f"r1perf: {said.line}"[: shutil.get_terminal_size().columns - 1], erase=True)
                    sys.stdout.flush()
        elif clock.monotonic_ns() >= self._due_ns:
            self._due_ns = clock.monotonic_ns() + LOG_NS
            self._line(f"r1perf: {said.line}")

    def end(self, sentence: str) -> None:
        """Say where the archive is; a rewritten line is taken away."""
        self._line(f"r1perf: {sentence}", over=self._rewrites)

    @property
    def _reporter(self) -> pytest.TerminalReporter | None:
        found: pytest.TerminalReporter | None = None if self._quiet else self._plugins.get_plugin("terminalreporter")
        return found

    @property
    def _rewrites(self) -> bool:
        return self._reporter is not None and bool(self._reporter.isatty)

    def _line(self, text: str, *, over: bool = False) -> None:
        with self._terminal() as reporter:
            if reporter is not None:
                if over:
                    reporter.rewrite("", erase=True)
                else:
                    reporter.ensure_newline()
                reporter.write_line(text)

    @contextmanager
    def _terminal(self) -> Iterator[pytest.TerminalReporter | None]:
        reporter, capture = self._reporter, self._plugins.get_plugin("capturemanager")
        if reporter is None or capture is None:
            yield reporter
        else:
            with capture.global_and_fixture_disabled():
                yield reporter
