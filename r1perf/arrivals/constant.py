"""Arrivals at equal gaps."""

from r1perf.arrivals.gaps import Gaps
from r1perf.arrivals.open import Steady


class Constant(Steady, frozen=True, kw_only=True, tag="constant"):
    """Arrive every 1 / rate, beginning at once."""

    def gaps_law(self) -> Gaps:
        """Return equal gaps."""
        return "constant"

    def says(self) -> str:
        """Say the rate."""
        return f"constant {self.rate}{self._per()}"
