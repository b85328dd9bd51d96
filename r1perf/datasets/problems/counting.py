"""Counting."""

from math import comb, factorial, gcd
from random import Random

from r1perf.datasets.problems.draft import Draft, Family


def paths_around(random: Random, difficulty: int) -> Draft:
    """Ask for the lattice paths that avoid a point."""
    right, up = random.randint(4, 4 + 2 * difficulty), random.randint(4, 4 + 2 * difficulty)
    x, y = random.randint(1, right - 1), random.randint(1, up - 1)
    through = comb(x + y, x) * comb(right + up - x - y, right - x)
    return Draft(
        f"An ant walks on lattice points from $(0,0)$ to $({right},{up})$, each step one unit right or one unit up, and never "
        f"visits $({x},{y})$. Let $N$ be the number of such paths. Find the remainder when $N$ is divided by $1000$.",
        (comb(right + up, right) - through) % 1000,
        (right, up, x, y),
    )


def bounded_sums(random: Random, difficulty: int) -> Draft:
    """Ask for the ordered solutions of a sum with bounded terms (inclusion and exclusion)."""
    terms, most = difficulty + 2, random.randint(4, 9)
    total = random.randint(terms, terms * most)
    count = 0
    for over in range(terms + 1):
        left = total - over * (most + 1)
        if left >= 0:
            count += (-1) ** over * comb(terms, over) * comb(left + terms - 1, terms - 1)
    variables = " + ".join(f"x_{{{k}}}" for k in range(1, terms + 1))
    return Draft(
        f"Find the number of ordered {terms}-tuples of integers with ${variables} = {total}$ and $0 \\le x_i \\le {most}$ for "
        f"every $i$. Give the remainder when that number is divided by $1000$.",
        count % 1000,
        (terms, most, total),
    )


def spaced_subsets(random: Random, difficulty: int) -> Draft:
    """Ask for the subsets of a given size whose elements keep a distance."""
    size, gap, chosen = random.randint(10, 15 + 5 * difficulty), random.randint(2, 4), random.randint(2, 2 + difficulty)
    return Draft(
        f"How many ${chosen}$-element subsets of $\\{{1, 2, \\ldots, {size}\\}}$ have no two elements whose difference is less than "
        f"${gap}$? Give the remainder when that number is divided by $1000$.",
        comb(max(0, size - (chosen - 1) * (gap - 1)), chosen) % 1000,
        (size, gap, chosen),
    )


def necklaces(random: Random, difficulty: int) -> Draft:
    """Ask for colourings of a ring up to rotation (Burnside)."""
    beads, colours = random.randint(3 + difficulty, 6 + 4 * difficulty), random.randint(2, 6)
    fixed = sum(colours ** gcd(beads, turn) for turn in range(1, beads + 1))
    return Draft(
        f"Each of the ${beads}$ seats of a round table is painted in one of ${colours}$ colors. Two paintings count as the same "
        f"when turning the table takes one to the other. How many different paintings are there? Give the remainder when that "
        f"number is divided by $1000$.",
        fixed // beads % 1000,
        (beads, colours),
    )


def fixed_points(random: Random, difficulty: int) -> Draft:
    """Ask for the permutations with a given number of fixed points."""
    size = random.randint(4, 6 + 3 * difficulty)
    fixed = random.randint(0, size - 2)
    rest = size - fixed
    derangements = sum((-1) ** k * factorial(rest) // factorial(k) for k in range(rest + 1))
    return Draft(
        f"The ${size}$ guests of a dinner each left a hat, and the hats are handed back at random. In how many of the ${size}!$ ways "
        f"do exactly ${fixed}$ guests get their own hats? Give the remainder when that number is divided by $1000$.",
        comb(size, fixed) * derangements % 1000,
        (size, fixed),
    )


def divisible_triples(random: Random, difficulty: int) -> Draft:
    """Ask for the three-element subsets whose sum has a given divisor."""
    size, divisor = random.randint(9, 20 + 10 * difficulty), random.randint(3, 6 + difficulty)
    classes = [len(range(r or divisor, size + 1, divisor)) for r in range(divisor)]
    count = 0
    for a in range(divisor):
        for b in range(a, divisor):
            c = -(a + b) % divisor
            if c >= b:
                count += _choose(classes, (a, b, c))
    return Draft(
        f"How many three-element subsets of $\\{{1, 2, \\ldots, {size}\\}}$ have a sum that is divisible by ${divisor}$? Give the "
        f"remainder when that number is divided by $1000$.",
        count % 1000,
        (size, divisor),
    )


def _choose(classes: list[int], of: tuple[int, int, int]) -> int:
    """Count the sets with one element from each of three residue classes in order, which may repeat."""
    count = 1
    for residue in set(of):
        count *= comb(classes[residue], of.count(residue))
    return count


FAMILIES: tuple[Family, ...] = (paths_around, bounded_sums, spaced_subsets, necklaces, fixed_points, divisible_triples)
