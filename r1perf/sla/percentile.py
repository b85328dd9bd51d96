"""Say which value stands where a clause looks: beside the verdict, which counts misses, this is what people ask for."""

from fractions import Fraction

from r1perf.histogram import Counts, rank
from r1perf.sla.clauses import Clause, Max, Quantile


def observed(clause: Clause, counts: Counts, attempts: int) -> float | None:
    """Return the percentile (or largest value) of a metric over all attempts, in the histogram's unit; interactivity in tokens/s.

    Attempts without a value stand where they miss: above all values, or below them where more is better. None where one of them is it.
    """
    match clause.aggregate:
        case Quantile() as quantile:
            turned = quantile.metric == "interactivity"  # 1 / tpot: its order is the other way round
            low = clause.upward != turned
            at = rank(Fraction(quantile.percent) if not low else 100 - Fraction(quantile.percent), attempts) if attempts else 0
            place = at - (attempts - counts.count) if low else at
            if not 1 <= place <= counts.count:
                return None
            value = counts.percentile(Fraction(100 * place, counts.count))
        case Max() as largest:
            turned = largest.metric == "interactivity"
            value = (counts.least if turned else counts.most) if attempts == counts.count else None
        case _:
            return None
    if value is None or not turned:
        return value
    return 1e6 / value if value else None
