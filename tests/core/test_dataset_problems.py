"""Every made problem's answer is checked against the slow and obvious way of finding it."""

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product
from math import dist, factorial, isclose, prod
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.datasets.problems import FAMILIES, problem

Brute = Callable[..., int]


def m_plus_n(fraction: Fraction) -> int:
    return (fraction.numerator + fraction.denominator) % 1000


def power_remainder(base, power, modulus):
    value = 1
    for _ in range(power):
        value = value * base % modulus
    return value


def divisors_multiple(*numbers):
    half = len(numbers) // 2
    powers, least = numbers[:half], numbers[half:]
    primes = (2, 3, 5, 7)[:half]
    multiple = prod(p**k for p, k in zip(primes, least, strict=True))
    divisors = (prod(p**k for p, k in zip(primes, chosen, strict=True)) for chosen in product(*(range(k + 1) for k in powers)))
    return sum(divisor % multiple == 0 for divisor in divisors)


def three_remainders(a, b, c, ra, rb, rc):
    return next(n for n in range(a * b * c) if (n % a, n % b, n % c) == (ra, rb, rc))


def trailing_zeros(upper, lower):
    quotient, zeros = prod(range(lower + 1, upper + 1)), 0
    while quotient % 10 == 0:
        quotient, zeros = quotient // 10, zeros + 1
    return zeros


def coprime_count(bound, number):
    factors = [p for p in range(2, number + 1) if number % p == 0]
    return sum(all(n % p for p in factors) for n in range(1, bound + 1))


def paths_around(right, up, x, y):
    ways = {(0, 0): 1}
    for i, j in product(range(right + 1), range(up + 1)):
        if i or j:
            ways[i, j] = 0 if (i, j) == (x, y) else ways.get((i - 1, j), 0) + ways.get((i, j - 1), 0)
    return ways[right, up] % 1000


def bounded_sums(terms, most, total):
    return sum(sum(values) == total for values in product(range(most + 1), repeat=terms)) % 1000


def spaced_subsets(size, gap, chosen):
    return sum(all(b - a >= gap for a, b in pairwise(s)) for s in combinations(range(size), chosen)) % 1000


def necklaces(beads, colours):
    seen = {min(ring[k:] + ring[:k] for k in range(beads)) for ring in product(range(colours), repeat=beads)}
    return len(seen) % 1000


def fixed_points(size, fixed):
    return sum(sum(k == value for k, value in enumerate(p)) == fixed for p in permutations(range(size))) % 1000


def divisible_triples(size, divisor):
    return sum(sum(triple) % divisor == 0 for triple in combinations(range(1, size + 1), 3)) % 1000


def root_powers(e1, e2, e3, power):
    roots = np.roots([1, -e1, e2, -e3])
    return round(float((roots**power).sum().real)) % 1000


def telescoping(first, last, gap):
    return m_plus_n(sum((Fraction(1, k * (k + gap)) for k in range(first, last + 1)), Fraction()))


def recurrence(p, q, a0, a1, n):
    before, now = a0, a1
    for _ in range(n - 1):
        before, now = now, (p * now + q * before) % 1000
    return now


