"""Show our requests in Locust's own tables: one row a workload and target, E2E in ms."""

from collections.abc import Callable

from locust.env import Environment

from r1perf.result import CENSORED, FAILED, Result


class RequestFailed(Exception):
    """Stand for a failed request in Locust's table of failures: its outcome, and the reason where there is one."""


def teller(environment: Environment, target: str) -> Callable[[Result], None]:
    """Return what fires Locust's request event, once a request; those that the run's end cut have no time, and are not told.

    Listeners get the whole `Result` as `result`.
    """
    fire: Callable[..., None] = environment.events.request.fire
    failures: dict[str, RequestFailed] = {}

    def tell(result: Result) -> None:
        if result.outcome in CENSORED:
            return
        failure = None
        if result.outcome in FAILED:
            words = f"{result.outcome}: {result.reason}" if result.reason else str(result.outcome)
            failure = failures.setdefault(words, RequestFailed(words))
        end_ns = result.done_ns if failure is not None or result.last_ns is None else result.last_ns
        fire(
            request_type=result.workload,
            name=target,
            response_time=(end_ns - result.scheduled_ns) / 1e6,
            response_length=0,
            exception=failure,
            context={},
            result=result,
        )

    return tell
