"""Competition-style problems with whole-number answers from 0 to 999, computed from drawn numbers, never stored.

A family is a function of a random stream and a difficulty (1 to 3) that returns a `Draft`; one file an area of mathematics. Where a
draft's answer lies outside 0..999 it is drawn again.
"""

from random import Random
from typing import NamedTuple

from r1perf.datasets.problems import algebra, counting, geometry, numbers, probability
from r1perf.datasets.problems.draft import Family

FAMILIES: dict[str, Family] = {
    family.__name__: family for area in (numbers, counting, algebra, geometry, probability) for family in area.FAMILIES
}


class Problem(NamedTuple):
    """A problem, the family that made it, the numbers it was made from, and its answer."""

    family: str
    text: str
    answer: int
    numbers: tuple[int, ...]


def problem(random: Random, difficulty: int, family: str | None = None) -> Problem:
    """Make one problem, of a family drawn from all unless one is named."""
    name = family or random.choice(tuple(FAMILIES))
    while True:
        text, answer, numbers = FAMILIES[name](random, difficulty)
        if 0 <= answer <= 999:
            return Problem(name, text, answer, numbers)
