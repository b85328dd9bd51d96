"""Probability."""

from fractions import Fraction
from math import comb
from random import Random

from r1perf.datasets.problems.draft import Draft, Family, lowest_terms


def dice_sum(random: Random, difficulty: int) -> Draft:
    """Ask for the chance of a sum of dice."""
    dice, faces = random.randint(2, 2 + difficulty), random.randint(4, 6 + difficulty)
    total = random.randint(dice + 1, dice * faces - 1)
    ways = [1]
    for _ in range(dice):  # the product of the dice's generating functions
        longer = [0] * (len(ways) + faces)
        for k, count in enumerate(ways):
            for face in range(1, faces + 1):
                longer[k + face] += count
        ways = longer
    asked, answer = lowest_terms(Fraction(ways[total], faces**dice))
    return Draft(
        f"When ${dice}$ fair ${faces}$-sided dice, each numbered from $1$ to ${faces}$, are rolled, the probability that the "
        f"numbers add up to ${total}$ {asked}",
        answer,
        (dice, faces, total),
    )


def same_color(random: Random, difficulty: int) -> Draft:
    """Ask for the chance that drawn marbles have one color."""
    red, blue, drawn = random.randint(3, 5 + 3 * difficulty), random.randint(3, 5 + 3 * difficulty), random.randint(2, 3)
    asked, answer = lowest_terms(Fraction(comb(red, drawn) + comb(blue, drawn), comb(red + blue, drawn)))
    return Draft(
        f"A bag holds ${red}$ red and ${blue}$ blue marbles. Of these ${drawn}$ are drawn at random without putting any back. The "
        f"probability that all drawn marbles have the same color {asked}",
        answer,
        (red, blue, drawn),
    )


def no_two_heads(random: Random, difficulty: int) -> Draft:
    """Ask for the chance of no two heads in a row, of a biased coin."""
    flips, odds = random.randint(3, 5 + 2 * difficulty), random.randint(2, 9)
    tails, heads = Fraction(odds - 1, odds), Fraction(1, odds)  # chances of no pair so far, by the last flip
    for _ in range(flips - 1):
        tails, heads = (tails + heads) * Fraction(odds - 1, odds), tails * Fraction(1, odds)
    asked, answer = lowest_terms(tails + heads)
    return Draft(
        f"A coin comes up heads with probability $\\frac{{1}}{{{odds}}}$ and is flipped ${flips}$ times. The probability that heads "
        f"never occurs on two flips in a row {asked}",
        answer,
        (flips, odds),
    )


def expected_distinct(random: Random, difficulty: int) -> Draft:
    """Ask for the expected number of distinct faces."""
    rolls, faces = random.randint(2, 2 + difficulty), random.randint(3, 12)
    asked, answer = lowest_terms(faces * (1 - Fraction(faces - 1, faces) ** rolls))
    return Draft(
        f"A fair ${faces}$-sided die is rolled ${rolls}$ times. The expected number of different faces that show {asked}",
        answer,
        (rolls, faces),
    )


FAMILIES: tuple[Family, ...] = (dice_sum, same_color, no_two_heads, expected_distinct)
