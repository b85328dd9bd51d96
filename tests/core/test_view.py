"""Which view a run gets, by the place where the output goes."""

import io

import pytest
from rich.console import Console

from r1perf.cli.view import Block, Lines, Quiet, view

PLACES = {
    "terminal": ("xterm", True, False, Block),
    "dumb terminal": ("dumb", True, False, Lines),
    "unknown terminal": ("unknown", True, False, Lines),
    "file": ("xterm", False, False, Lines),
    "quiet": ("xterm", True, True, Quiet),
}


@pytest.mark.parametrize("name", PLACES)
def test_what_suits_the_place(name):
    term, terminal, quiet, kind = PLACES[name]
    chosen = view(Console(file=io.StringIO(), force_terminal=terminal, _environ={"TERM": term}), quiet=quiet)
    chosen.close()
    assert type(chosen) is kind
