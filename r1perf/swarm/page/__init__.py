"""A page of our own in Locust's web UI: live charts and figures of the run that this process collects."""

from argparse import Namespace
from collections.abc import Callable, Iterable

import msgspec
from locust.env import Environment

from r1perf import clock
from r1perf.arrivals import AnyArrivals
from r1perf.errors import R1perfError
from r1perf.swarm.page.form import View, fitted
from r1perf.swarm.page.guard import Guard
from r1perf.swarm.page.history import History
from r1perf.swarm.page.link import linked, rate, tab
from r1perf.swarm.page.routes import Wrap, blueprint
from r1perf.swarm.page.state import Kept, State, Watched, state
from r1perf.units import Rate

__all__ = ["Page"]

PATH = "/r1perf"

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


class Page:
    """The page of one Locust process, for all its runs. `history` is a sink of each; what else it hears is `begin`, `show`, `refuse`.

    It puts itself into Locust's web UI, and a guard around all of it. `check(options, host)` raises an R1perfError where
    they name no good scenario; `arrivals` are those of the scenario that Locust was started with.
    """

    def __init__(
        self,
        environment: Environment,
        watched: Watched,
        check: Callable[[Namespace, str | None], object],
        origins: Iterable[str] = (),
        arrivals: AnyArrivals | None = None,
    ) -> None:
        web_ui = environment.web_ui
        assert web_ui is not None
        assert web_ui.app is not None
        assert environment.parsed_options is not None
        app = web_ui.app
        self.history = History(clock.wall_ns)
        self._watched = watched
        self.begin()
        kept = Kept(self._state, clock.monotonic_ns)
        base = str(getattr(environment.parsed_options, "web_base_path", None) or "").rstrip("/") + PATH
        wrap: Wrap = web_ui.auth_required_if_enabled
        app.register_blueprint(
            blueprint(base, self.history, kept, self._epoch, self._stages, wrap, {"stop": self._stop, "rate": self._set_rate})
        )
        app.after_request(lambda response: linked(response, base, rate(arrivals)))
        app.wsgi_app = Guard(app.wsgi_app, origins, loopback=web_ui.host in LOOPBACK)  # type: ignore[method-assign]
        start: View = app.view_functions["locust.swarm"]
        app.view_functions["locust.swarm"] = wrap(fitted(start, environment.parsed_options, check))
        web_ui.template_args["extended_tabs"] = [*web_ui.template_args.get("extended_tabs", ()), tab()]

    def begin(self) -> None:
        """Expect another run."""
        self.history.begin()
        self._phase = ""
        self._refusal: str | None = None
        self._word: str | None = None

    def show(self, phase: str) -> None:
        """Take note of the collector's phase."""
        self._phase = phase

    def note(self, sentence: str) -> None:
        """Take what people are told; it is shown at once while a run is prepared, later its sink has it."""
        self._word = sentence

    def refuse(self, sentence: str) -> None:
        """Say why a run could not even be prepared."""
        self._refusal = sentence

    def _state(self, stage: str | None) -> State:
        if self._refusal is not None:
            return State(phase="refused", sentence=self._refusal)
        made = state(self._watched, self.history, self._phase, stage)
        return msgspec.structs.replace(made, sentence=self._word) if made.phase == "preparing" else made

    def _epoch(self) -> object:
        """Return what changes when the page must not show what it showed a moment ago."""
        history, watched = self.history, self._watched
        return (
            watched.running,
            self._phase,
            self._refusal,
            self._word,
            history.run is None,
            history.document is None,
            len(history.notes),
        )

    def _stop(self, value: str) -> str | None:
        """End the run in order; `now` gives what is in flight a bounded time, and none the second time."""
        if not self._watched.running:
            return "no run goes on"
        if value == "now":
            self._watched.interrupt()
        else:
            self._watched.stop("somebody stopped it on the page")
        return None

    def _set_rate(self, value: str) -> str | None:
        """Let arrivals come at another rate from now on."""
        try:
            self._watched.set_rate(Rate.parse(value))
        except (R1perfError, ValueError) as error:
            return str(error)
        return None

    def _stages(self) -> set[str]:
        """Name the stages of the run, those that were added to it too."""
        run, summary = self.history.run, self._watched.summary
        known = [*(run.stages if run is not None else ()), *(summary.stages if summary is not None else ())]
        return {stage.name for stage in known}