def floor_sum(n, a, b):
    return sum(a * k // b for k in range(1, n + 1)) % 1000


def reciprocal_powers(k, n):
    x = (k + (k * k - 4) ** 0.5) / 2
    return round(x**n + x**-n) % 1000


def root_floors(n):
    return sum(int(k**0.5) for k in range(1, n + 1)) % 1000


def inradius(a, b, c):
    # In coordinates: A = (0, 0), B = (c, 0), C = (x, y); the area is c y / 2 and also r (a + b + c) / 2.
    x = Fraction(b * b + c * c - a * a, 2 * c)
    return m_plus_n(c * c * (b * b - x * x) / (a + b + c) ** 2)


def interior_points(x1, y1, x2, y2):
    def side(px, py, qx, qy, x, y):
        return (qx - px) * (y - py) - (qy - py) * (x - px)

    inside = 0
    for x, y in product(range(max(x1, x2) + 1), range(max(y1, y2) + 1)):
        sides = (side(0, 0, x1, y1, x, y), side(x1, y1, x2, y2, x, y), side(x2, y2, 0, 0, x, y))
        inside += all(s > 0 for s in sides) or all(s < 0 for s in sides)
    return inside


def arcs(n):
    return ((b - a, c - b, n - c + a) for a, b, c in combinations(range(n), 3))


def isosceles_in_polygon(n):
    return sum(len(set(parts)) < 3 for parts in arcs(n)) % 1000


def obtuse_in_polygon(n):
    return sum(2 * max(parts) > n for parts in arcs(n)) % 1000


def chord_and_point(radius, x, y):
    # The line through P and the centre (any line gives the same product); through the centre itself, the radius twice.
    to_centre = dist((0, 0), (x, y))
    answer = abs(to_centre - radius) * (to_centre + radius)
    assert isclose(answer, round(answer), abs_tol=1e-6)
    return round(answer)


def dice_sum(dice, faces, total):
    rolls = list(product(range(1, faces + 1), repeat=dice))
    return m_plus_n(Fraction(sum(sum(roll) == total for roll in rolls), len(rolls)))


def same_color(red, blue, drawn):
    bag = [0] * red + [1] * blue
    draws = [len({bag[k] for k in chosen}) == 1 for chosen in combinations(range(len(bag)), drawn)]
    return m_plus_n(Fraction(sum(draws), len(draws)))


def no_two_heads(flips, odds):
    chance = Fraction()
    for sequence in product((0, 1), repeat=flips):
        if all(a + b < 2 for a, b in pairwise(sequence)):
            chance += prod((Fraction(1, odds) if head else Fraction(odds - 1, odds)) for head in sequence)
    return m_plus_n(chance)


def expected_distinct(rolls, faces):
    outcomes = [len(set(roll)) for roll in product(range(faces), repeat=rolls)]
    return m_plus_n(Fraction(sum(outcomes), len(outcomes)))


BRUTE: dict[str, Brute] = {
    function.__name__: function
    for function in (
        power_remainder, divisors_multiple, three_remainders, trailing_zeros, coprime_count, paths_around, bounded_sums,
        spaced_subsets, necklaces, fixed_points, divisible_triples, root_powers, telescoping, recurrence, floor_sum,
        reciprocal_powers, root_floors, inradius, interior_points, isosceles_in_polygon, obtuse_in_polygon, chord_and_point,
        dice_sum, same_color, no_two_heads, expected_distinct,
    )
}  # fmt: skip

COST: dict[str, Callable[..., int]] = {
    "necklaces": lambda beads, colours: colours**beads,
    "fixed_points": lambda size, fixed: factorial(size),
    "dice_sum": lambda dice, faces, total: faces**dice,
    "expected_distinct": lambda rolls, faces: faces**rolls,
    "bounded_sums": lambda terms, most, total: (most + 1) ** terms,
}
"""Steps that the slow way takes, where that can be many."""


def test_every_family_has_its_slow_way_and_there_are_more_than_a_dozen():
    assert set(BRUTE) == set(FAMILIES)
    assert len(FAMILIES) == 26


@pytest.mark.parametrize("difficulty", [1, 2, 3])
@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_answers_are_those_of_brute_force(family, difficulty):
    checked = 0
    for seed in range(60):
        made = problem(Random(f"{family}/{seed}"), difficulty, family)
        assert 0 <= made.answer <= 999
        if COST.get(family, lambda *_: 0)(*made.numbers) > 40_000:
            continue
        assert made.answer == BRUTE[family](*made.numbers), made.text
        checked += 1
        if checked == 12:
            break
    assert checked >= 6


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"coprime_count", "divisors_multiple"}))
def test_the_text_tells_every_number(family):
    made = problem(Random(family), 2, family)
    told = made.text.replace("^3", "")
    for number in made.numbers:
        shown = str(number * number if family == "chord_and_point" and number == made.numbers[0] else abs(number))
        assert shown in told, (number, made.text)


@given(st.integers(0, 2**64), st.integers(1, 3))
def test_a_problem_depends_on_its_stream_alone(seed, difficulty):
    assert problem(Random(seed), difficulty) == problem(Random(seed), difficulty)


def test_difficulty_makes_numbers_larger():
    def mean_power(difficulty):
        return sum(problem(Random(seed), difficulty, "power_remainder").numbers[1] for seed in range(50)) / 50

    assert mean_power(1) * 5 < mean_power(2) < mean_power(3) / 5
