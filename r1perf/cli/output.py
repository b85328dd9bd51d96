"""What commands print: standard output that outlives its reader (a run goes on, and ends with its own exit code), and notes beside it."""

import io
import sys
from typing import TextIO

import click


class Output(io.FileIO):
    """Standard output; from the first write that fails on, what is written goes nowhere.

    `failure` says why in words (disk full); a reader that has gone away (`| head`) is no failure.
    """

    def __init__(self) -> None:
        super().__init__(sys.__stdout__.fileno() if sys.__stdout__ is not None else 1, "w", closefd=False)
        self.failure: str | None = None
        self._mute = False

    def write(self, data: object, /) -> int:
        """Write, or drop."""
        buffer = memoryview(data)  # type: ignore[arg-type]
        if not self._mute:
            try:
                return super().write(buffer)
            except BrokenPipeError:
                self._mute = True
            except OSError as error:
                self._mute, self.failure = True, error.strerror
        return buffer.nbytes

    def text(self) -> TextIO:
        """Return the text stream over it, buffered as Python's own is."""
        before = sys.stdout
        return io.TextIOWrapper(
            io.BufferedWriter(self), encoding=before.encoding, errors=before.errors, line_buffering=self.isatty()
        )


def note(sentence: str) -> None:
    """Tell people something beside the result, which has standard output for itself."""
    click.echo(f"note: {sentence}", err=True)
