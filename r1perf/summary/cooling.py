"""Tell when a cooldown has done its work: the last judged answers have ended, under load."""

from r1perf.schedule.model import COOLDOWN
from r1perf.summary.merged import Summary


def cooled(summary: Summary, whole: int) -> bool:
    """Tell whether no judged request is in flight any more, where all workers have reported up to interval `whole`.

    That interval must lie in the cooldown, and nothing in it may have been sent so late that judged requests could be still to come.
    """
    begins_ns = next((stage.start_ns for stage in summary.run.stages if stage.name == COOLDOWN), None)
    interval_ns = summary.run.interval_ns
    if begins_ns is None or whole * interval_ns < begins_ns:
        return False
    interval = summary.intervals.get(whole)
    if interval is None or any(health.delay_max_ns >= interval_ns for health in interval.health.values()):
        return False
    return summary.counter("scheduled") == sum(summary.outcomes(stage=None).values())
