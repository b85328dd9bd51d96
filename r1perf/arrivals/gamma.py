"""Arrivals that are burstier or more regular than Poisson."""

from r1perf.arrivals.gaps import GammaGaps, Gaps
from r1perf.arrivals.open import Steady
from r1perf.target import Positive


class Gamma(Steady, frozen=True, kw_only=True, tag="gamma"):
    """Arrive with independent gamma gaps of mean 1 / rate and coefficient of variation 1 / sqrt(shape); shape 1 is Poisson.

    `shape` is what vLLM calls burstiness and AIPerf smoothness: below 1 is burstier than Poisson.
    """

    shape: Positive

    def gaps_law(self) -> Gaps:
        """Return gamma gaps."""
        return GammaGaps(gamma=self.shape)

    def says(self) -> str:
        """Say the rate and the shape."""
        return f"gamma {self.rate}{self._per()}, shape {self.shape:g}"
