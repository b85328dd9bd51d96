"""Arrivals of many independent users."""

from r1perf.arrivals.gaps import Gaps
from r1perf.arrivals.open import Steady


class Poisson(Steady, frozen=True, kw_only=True, tag="poisson"):
    """Arrive as a Poisson process: independent exponential gaps."""

    def gaps_law(self) -> Gaps:
        """Return exponential gaps."""
        return "poisson"

    def says(self) -> str:
        """Say the rate."""
        return f"poisson {self.rate}{self._per()}"
