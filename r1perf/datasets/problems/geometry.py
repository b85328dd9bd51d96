"""Geometry."""

from fractions import Fraction
from math import gcd
from random import Random

from r1perf.datasets.problems.draft import Draft, Family, lowest_terms


def inradius(random: Random, difficulty: int) -> Draft:
    """Ask for the square of a triangle's inradius (Heron)."""
    a, b = random.randint(3, 8 + 6 * difficulty), random.randint(3, 8 + 6 * difficulty)
    c = random.randint(abs(a - b) + 1, a + b - 1)
    half = Fraction(a + b + c, 2)
    asked, answer = lowest_terms((half - a) * (half - b) * (half - c) / half)
    return Draft(
        f"Triangle $ABC$ has side lengths $BC = {a}$, $CA = {b}$ and $AB = {c}$, and $r$ is the radius of its inscribed circle. "
        f"Then $r^2$ {asked}",
        answer,
        (a, b, c),
    )


def interior_points(random: Random, difficulty: int) -> Draft:
    """Ask for the lattice points inside a triangle (Pick)."""
    reach = 10 + 10 * difficulty
    x1, y1, x2, y2 = (random.randint(1, reach) for _ in range(4))
    doubled = abs(x1 * y2 - x2 * y1)
    border = gcd(x1, y1) + gcd(x2, y2) + gcd(x1 - x2, y1 - y2)
    # Drawn again where the three points lie on a line: the answer is then out of range.
    return Draft(
        f"How many points with integer coordinates lie strictly inside the triangle with vertices $(0,0)$, $({x1},{y1})$ and "
        f"$({x2},{y2})$?",
        (doubled - border + 2) // 2 if doubled else -1,
        (x1, y1, x2, y2),
    )


def isosceles_in_polygon(random: Random, difficulty: int) -> Draft:
    """Ask for the isosceles triangles on the vertices of a regular polygon."""
    n = random.randint(6, 30 + 15 * difficulty)
    return Draft(
        f"How many isosceles triangles, the equilateral ones among them, have their vertices among the vertices of a regular "
        f"${n}$-gon? Give the remainder when that number is divided by $1000$.",
        (n * ((n - 1) // 2) - (2 * n // 3 if n % 3 == 0 else 0)) % 1000,
        (n,),
    )


def obtuse_in_polygon(random: Random, difficulty: int) -> Draft:
    """Ask for the obtuse triangles on the vertices of a regular polygon."""
    n = random.randint(6, 30 + 15 * difficulty)
    short = (n - 1) // 2  # vertices strictly within the half circle that follows a vertex
    return Draft(
        f"How many obtuse triangles have their vertices among the vertices of a regular ${n}$-gon? Give the remainder when that "
        f"number is divided by $1000$.",
        n * (short * (short - 1) // 2) % 1000,
        (n,),
    )


def chord_and_point(random: Random, difficulty: int) -> Draft:
    """Ask for the product of a secant's parts (power of a point)."""
    radius = random.randint(3, 10 * difficulty)
    x, y = random.randint(0, 10 * difficulty), random.randint(0, 10 * difficulty)
    return Draft(
        f"A line through the point $P = ({x},{y})$ meets the circle $x^2 + y^2 = {radius**2}$ at two points $A$ and $B$. "
        f"Find $PA \\cdot PB$.",
        abs(x * x + y * y - radius * radius),
        (radius, x, y),
    )


FAMILIES: tuple[Family, ...] = (inradius, interior_points, isosceles_in_polygon, obtuse_in_polygon, chord_and_point)
