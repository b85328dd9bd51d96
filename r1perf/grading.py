"""Grade an answer with a known right one: the last balanced `\\boxed{}`, else "answer is", else the last whole number.

Reasoning is cut off first: a box inside it is a draft. Pure functions; called off the hot path.
"""

import re
from enum import StrEnum
from typing import Self

import msgspec


class Grade(StrEnum):
    """What an answer is worth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNANSWERED = "unanswered"
    TRUNCATED = "truncated"


class Grades(msgspec.Struct, frozen=True):
    """Counts of grades; they add up."""

    right: int = 0
    wrong: int = 0
    unanswered: int = 0
    truncated: int = 0

    @classmethod
    def of(cls, grade: Grade) -> Self:
        """Count one grade."""
        return cls(**{grade.value: 1})

    def __add__(self, other: Self) -> Self:
        """Add two counts."""
        return type(self)(
            self.right + other.right,
            self.wrong + other.wrong,
            self.unanswered + other.unanswered,
            self.truncated + other.truncated,
        )

    @property
    def accuracy(self) -> float | None:
        """Return right / all four; None where nothing was graded."""
        total = self.right + self.wrong + self.unanswered + self.truncated
        return self.right / total if total else None

    @property
    def accuracy_answered(self) -> float | None:
        """Return right / (right + wrong); None where nothing was answered."""
        answered = self.right + self.wrong
        return self.right / answered if answered else None


def grade(answer: str | None, expected: str, *, truncated: bool = False) -> Grade:
    """Grade one answer text. `truncated` says that the length limit cut it.

    A cut answer is graded only where its box was complete: a number at the cut may miss digits.
    """
    text = without_reasoning(answer or "")
    found = boxed(text)
    if found is None and truncated:
        return Grade.TRUNCATED
    if found is None:
        found = _said(text)
    if found is None:
        return Grade.UNANSWERED
    return Grade.RIGHT if normal(found) == normal(expected) else Grade.WRONG


def without_reasoning(text: str) -> str:
    """Return what follows the last `</think>`; "" where a `<think>` is still open."""
    answer = text.rpartition("</think>")[2]
    return answer.partition("<think>")[0]


def boxed(text: str) -> str | None:
    """Return the content of the last `\\boxed{}` (or `\\fbox{}`) whose braces balance and that is not empty."""
    for match in reversed(list(_BOX.finditer(text))):
        content = _balanced(text, match.end())
        if content is not None and content.strip():
            return content
    return None


def normal(answer: str) -> str:
    """Reduce an answer to what is compared: after the last "=", without dressing, units and leading zeros ("073" is "73").

    What is no whole number is its text, in lower case and without spaces.
    """
    bare = _UNIT_TEXT.sub("", answer)
    text = _STYLE.sub(r"\1", bare if bare.strip(" $.") else answer)
    text = _DRESSING.sub("", text.replace("{,}", ",").rpartition("=")[2]).strip().rstrip(".").strip()
    number = _WHOLE.fullmatch(_UNIT.sub("", text))
    if number is None:
        return re.sub(r"\s+", "", text).lower()
    value = int(number[2].replace(",", ""))
    return f"-{value}" if number[1] == "-" and value else str(value)


_BOX = re.compile(r"(?:\\boxed|\x08oxed|\\fbox|\\framebox)\s*\{")  # \x08: "\b" of a "\boxed" that was unescaped once too often
_STYLE = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathit|mathsf|boldsymbol|bm|mbox|emph)\s*\{([^{}]*)\}")
_UNIT_TEXT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{[^{}\d]*\}(?:\^\{?\d\}?)?")
_DRESSING = re.compile(r"\\[,;:! ()\[\]]|\\(?:displaystyle|left|right|quad)\b|[$*~`{}]")
_UNIT = re.compile(r"\s*(?:\^?\\circ|\^?°|\\degree|\\?%|(?<=\d)\s+[A-Za-z][A-Za-z. ]*)(?:\^\d)?$")
_WHOLE = re.compile(r"\(?([+-]?)\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?\)?")
_SAID = re.compile(r"answer\W{0,4}\s*(?:is\b|:|=)\W*?(?=[\s\d$\\])", re.IGNORECASE)
_MATH = re.compile(r"[\s*:]*(?:\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\])", re.DOTALL)
_CHAIN = re.compile(r"[-+]?\d[\d,+\-*/×·()\s]*(?:=[\d,+\-*/×·()\s]*\d)*")
_INTEGER = re.compile(r"(?<![\w.^])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?!\w)")


def _balanced(text: str, start: int) -> str | None:
    """Return the text from `start` to the brace that closes what was opened before it."""
    depth, escaped = 1, False
    for position in range(start, len(text)):
        character = text[position]
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if not depth:
                return text[start:position]
    return None


def _said(text: str) -> str | None:
    """Return what follows the last "answer is" or "answer:", else the last whole number."""
    said = list(_SAID.finditer(text))
    if said:
        sentence = re.split(r"\.\s|\n\s*\n", text[said[-1].end() :].lstrip(), maxsplit=1)[0]
        math = _MATH.match(sentence)
        if math is not None:
            inside = next(group for group in math.groups() if group is not None)
            if _WHOLE.fullmatch(normal(inside)):
                return inside
        chain = _CHAIN.search(sentence)
        if chain is not None:
            found = _whole_numbers(chain[0])
            if found:
                return found[-1 if "=" in chain[0] else 0]
    found = _whole_numbers(text)
    return found[-1] if found else None


def _whole_numbers(text: str) -> list[str]:
    return [number for number in _INTEGER.findall(text) if "." not in number]
