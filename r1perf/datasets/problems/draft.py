"""What a family of problems returns."""

from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import NamedTuple


class Draft(NamedTuple):
    """A problem's text, its answer (any whole number), and the numbers it was made from."""

    text: str
    answer: int
    numbers: tuple[int, ...]


Family = Callable[[Random, int], Draft]


def lowest_terms(fraction: Fraction) -> tuple[str, int]:
    """Return the question for m + n of m/n in lowest terms, as a sentence's end, and its answer."""
    answer = fraction.numerator + fraction.denominator
    asked = "Find $m + n$." if answer <= 999 else "Find the remainder when $m + n$ is divided by $1000$."
    return (
        f"can be written as $\\frac{{m}}{{n}}$, where $m$ and $n$ are relatively prime positive integers. {asked}",
        answer % 1000,
    )
