"""Take part in plain Locust: what happens at its events."""

import logging
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import gevent
import locust
from gevent.event import Event
from locust import stats
from locust.env import Environment
from locust.runners import STATE_RUNNING, STATE_SPAWNING, LocalRunner, MasterRunner, WorkerRunner

from r1perf.arrivals import Closed
from r1perf.errors import R1perfError, UsageError
from r1perf.report import print_report
from r1perf.report.paper import paper
from r1perf.scenario import Scenario
from r1perf.summary import Summary
from r1perf.swarm import options
from r1perf.swarm.interrupts import Interrupts
from r1perf.swarm.master import Master
from r1perf.swarm.member import Member
from r1perf.swarm.page import Page
from r1perf.swarm.user import OpenLoop, R1User
from r1perf.units import Rate

SPAWN_RATE = 100.0
"""Locust warns of a higher one."""

STOP_TIMEOUT_S = 30.0
"""We drain before Locust stops anything, and a worker whose stop timeout is over a minute takes its master for dead meanwhile."""

logger = logging.getLogger("r1perf")

_MASTERS: "WeakKeyDictionary[Environment, Master]" = WeakKeyDictionary()


def master_of(environment: Environment) -> Master | None:
    """Return what collects in a Locust process; None in a worker, and before Locust's `init`."""
    return _MASTERS.get(environment)


def swarm(scenario: str = "smoke") -> None:
    """Let this locustfile run scenarios: `scenario` is the one that runs where nobody chooses another."""

    def add_options(parser: Any, **_: Any) -> None:
        options.add(parser, scenario)
        options.check(parser)

    locust.events.init_command_line_parser.add_listener(add_options)
    locust.events.init.add_listener(_init)


class Log:
    """What people see of a run while it goes on: lines in Locust's log, and the page."""

    def __init__(self, page: Page | None) -> None:
        self._page = page

    def note(self, sentence: str) -> None:
        """Log a sentence, and show it."""
        logger.warning(sentence)
        if self._page is not None:
            self._page.note(sentence)

    def show(self, summary: Summary, phase: str) -> None:
        """Let the page know what the run does: its figures it has as a sink."""
        if self._page is not None:
            self._page.show(phase)


def _init(environment: Environment, **_: Any) -> None:
    runner = environment.runner
    parsed: Any = environment.parsed_options
    if isinstance(runner, WorkerRunner | LocalRunner):
        member = Member(environment, Path(parsed.r1_runs))
        environment.events.quitting.add_listener(lambda **_: member.finish())
        if isinstance(runner, WorkerRunner):
            Interrupts(lambda: member.part is not None, member.interrupt, ends=True)
    if not isinstance(runner, WorkerRunner):
        _Lead(environment)


