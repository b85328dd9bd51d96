"""Keep the chance of any false fail at its level when several clauses are judged together.

All clauses pass together when each does at its own level (an intersection-union test), so passes need no correction. Among
many clauses that hold, one fails by chance more often (five at 5 %: 23 %), so fails are confirmed by Holm's (1979) step-down.
"""

from collections.abc import Sequence


def holm(p_values: Sequence[float | None], alpha: float) -> list[bool]:
    """Say which fails stand at level alpha for the whole family; None (no p-value) counts as a member that does not fail."""
    order = sorted((p, i) for i, p in enumerate(p_values) if p is not None)
    stands = [False] * len(p_values)
    for rank, (p, index) in enumerate(order):
        if p > alpha / (len(p_values) - rank):
            break
        stands[index] = True
    return stands
