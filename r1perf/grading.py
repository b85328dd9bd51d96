"""Grade an answer with a known right one: the last balanced `\\boxed{}`, else "answer is", else the last whole number.

Reasoning is cut off first: a box inside it is a draft. Pure functions whose time grows with the text's length and no faster, whatever a
model says: every pattern here moves on over what it has read. `Source.grade` calls them, on a thread where a text is long.
"""

import re
from enum import StrEnum
from typing import NamedTuple, Self

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


SEARCHED = 50_000
"""Characters at the end of an answer, its reasoning cut off, in which a box is looked for: the answer stands at the end."""

SAID = 20_000
"""The same for "answer is" and for whole numbers."""

MINUS = "\N{MINUS SIGN}"
"""How a minus is set in print; it counts as a hyphen."""

SENTENCE = 1_000
"""Characters of what is said after "answer is", at most."""


class Graded(NamedTuple):
    """A grade, and what was read as the answer; None where nothing was."""

    grade: Grade
    answer: str | None


def grade(answer: str | None, expected: str, *, truncated: bool = False) -> Graded:
    """Grade one answer text. `truncated` says that the length limit cut it.

    A cut answer is graded only where its box was complete: a number at the cut may miss digits. Where `expected` is no whole number,
    what follows "answer is" is compared with it as a text, and a number elsewhere is no answer.
    """
    text = without_reasoning(answer or "").replace(MINUS, "-")
    right = normal(expected)
    found = boxed(text[-SEARCHED:])
    if found is not None:
        return Graded(Grade.RIGHT if normal(found) == right else Grade.WRONG, found)
    if truncated:
        return Graded(Grade.TRUNCATED, None)
    sentence = _said(text[-SAID:])
    if _WHOLE.fullmatch(right):
        found = None if sentence is None else _number(sentence)
        found = found if found is not None else _last_number(text[-SAID:])
    elif sentence is not None:
        # "Paris, the capital of France": an expected text with a comma of its own is compared whole.
        first = re.split(r"[,;]\s", sentence, maxsplit=1)[0]
        found = first if normal(first) == right else sentence
    if found is None:
        return Graded(Grade.UNANSWERED, None)
    return Graded(Grade.RIGHT if normal(found) == right else Grade.WRONG, found)


def without_reasoning(text: str) -> str:
    """Return what follows the last `</think>`; "" where a `<think>` is still open."""
    answer = text.rpartition("</think>")[2]
    return answer.partition("<think>")[0]


def boxed(text: str) -> str | None:
    """Return the content of the last `\\boxed{}` (or `\\fbox{}`) whose braces balance and that is not empty.

    From the end: a closing brace belongs to the nearest opening one before it that is still open.
    """
    marks, open_ends = [], list[int]()
    for mark in _MARK.finditer(text):
        marks.append(mark)  # noqa: PERF402 - `list` would do it in one go, for which other threads would wait
    for mark in reversed(marks):
        if mark[0] == "}":
            open_ends.append(mark.start())
        elif open_ends and (mark[0] == "{" or len(mark[0]) > 2):  # not an escaped brace
            content = text[mark.end() : open_ends.pop()]
            if mark[0] != "{" and content.strip():
                return content
    return None


def normal(answer: str) -> str:
    """Reduce an answer to what is compared: after the last "=", without dressing, units and leading zeros ("073" is "73").

    What is no whole number is its text, in lower case and without spaces. Digits stay text: a number may have any number of them.
    """
    answer = re.sub(r"\s+", " ", answer).replace(MINUS, "-")
    bare = _UNIT_TEXT.sub("", answer)
    text = _STYLE.sub(r"\1", bare if bare.strip(" $.") else answer)
    text = _DRESSING.sub("", text.replace("{,}", ",").rpartition("=")[2]).strip().rstrip(".").strip()
    number = _WHOLE.fullmatch(_UNIT.sub("", text))
    if number is None:
        return text.replace(" ", "").lower()
    digits = number[2].replace(",", "")
    digits = (digits if digits.isascii() else "".join(str(int(digit)) for digit in digits)).lstrip("0") or "0"
    return f"-{digits}" if number[1] == "-" and digits != "0" else digits