class _Lead:
    """A master's, or a single process's, answers to Locust's events."""

    def __init__(self, environment: Environment) -> None:
        assert environment.parsed_options is not None
        self._environment, self._options = environment, environment.parsed_options
        self._master = _MASTERS[environment] = Master(environment)
        self._run: gevent.Greenlet[..., None] | None = None
        self._spawning: Any = None  # the greenlet in which Locust started the test, until its users are there
        self._stopping = self._quitting = False
        self._rate = ""  # that was asked for last
        scenario, _ = options.scenario_of(self._options, environment.host)
        if isinstance(scenario.arrivals, Closed):
            self._fill_in(scenario.arrivals)
        elif environment.web_ui is not None and not self._options.autostart and self._alone():
            environment.shape_class = OpenLoop(self._look)
        environment.stop_timeout = min(environment.stop_timeout, STOP_TIMEOUT_S)
        environment.events.test_start.add_listener(self._on_start)
        environment.events.test_stopping.add_listener(self._on_stopping)
        environment.events.quitting.add_listener(self._on_quitting)
        environment.events.quit.add_listener(self._on_quit)
        environment.events.spawning_complete.add_listener(self._on_spawned)
        Interrupts(lambda: self._master.running, self._interrupt, ends=environment.web_ui is not None)
        self._page = (
            None
            if environment.web_ui is None
            else Page(environment, self._master, self._check, self._options.r1_web_origin, scenario.arrivals)
        )

    def _fill_in(self, closed: Closed) -> None:
        """Let Locust's users and spawn rate be the scenario's where nobody has given others."""
        if self._options.num_users is None:
            self._options.num_users = closed.sessions
        if self._options.spawn_rate is None:
            self._options.spawn_rate = min(1e9 / closed.ramp_up, SPAWN_RATE) if closed.ramp_up else SPAWN_RATE

    def _alone(self) -> bool:
        """Tell whether Locust's users are ours alone, and nobody has a shape for them."""
        return self._environment.shape_class is None and set(self._environment.user_classes) <= {R1User}

    def _check(self, wanted: Namespace, host: str | None) -> None:
        """Raise an R1perfError for a start that would come to nothing.

        Without a worker Locust only warns, in its log, and starts its shape all the same, which then goes on until its process ends.
        """
        options.scenario_of(wanted, host)
        # Locust changes no users of a shape, and answers that all is well.
        shaped = isinstance(self._environment.shape_class, OpenLoop)
        if shaped and self._master.running and wanted.r1_rate == self._options.r1_rate:
            raise UsageError("a run goes on: stop it before you start another; its rate can be changed here and on /r1perf")
        self._master.client_ids()
        runner = self._environment.runner
        assert runner is not None
        if not self._master.running and runner.state in (STATE_SPAWNING, STATE_RUNNING):
            runner.stop()  # what goes on without a run would take the start for a change of its users

    def _scenario(self) -> tuple[Scenario, Path, bool]:
        """Return the scenario as it is asked for now, its folder, and whether Locust's users are its sessions."""
        scenario, base = options.scenario_of(self._options, self._environment.host)
        users = isinstance(scenario.arrivals, Closed) and not isinstance(self._environment.shape_class, OpenLoop)
        if users and self._environment.shape_class is None:
            scenario, base = options.scenario_of(self._options, self._environment.host, self._options.num_users)
        return scenario, base, users

    def _on_start(self, **_: Any) -> None:
        """Begin a run; Locust spawns its users when t0 has been announced, and none where that never comes."""
        begun = Event()
        self._spawning = gevent.getcurrent()
        self._stopping = False
        self._rate = self._options.r1_rate
        self._run = gevent.spawn(self._carry, begun.set)
        try:
            begun.wait()
        finally:
            if not begun.is_set():  # the web UI's Stop has killed what starts the test
                self._master.stop("Locust was asked to stop the test")
        if self._master.summary is None:
            runner = self._environment.runner
            assert runner is not None
            runner.shape_greenlet = None  # Locust takes one that has ended for one that goes on
            raise gevent.GreenletExit

    def _on_spawned(self, **_: Any) -> None:
        self._spawning = None
        self._look()

    def _look(self) -> None:
        """Take another rate over that the form, or whoever posts to it, asks for while a run goes on."""
        rate = self._options.r1_rate
        if rate != self._rate and self._master.running and self._master.summary is not None:
            self._rate = rate
            try:
                if rate:
                    self._master.set_rate(Rate.parse(rate))
            except (R1perfError, ValueError) as error:
                logger.error(str(error))

    def _interrupt(self, again: bool) -> None:
        self._master.interrupt()
        if not again:
            self._wait()

    def _carry(self, begun: Callable[[], None]) -> None:
        self._environment.process_exit_code = 3  # until there is a verdict
        page = self._page
        if page is not None:
            page.begin()
        try:
            scenario, base, users = self._scenario()
            ran = self._master.carry(
                scenario, base=base, runs=Path(self._options.r1_runs), view=Log(page),
                watching=() if page is None else (page.history,), users=users, begun=begun,
            )  # fmt: skip
            self._environment.process_exit_code = ran.verdict.code
            if ran.verdict.sentence is not None:
                logger.log(logging.INFO if ran.verdict.sentence == self._master.asked else logging.ERROR, ran.verdict.sentence)
        except R1perfError as error:
            self._environment.process_exit_code = 2
            logger.error(str(error))
            if page is not None:
                page.refuse(str(error))
        finally:
            begun()
            # Where Locust stops the test it does not always end a headless process (its last worker went missing, for one).
            if not self._stopping or (self._environment.web_ui is None and not self._quitting):
                gevent.spawn(self._end)

    def _end(self) -> None:
        """End Locust's test: the run is over."""
        runner = self._environment.runner
        assert runner is not None
        if self._environment.web_ui is None:
            runner.quit()
        else:
            runner.stop()

    def _on_stopping(self, **_: Any) -> None:
        """Drain before Locust stops anything; it may fire more than once."""
        self._stopping = True
        self._end_spawning()
        runner = self._environment.runner
        if isinstance(runner, MasterRunner) and not runner.worker_count:
            self._master.stop("the last worker went missing", asked=False)
        else:
            self._master.stop("Locust was asked to stop the test")
        self._wait()

    def _end_spawning(self) -> None:
        """Let no users start or end any more.

        Only its form's Stop does it in a master: whatever else stops a test, a run's own end too, leaves Locust dealing users
        out, and then it calls the test running again, and takes every later start for a change of its users.
        """
        runner, web_ui = self._environment.runner, self._environment.web_ui
        assert runner is not None
        for spawning in (self._spawning, None if web_ui is None else web_ui._swarm_greenlet):
            if spawning is not None and spawning not in (gevent.getcurrent(), runner.shape_greenlet):  # which Locust ends
                spawning.kill()
        self._spawning = None

    def _on_quitting(self, **_: Any) -> None:
        self._stopping = self._quitting = True
        self._master.interrupt()
        self._wait()
        if self._options.csv_prefix and self._run is not None and isinstance(self._environment.runner, LocalRunner):
            gevent.sleep(stats.CSV_STATS_INTERVAL_SEC)  # Locust writes its files so often, and not once more at the end

    def _wait(self) -> None:
        if self._run is not None and gevent.getcurrent() is not self._run:
            self._run.join()

    def _on_quit(self, **_: Any) -> None:
        """Print our tables last, below Locust's own."""
        ran = self._master.ran
        if ran is not None and ran.verdict.document is not None:
            print_report(ran.verdict.document, paper())
            sys.stdout.write(f"{ran.folder}\n")
