"""Say how many answers were right, how far luck may have moved the share, and what the answers that were cut could change."""

import math
from statistics import NormalDist

import msgspec

from r1perf.grading import Grades
from r1perf.summary.censoring import cut_requests
from r1perf.summary.merged import Summary

CONFIDENCE = 0.95

GRADES = ("right", "wrong", "unanswered", "truncated")


class Accuracy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Shares of the graded answers of the judged window.

    `value` is right / all four grades, `low` to `high` its Wilson interval at 95 %; `answered` is right / (right + wrong) with its own.
    Where the run's end cut `cut` answers, the share of all is at least `least` (none of them right) and at most `most` (all right).
    """

    value: float
    low: float
    high: float
    answered: float | None = None
    answered_low: float | None = None
    answered_high: float | None = None
    cut: int = 0
    least: float | None = None
    most: float | None = None


def grades(summary: Summary, workload: str) -> dict[str, int]:
    """Return how many answers of a workload got each grade in the judged window; {} where nothing was graded."""
    counts = {grade: summary.counter(f"grade.{grade}", workload) for grade in GRADES}
    return {grade: n for grade, n in counts.items() if n}


def accuracy(summary: Summary, workload: str) -> Accuracy | None:
    """Return a workload's accuracy; None where nothing was graded."""
    found = Grades(**grades(summary, workload))
    total, answered = found.right + found.wrong + found.unanswered + found.truncated, found.right + found.wrong
    if not total:
        return None
    low, high = wilson(found.right, total)
    of_answered = wilson(found.right, answered) if answered else (None, None)
    cut = cut_requests(summary, workload)
    return Accuracy(
        value=found.right / total,
        low=low,
        high=high,
        answered=found.accuracy_answered,
        answered_low=of_answered[0],
        answered_high=of_answered[1],
        cut=cut,
        least=found.right / (total + cut) if cut else None,
        most=(found.right + cut) / (total + cut) if cut else None,
    )


def wilson(right: int, total: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the two-sided score interval of a share (Wilson 1927).

    (p + z^2/2n -+ z sqrt(p (1 - p) / n + z^2/4n^2)) / (1 + z^2/n). Inside [0, 1], and honest at shares of 0 and 1.
    """
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    p, shift = right / total, z * z / total
    middle, half = p + shift / 2, z * math.sqrt(p * (1 - p) / total + shift / (4 * total))
    low, high = (middle - half) / (1 + shift), (middle + half) / (1 + shift)
    return (low if right else 0.0), (high if right < total else 1.0)  # which they are, but for a float's rounding
