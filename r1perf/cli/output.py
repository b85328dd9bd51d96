"""What commands print: standard output and error that outlive their readers (a run goes on, and ends with its own exit code), and
notes on the latter."""

import io
import os
from typing import TextIO

import click


class Output(io.FileIO):
    """A standard stream; from the first write that fails on, what is written goes nowhere, and so does all where it is closed (None).

    `failure` says why in words (disk full); a reader that has gone away (`| head`), or was never there (`>&-`), is no failure.
    """

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(os.open(os.devnull, os.O_WRONLY) if stream is None else stream.fileno(), "w", closefd=False)
        self.failure: str | None = None
        self._mute = False
        self._stream = stream

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

    def text(self, *, by_line: bool = False) -> TextIO:
        """Return the text stream over it, buffered as Python's own is."""
        how = ("utf-8", "backslashreplace") if self._stream is None else (self._stream.encoding, self._stream.errors)
        return io.TextIOWrapper(io.BufferedWriter(self), *how, line_buffering=by_line or self.isatty())


def hold_places() -> None:
    """Open on nothing what is closed of standard input, output and error: the next file or socket would take its number, and a child
    that inherits it would write there."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free


def note(sentence: str) -> None:
    """Tell people something beside the result, which has standard output for itself."""
    click.echo(f"note: {sentence}", err=True)
