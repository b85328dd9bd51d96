"""Competition-style problems with whole-number answers from 0 to 999, computed and not stored."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple


class Problem(NamedTuple):
    """A problem, the family that made it, its numbers, and its answer."""

    family: str
    text: str
    answer: int
    numbers: tuple[int, ...]


Family = Callable[[Random, int], tuple[str, int, tuple[int, ...]]]


def modular_power(random: Random, difficulty: int) -> tuple[str, int, tuple[int, ...]]:
    """Ask for the last digits of a power."""
    base, power = random.randint(3, 99), random.randint(10**difficulty, 10 ** (difficulty + 1))
    return f"Find the remainder when ${base}^{{{power}}}$ is divided by $1000$.", pow(base, power, 1000), (base, power)


def divisor_count(random: Random, difficulty: int) -> tuple[str, int, tuple[int, ...]]:
    """Ask for the number of divisors of a product of prime powers."""
    a, b, c = (random.randint(1, 3 + difficulty) for _ in range(3))
    return (
        f"How many positive integers divide $2^{{{a}}} \\cdot 3^{{{b}}} \\cdot 5^{{{c}}}$?",
        (a + 1) * (b + 1) * (c + 1),
        (a, b, c),
    )


FAMILIES: tuple[Family, ...] = (modular_power, divisor_count)


def problem(random: Random, difficulty: int) -> Problem:
    """Make one problem."""
    family = random.choice(FAMILIES)
    text, answer, numbers = family(random, difficulty)
    return Problem(family.__name__, text, answer, numbers)
