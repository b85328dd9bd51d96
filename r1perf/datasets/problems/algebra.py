"""Algebra."""

from fractions import Fraction
from math import isqrt
from random import Random

from r1perf.datasets.problems.draft import Draft, Family, lowest_terms


def root_powers(random: Random, difficulty: int) -> Draft:
    """Ask for a power sum of a cubic's roots (Newton's identities)."""
    e1, e2, e3 = random.randint(2, 9), random.randint(2, 9) * random.choice((-1, 1)), random.randint(1, 9)
    power = difficulty + 2
    sums = [3, e1, e1 * e1 - 2 * e2]
    while len(sums) <= power:
        sums.append(e1 * sums[-1] - e2 * sums[-2] + e3 * sums[-3])
    return Draft(
        f"Let $r$, $s$ and $t$ be the complex roots of $x^3 - {e1}x^2 {'+' if e2 > 0 else '-'} {abs(e2)}x - {e3} = 0$. "
        f"Find the remainder when $r^{power} + s^{power} + t^{power}$ is divided by $1000$.",
        sums[power] % 1000,
        (e1, e2, e3, power),
    )


def telescoping(random: Random, difficulty: int) -> Draft:
    """Ask for a telescoping sum of fractions."""
    first, gap = random.randint(1, 3 * difficulty), random.randint(1, difficulty)
    count = random.randint(3, 12)
    ends = [Fraction(1, k) - Fraction(1, k + count) for k in range(first, first + gap)]
    asked, answer = lowest_terms(sum(ends, Fraction()) / gap)
    last = first + count - 1
    return Draft(
        f"The sum $\\sum_{{k={first}}}^{{{last}}} \\frac{{1}}{{k(k+{gap})}}$ {asked}",
        answer,
        (first, last, gap),
    )


def recurrence(random: Random, difficulty: int) -> Draft:
    """Ask for a far term of a linear recurrence, by squaring its matrix."""
    p, q, a0, a1 = random.randint(2, 9), random.randint(2, 9), random.randint(0, 9), random.randint(1, 9)
    n = random.randint(10, 20 * 10**difficulty)
    power, square, left = ((1, 0), (0, 1)), ((p, q), (1, 0)), n
    while left:
        if left & 1:
            power = _times(power, square)
        square = _times(square, square)
        left >>= 1
    return Draft(
        f"A sequence has $a_0 = {a0}$, $a_1 = {a1}$ and $a_n = {p}a_{{n-1}} + {q}a_{{n-2}}$ for $n \\ge 2$. "
        f"Find the remainder when $a_{{{n}}}$ is divided by $1000$.",
        (power[1][0] * a1 + power[1][1] * a0) % 1000,
        (p, q, a0, a1, n),
    )


Matrix = tuple[tuple[int, int], tuple[int, int]]


def _times(x: Matrix, y: Matrix) -> Matrix:
    (a, b), (c, d) = x
    (e, f), (g, h) = y
    return ((a * e + b * g) % 1000, (a * f + b * h) % 1000), ((c * e + d * g) % 1000, (c * f + d * h) % 1000)


def floor_sum(random: Random, difficulty: int) -> Draft:
    """Ask for a sum of floors of multiples of a fraction (a Euclidean recursion)."""
    n, a, b = random.randint(20, 100 * 4**difficulty), random.randint(2, 60), random.randint(3, 60)
    return Draft(
        f"Find the remainder when $\\sum_{{k=1}}^{{{n}}} \\left\\lfloor \\frac{{{a}k}}{{{b}}} \\right\\rfloor$ is divided by $1000$.",
        _floors(n + 1, a, b, 0) % 1000,
        (n, a, b),
    )


def _floors(n: int, a: int, b: int, c: int) -> int:
    """Return the sum of floor((a k + c) / b) for k = 0..n-1."""
    total = n * (n - 1) // 2 * (a // b) + n * (c // b)
    a, c = a % b, c % b
    top = a * n + c
    return total if top < b else total + _floors(top // b, b, a, top % b)


def reciprocal_powers(random: Random, difficulty: int) -> Draft:
    """Ask for x + 1/x raised: from x + 1/x = k to x^n + 1/x^n."""
    k, n = random.randint(3, 9), random.randint(3, 3 + 2 * difficulty)
    before, now = 2, k
    for _ in range(n - 1):
        before, now = now, k * now - before
    return Draft(
        f"A real number $x$ satisfies $x + \\frac{{1}}{{x}} = {k}$. Find the remainder when the integer "
        f"$x^{{{n}}} + \\frac{{1}}{{x^{{{n}}}}}$ is divided by $1000$.",
        now % 1000,
        (k, n),
    )


def root_floors(random: Random, difficulty: int) -> Draft:
    """Ask for a sum of floors of square roots."""
    n = random.randint(10, 60 * difficulty)
    root = isqrt(n)
    whole = sum(k * (2 * k + 1) for k in range(1, root)) + root * (n - root * root + 1)
    return Draft(
        f"Find the remainder when $\\lfloor\\sqrt{{1}}\\rfloor + \\lfloor\\sqrt{{2}}\\rfloor + \\cdots + \\lfloor\\sqrt{{{n}}}\\rfloor$ "
        f"is divided by $1000$.",
        whole % 1000,
        (n,),
    )


FAMILIES: tuple[Family, ...] = (root_powers, telescoping, recurrence, floor_sum, reciprocal_powers, root_floors)
