"""The page over runs that were played on virtual time, without a swarm: any state that it may be in, at once.

Locust's own web UI is there, served from a thread of this process.
"""

import threading
from argparse import Namespace
from collections.abc import Iterable
from functools import partial
from types import SimpleNamespace
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import unpatched  # noqa: F401
from locust import argument_parser
from locust.env import Environment
from locust.web import WebUI
from virtual_run import S, a_run, play, traffic

from r1perf.collector import Verdict
from r1perf.errors import UsageError
from r1perf.launch.run import Ran
from r1perf.snapshot import Snapshot
from r1perf.summary import Document, Interval, Run, Summary, document
from r1perf.swarm.page import Page
from r1perf.units import Rate

# Locust's web UI reads the command line of its process, which is here that of the tests.
argument_parser.ui_extra_args_dict = partial(argument_parser.ui_extra_args_dict, [])


class Played:
    """What the page looks at: a run as far as it has been told."""

    def __init__(self) -> None:
        self.running = False
        self.summary: Summary | None = None
        self.folder = None
        self.scenario: Any = None
        self.ran: Ran | None = None
        self.asked: list[str] = []

    def stop(self, reason: str) -> None:
        self.asked.append(reason)

    def set_rate(self, rate: Rate) -> None:
        if not self.running:
            raise UsageError("no run goes on whose rate could be changed")
        self.asked.append(f"rate {rate}")

    def interrupt(self) -> None:
        self.asked.append("interrupt")


class Stand:
    """Locust's web UI with the page, and a run that tests move on."""

    def __init__(
        self, *, origins: Iterable[str] = (), login: bool = False, host: str = "127.0.0.1", base: str = "", arrivals: Any = None
    ) -> None:
        self.environment = Environment(user_classes=[])
        self.environment.create_local_runner()
        self.environment.parsed_options = Namespace(
            web_base_path=base, num_users=1, spawn_rate=1, stats_history_enabled=False, run_time=None, host=None,
            r1_scenario="smoke", r1_model="", r1_rate="", r1_duration="", r1_set=[], r1_runs="runs", r1_web_origin=[],
        )  # fmt: skip
        self.web_ui = WebUI(self.environment, host, 0, web_login=login, delayed_start=True, web_base_path=base or None)
        self.web_ui.app.secret_key = "for this test alone"
        self.played = Played()
        self.checked: list[tuple[Namespace, str | None]] = []
        self.page = Page(self.environment, self.played, self.check, origins, arrivals)

    def check(self, options: Namespace, host: str | None) -> None:
        """Take any scenario but one."""
        self.checked.append((options, host))
        if options.r1_scenario == "wrong":
            raise UsageError("there is no scenario wrong")

    @property
    def app(self) -> Any:
        return self.web_ui.app

    def prepare(self, scenario: Any = None) -> None:
        """Begin to prepare a run."""
        self.page.begin()
        self.played.running, self.played.ran, self.played.summary = True, None, None
        self.played.scenario = scenario or SimpleNamespace(arrivals=None, sla=SimpleNamespace(clauses=()))

    def begin(self, run: Run, scenario: Any = None) -> None:
        """Begin a run."""
        self.prepare(scenario)
        self.played.summary = Summary(run)
        self.page.history.open(run)

    def add(self, *snapshots: Snapshot) -> None:
        """Merge the snapshots of one interval, and give it to the page as the collector does."""
        assert self.played.summary is not None
        for snapshot in snapshots:
            self.played.summary.merge(snapshot)
        self.page.history.write(Interval.of(*snapshots))
        self.page.show("running")

    def document(self, status: str, reason: str | None = None, **more: Any) -> Document:
        """Return what run.json would hold now."""
        assert self.played.summary is not None
        return document(self.played.summary, status, reason, **more)

    def end(self, status: str = "finished", reason: str | None = None, **more: Any) -> Document:
        """End the run."""
        built = self.document(status, reason, **more)
        self.page.history.close(built)
        self.played.running = False
        self.played.ran = Ran(Verdict(0, reason, built), None)
        return built

    def stop(self) -> None:
        self.environment.runner.quit()


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class Served:
    """A stand on a port of this machine."""

    def __init__(self, stand: Stand) -> None:
        self._server: WSGIServer = make_server("127.0.0.1", 0, stand.app, handler_class=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def mixed(seconds: int = 40) -> tuple[Run, list[Snapshot]]:
    """Return a run of two workloads with every kind of ending, second by second."""
    return a_run(), play([answer for answer in traffic() if answer.at_ns < seconds * S], seconds=seconds + 5)
