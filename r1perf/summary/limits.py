"""Hold a run against the limits of `[stop]` on its failures; those on tokens and money each worker holds before it sends."""

from r1perf.result import FAILED
from r1perf.scenario import Stop
from r1perf.summary.merged import Summary
from r1perf.summary.recent import recent

RATE_LEAST = 20
"""An error rate is not taken from fewer ended requests."""


def exceeded(stop: Stop, summary: Summary) -> str | None:
    """Say which limit the run has passed, or None."""
    failed = sum(n for outcome, n in summary.outcomes().items() if outcome in FAILED)
    if stop.errors is not None and failed >= stop.errors:
        return f"{failed} requests have failed, and `stop.errors` is {stop.errors}"
    if stop.error_rate is not None:
        now = recent(summary, stop.error_rate.window / 1e9)
        rate = now.ended_failed / now.ended if now.ended else 0.0
        if rate > stop.error_rate.above and now.ended >= RATE_LEAST:
            return (
                f"{rate:.1%} of the {now.ended} requests that ended in the last {stop.error_rate.window} failed, "
                f"and `stop.error_rate.above` is {stop.error_rate.above:.1%}"
            )
    return None