# \x08: "\b" of a "\boxed" that was unescaped once too often. An escaped brace is none, and "\\" before a box escapes nothing.
_BOX = r"(?:\\boxed|\x08oxed|\\fbox|\\framebox)\s*\{"
_MARK = re.compile(rf"{_BOX}|\\(?!{_BOX}).|[{{}}]", re.DOTALL)
_STYLE = re.compile(r"\\(?:text|textbf|textrm|mathrm|mathbf|mathit|mathsf|boldsymbol|bm|mbox|emph)\s*\{([^{}]*)\}")
_UNIT_TEXT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{[^{}\d]*\}(?:\^\{?\d\}?)?")
_DRESSING = re.compile(r"\\[,;:! ()\[\]$]|\\(?:displaystyle|left|right|quad)\b|[$*~`{}]")
_UNIT = re.compile(r" ?(?:\^?\\circ|\^?°|\\degree|\\?%|(?<=\d )[A-Za-z][A-Za-z. ]*)(?:\^\d)?$")
_WHOLE = re.compile(r"\(?([+-]?)\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.0*)?\)?")
_ANSWER_IS = re.compile(r"answer\W{0,4}\s*(?:is\b|:|=)\W*?(?=[\s\d$\\])", re.IGNORECASE)
_MATH = re.compile(r"[\s*:]*(?:\$+([^$]+)\$+|\\\((.+?)\\\)|\\\[(.+?)\\\])", re.DOTALL)
_FACTOR = r"\s?\\(?:[dt]?frac|sqrt|[dt]?binom|pi|theta|cdot|times|div|pm|log|ln)(?![A-Za-z])|\^[ \t({]*[-+]?[\dA-Za-z]"
"""What makes a number before it a part of something else."""
_PART = r"(?:[\d,+\-*/×·()\s]|\^(?=[{(]?\d)|(?<=\^)\{|(?<=\d)\})"
_CHAIN = re.compile(rf"[-+]?\d{_PART}*(?:={_PART}*\d)*")
_ATTACHED = r"(?![mgshl])[a-z](?![A-Za-z\d])"  # "73x" and "73i" are products, "73m" and "73cm" have units
_NOT_WHOLE = re.compile(rf"[-+]?[\d,]*\d(?:\.\d*[1-9]|[ \t]*[-+*/×·][ \t]*\(?\d|{_FACTOR}|{_ATTACHED})")
_COMMAND = re.compile(r"\\(?:[dt]?frac|sqrt|[dt]?binom)\b")
_FACTORIAL = re.compile(r"\d\s*!")
_INTEGER = re.compile(rf"(?<![\w.^])[-+]?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?(?!\w|{_FACTOR})")


def _said(text: str) -> str | None:
    """Return the sentence after the last "answer is" or "answer:"; None where nothing is said so."""
    end = None
    for said in _ANSWER_IS.finditer(text):
        end = said.end()
    if end is None:
        return None
    return re.split(r"\.\s|\n\s*\n", text[end : end + SENTENCE].lstrip(), maxsplit=1)[0]


def _number(sentence: str) -> str | None:
    """Return the whole number that a sentence gives, or what it gives instead of one (73/2, 73.5); None where there is none."""
    math = _MATH.match(sentence)
    if math is not None:
        inside = next(group for group in math.groups() if group is not None)
        if _WHOLE.fullmatch(normal(inside)) or _COMMAND.search(inside) or _FACTORIAL.search(inside):
            return inside
    chain = _CHAIN.search(sentence)
    if chain is None:
        return None
    if _COMMAND.search(sentence, 0, chain.start()):
        return sentence
    last = sentence.rfind("=", chain.start(), chain.end()) + 1 or chain.start()
    if odd := _NOT_WHOLE.match(sentence[last:].lstrip()):
        return odd[0]
    found = _whole_numbers(chain[0])
    return found[-1 if "=" in chain[0] else 0] if found else None


def _last_number(text: str) -> str | None:
    found = _whole_numbers(text)
    return found[-1] if found else None


def _whole_numbers(text: str) -> list[str]:
    return [number for number in _INTEGER.findall(text) if "." not in number]
