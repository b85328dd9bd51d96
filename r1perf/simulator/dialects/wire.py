"""Hold what every event of one response repeats, and what its parts are called."""

from typing import Any

import msgspec

THINKING, ANSWER = 1, 2
HOLE = "\x01"
"""Stands for the text in a payload that is cut into the constant parts around it."""

DONE = b"data: [DONE]\n\n"


class Counts(msgspec.Struct):
    """Hold the token counts of one answer, so far."""

    prompt: int
    cached: int
    output: int
    reasoning: int


class Wire(msgspec.Struct, frozen=True):
    """Hold what every event of one response repeats.

    `usage` and `continuous` are the request's `stream_options`; `mute` leaves usage out wherever a family would send it
    unasked; `rerouted` means that another upstream than the usual one answers.
    """

    id: str
    created: int
    model: str
    chat: bool = True
    usage: bool = False
    continuous: bool = False
    mute: bool = False
    rerouted: bool = False
    body: dict[str, Any] = {}
