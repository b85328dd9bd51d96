"""Give the text of each token of one answer as it goes on the wire: filler, the end of the answer, inline tags."""

import json

from r1perf.simulator.answers import RING, Plan, filler, token
from r1perf.simulator.dialects import Dialect

HELD_EVERY = 61
"""A family that holds bytes gives one token in so many an empty text."""

_FILLER = tuple(word.encode() for word in filler())
_MASK = RING - 1


class Wording:
    """Say an answer, token by token, as one dialect has it.

    Without a reasoning parser, and on `/completions` always, thinking ends with `</think>` as its last token, and begins
    with `<think>` unless the template has opened it.
    """

    __slots__ = ("_offset", "_reasoning", "_special")

    def __init__(self, made: Plan, dialect: Dialect, *, chat: bool, stream: bool) -> None:
        self._offset = made.offset
        self._reasoning = made.reasoning
        special = {index: token(made, index) for index in range(made.tail_at, made.tail_at + len(made.tail))}
        inline = dialect.inline or ("tags" if dialect.thinks and not chat else "")
        if inline and made.reasoning:
            closing = "\n</think>\n\n" if made.closed else ""
            if closing:
                special[made.reasoning - 1] = closing
            if inline == "tags":
                special[0] = "<think>\n" + (closing if made.reasoning == 1 else "")
        if dialect.holds_bytes and stream:
            for index in range(HELD_EVERY, made.total, HELD_EVERY):
                if index != made.reasoning and index - 1 not in special:
                    here = special.get(index) or token(made, index)
                    special[index], special[index - 1] = token(made, index - 1) + here, ""
        self._special = {index: json.dumps(text)[1:-1].encode() for index, text in special.items()}

    def escaped(self, index: int) -> bytes:
        """Return the text of one token, escaped as JSON has it."""
        special = self._special.get(index)
        return special if special is not None else _FILLER[(self._offset + index) & _MASK]

    def whole(self, tokens: int) -> tuple[str, str]:
        """Return the thinking and the answer of the first so many tokens."""
        texts = [unescaped(self.escaped(index)) for index in range(tokens)]
        return "".join(texts[: self._reasoning]), "".join(texts[self._reasoning :])


def unescaped(text: bytes) -> str:
    """Undo the JSON escaping of text."""
    return str(json.loads(b'"' + text + b'"'))
