"""Number theory."""

from math import gcd, prod
from random import Random

from r1perf.datasets.problems.draft import Draft, Family


def power_remainder(random: Random, difficulty: int) -> Draft:
    """Ask for a high power modulo a number under 1000."""
    base, power = random.randint(3, 99), random.randint(10 ** (difficulty + 1), 2 * 10 ** (difficulty + 2))
    modulus = random.randint(97, 999)
    return Draft(
        f"Find the remainder when ${base}^{{{power}}}$ is divided by ${modulus}$.",
        pow(base, power, modulus),
        (base, power, modulus),
    )


def divisors_multiple(random: Random, difficulty: int) -> Draft:
    """Ask how many divisors of a product of prime powers are multiples of another."""
    primes = (2, 3, 5, 7)[: difficulty + 1]
    powers = [random.randint(2, 6) for _ in primes]
    least = [random.randint(0, power) for power in powers]
    number = " \\cdot ".join(f"{prime}^{{{power}}}" for prime, power in zip(primes, powers, strict=True))
    multiple = prod(prime**power for prime, power in zip(primes, least, strict=True))
    return Draft(
        f"How many positive divisors of $N = {number}$ are multiples of ${multiple}$?",
        prod(power - low + 1 for power, low in zip(powers, least, strict=True)),
        (*powers, *least),
    )


def three_remainders(random: Random, difficulty: int) -> Draft:
    """Ask for the least number with given remainders (Chinese remainder theorem)."""
    pool = {1: (3, 4, 5, 7), 2: (5, 7, 8, 9, 11), 3: (7, 8, 9, 11, 13)}[difficulty]
    moduli = random.sample(pool, 3)
    while any(gcd(a, b) > 1 for a in moduli for b in moduli if a != b):
        moduli = random.sample(pool, 3)
    whole = prod(moduli)
    hidden = random.randrange(whole)
    remainders = [hidden % modulus for modulus in moduli]
    told = ", ".join(f"${r}$ when divided by ${m}$" for r, m in zip(remainders, moduli, strict=True))
    return Draft(f"Find the least nonnegative integer that leaves the remainders {told}.", hidden, (*moduli, *remainders))


def trailing_zeros(random: Random, difficulty: int) -> Draft:
    """Ask for the zeros at the end of a quotient of factorials."""
    upper = random.randint(50, 250 * 4 ** (difficulty - 1))
    lower = random.randint(5, upper // 2)
    return Draft(
        f"How many zeros stand at the end of the decimal form of $\\frac{{{upper}!}}{{{lower}!}}$?",
        min(_power_in_factorial(upper, p) - _power_in_factorial(lower, p) for p in (2, 5)),
        (upper, lower),
    )


def _power_in_factorial(number: int, prime: int) -> int:
    """Return the exponent of a prime in number! (Legendre)."""
    exponent = 0
    while number:
        number //= prime
        exponent += number
    return exponent


def coprime_count(random: Random, difficulty: int) -> Draft:
    """Ask how many numbers up to a bound share no factor with a product of primes (inclusion and exclusion)."""
    primes = random.sample((2, 3, 5, 7, 11, 13), difficulty + 1)
    bound = random.randint(100, 1000 * difficulty)
    count = 0
    for chosen in range(1 << len(primes)):
        factors = [prime for bit, prime in enumerate(primes) if chosen >> bit & 1]
        count += (-1) ** len(factors) * (bound // prod(factors))
    return Draft(
        f"How many positive integers not exceeding ${bound}$ are relatively prime to ${prod(primes)}$?",
        count,
        (bound, prod(primes)),
    )


FAMILIES: tuple[Family, ...] = (power_remainder, divisors_multiple, three_remainders, trailing_zeros, coprime_count)
