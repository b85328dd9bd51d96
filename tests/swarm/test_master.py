"""What a master refuses and says, without any process: Locust's own runner of one process is all it has."""

import argparse
import contextlib
import os
from types import SimpleNamespace

import gevent
import msgspec
import pytest
import unpatched  # noqa: F401
from gevent.event import Event
from locust import stats
from locust.env import Environment
from locust.event import Events
from locust.rpc import zmqrpc
from locust.runners import (
    STATE_INIT,
    STATE_MISSING,
    STATE_RUNNING,
    STATE_SPAWNING,
    STATE_STOPPING,
    MasterRunner,
    WorkerNode,
    WorkerNodes,
)
from virtual_run import S, a_run

from r1perf import __version__, messages
from r1perf.arrivals import Closed
from r1perf.collector import Verdict
from r1perf.errors import R1perfError, UsageError
from r1perf.launch.run import Ran
from r1perf.scenario import load
from r1perf.schedule import Stage
from r1perf.summary import Summary
from r1perf.swarm import wire
from r1perf.swarm.events import _Lead
from r1perf.swarm.master import Master
from r1perf.swarm.part import Part
from r1perf.swarm.place import place
from r1perf.swarm.sessions import Held, Sessions
from r1perf.swarm.user import OpenLoop, R1User
from r1perf.units import Rate


class Running:
    """A run that goes on, as the master sees it."""

    def __init__(self):
        self.summary, self.rates = Summary(a_run()), []
        self.set_rate = self.rates.append


@pytest.fixture
def master():
    environment = Environment(events=Events(), user_classes=[R1User])
    environment.create_local_runner()
    return Master(environment)


@pytest.fixture
def running(master):
    master._relay, master._view, master.scenario = Running(), object(), load("smoke")
    return master


# --- Rates ---


@pytest.mark.parametrize("rate", [Rate(0), Rate(-1), Rate(1e-7), Rate(1e9), Rate("inf"), Rate("nan")], ids=str)
def test_a_rate_at_which_nothing_would_come_never_reaches_a_worker(running, rate):
    with pytest.raises(UsageError, match=r"^the rate must be greater than 0"):
        running.set_rate(rate)
    assert running._relay.rates == []


@pytest.mark.parametrize("rate", [Rate.LEAST, 2.0, Rate.MOST])
def test_another_rate_is_taken_over(running, rate):
    running.set_rate(Rate(rate))
    assert running._relay.rates == [rate]
    running._view = None
    with pytest.raises(UsageError, match="no run goes on"):
        running.set_rate(Rate(rate))


# --- Workers ---


class Portal(R1User):
    """A user of the master's locustfile."""


@pytest.mark.parametrize(
    ("users", "says"),
    [
        (("Portal", "R1User", "Other"), None),
        (("R1User",), "the worker on h does not know the master's user Portal"),
        ((), "the worker on h does not know the master's user Portal"),
    ],
)
def test_a_worker_without_the_masters_users_is_refused(master, users, says):
    master._environment.user_classes = [R1User, Portal]
    master._roster.take("local", wire.Hello("h", os.getpid(), place(), __version__, users))
    master._roster._measure = lambda client_ids: None
    if says is None:
        assert [mate.client_id for mate in master._crew()] == ["local"]
    else:
        with pytest.raises(R1perfError, match=says):
            master._crew()


class Alone(MasterRunner):
    """A master without a worker."""

    greenlet, shape_greenlet, state = None, None, STATE_INIT

    def __init__(self):
        """Listen nowhere."""
        self.clients = WorkerNodes()


def test_a_start_without_a_worker_is_refused_in_the_form(master):
    lead = Lead(Alone())
    lead._master, asked = master, argparse.Namespace(r1_scenario="smoke", r1_model="", r1_rate="", r1_duration="", r1_set=[])
    lead._check(asked, None)  # in a single process the worker is always there
    master._runner = lead._environment.runner
    with pytest.raises(R1perfError, match=r"^no worker is there; start one with `r1perf worker` or `locust --worker`$"):
        lead._check(asked, None)
    for state, there in ((STATE_MISSING, False), (STATE_INIT, True)):
        master._runner.clients["h_1"] = WorkerNode("h_1", state)
        with contextlib.nullcontext() if there else pytest.raises(R1perfError, match=r"^no worker is there"):
            lead._check(asked, None)
    asked.r1_scenario = "nowhere"
    with pytest.raises(R1perfError, match="nowhere"):
        lead._check(asked, None)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_worker_that_joins_is_told_whether_it_waits(running, goes_on):
    told = []
    running._view = SimpleNamespace(note=told.append) if goes_on else None
    running._tell = lambda client_id, run, message: told.append((client_id, message.waits))
    hello = wire.encode(wire.Hello("h", 1, "elsewhere", __version__, ("R1User",)))
    for _ in range(2):  # it repeats itself until it is welcome
        running._receive(running._environment, SimpleNamespace(data=wire.encode(wire.Frame("", 0, 0, hello)), node_id="h_1"))
    note = ["a worker on h has joined: it waits for the next run, this one has begun"] if goes_on else []
    assert told == [("h_1", goes_on), *note, ("h_1", False)]


@pytest.mark.parametrize("over", [False, True])
def test_a_worker_that_cannot_take_part_says_so_itself_unless_the_run_is_over(over):
    said, loop = [], SimpleNamespace(now_ns=lambda: 0, event=lambda: SimpleNamespace(set=lambda: None))
    part = Part("r", loop, lambda frame: None, lambda path: True, None, lambda assign: None, refused=said.append)
    if over:
        part.end()
    part.send(messages.Refused("there is no key"))
    assert said == ([] if over else ["there is no key"])


# --- Sessions ---

WARMUP = Stage(index=0, name="warmup", start_ns=0, end_ns=2 * S, judged=False, says="closed, 4 sessions")
JUDGED = Stage(index=1, name="closed", start_ns=2 * S, end_ns=8 * S, judged=True, says="closed, 4 sessions")
DRAIN = Stage(index=2, name="drain", start_ns=8 * S, end_ns=None, judged=False, says="what is in flight")


def listened(changes, stages=(WARMUP, JUDGED, DRAIN), closed=Closed(sessions=4), ended=()):
    """Return what people are told and what the stages say, for changes as (seconds, now, asked for at 1/s) at 1/s."""
    sessions, stages, told = Sessions(closed), list(stages), []
    for at_s, count, wanted in changes:
        sentence, says = sessions.take(Held(count, wanted, 1.0), int(at_s * S), stages, dict(ended))
        told.append(sentence)
        stages = [msgspec.structs.replace(stage, says=says.get(stage.index, stage.says)) for stage in stages]
    return [sentence for sentence in told if sentence], [stage.says.removeprefix("closed, ") for stage in stages[:-1]]


@pytest.mark.parametrize(
    ("changes", "told", "says"),
    [
        ([], [], ["4 sessions", "4 sessions"]),
        ([(0.1, 4, 4)], [], ["4 sessions", "4 sessions"]),
        ([(-0.1, 1, 4), (0.9, 2, 4)], ["Locust starts the 4 sessions at 1/s"],
         ["sessions by Locust's users (1 to 2, 4 asked for at 1/s)", "sessions by Locust's users (2, 4 asked for at 1/s)"]),
        ([(-0.1, 1, 4), (0.9, 2, 4), (1.9, 3, 4), (2.9, 4, 4)], ["Locust starts the 4 sessions at 1/s"],
         ["sessions by Locust's users (1 to 3, 4 asked for at 1/s)", "4 sessions, started at 1/s"]),
        ([(0.0, 4, 4), (2.5, 10, 10), (2.5, 10, 10), (4, 0, 0)], ["sessions 4 -> 10 at 2.5 s", "sessions 10 -> 0 at 4.0 s"],
         ["4 sessions", "sessions by Locust's users (0 to 10)"]),
        ([(0.0, 4, 4), (5, 3, 1), (6, 2, 1), (8, 1, 1)], ["sessions 4 -> 1 at 1/s, from 5.0 s on"],
         ["4 sessions", "sessions by Locust's users (2 to 4, 1 asked for at 1/s)"]),
        ([(0.0, 1, 4), (3, 2, 4), (3.5, 1, 1)], ["Locust starts the 4 sessions at 1/s", "sessions 2 -> 1 at 3.5 s"],
         ["sessions by Locust's users (1, 4 asked for at 1/s)", "sessions by Locust's users (1 to 2)"]),
        ([(0.0, 4, 4), (9, 10, 10)], [], ["4 sessions", "4 sessions"]),
        ([(0.0, 3, 3)], ["3 sessions, not 4: so many of Locust's users are R1User"], ["3 sessions", "3 sessions"]),
        ([(0.0, 1, None), (1, 2, None)], [], ["sessions by Locust's users (1 to 2)", "sessions by Locust's users (2)"]),
        ([(0.0, 1, None), (1, 2, None), (3, 3, 3)], ["3 sessions, not 4: so many of Locust's users are R1User"],
         ["sessions by Locust's users (1 to 2)", "3 sessions, started at 1/s"]),
        ([(0.0, 3, 3), (3, 4, 4)], ["3 sessions, not 4: so many of Locust's users are R1User", "sessions 3 -> 4 at 3.0 s"],
         ["3 sessions", "sessions by Locust's users (3 to 4)"]),
    ],
)  # fmt: skip
def test_a_closed_loop_says_how_many_sessions_there_were(changes, told, says):
    assert listened(changes) == (told, says)


def test_a_stage_without_a_planned_end_says_nothing_new_after_it():
    stages = [msgspec.structs.replace(JUDGED, start_ns=0, end_ns=None), DRAIN]
    assert listened([(0, 4, 4), (5, 6, 6)], stages) == (["sessions 4 -> 6 at 5.0 s"], ["sessions by Locust's users (4 to 6)"])
    assert listened([(0, 4, 4), (5, 6, 6)], stages, ended={1: 4 * S}) == ([], ["4 sessions"])


def test_think_time_stays_in_what_is_said():
    closed = load("closed-32", ["arrivals.think_time=2s"]).arrivals
    stages = [msgspec.structs.replace(JUDGED, says=closed.says()), DRAIN]
    assert listened([(0, 5, 5)], stages, closed)[1] == ["5 sessions, think time 2s"]


# --- Locust's events ---


class Lead(_Lead):
    """The answers to Locust's events, around a master that notes what it is told."""

    def __init__(self, runner):
        self.told = []
        self._environment = SimpleNamespace(runner=runner, web_ui=None, shape_class=None, user_classes=[R1User, Portal, object])
        self._options = SimpleNamespace(r1_rate="7/s")
        self._master = SimpleNamespace(
            running=False, summary=None, asked=None, stop=lambda reason, asked=True: self.told.append((reason, asked)),
            set_rate=lambda rate: self.told.append(str(rate)),
        )  # fmt: skip
        self._run, self._spawning, self._rate, self._page = None, None, "", None
        self._stopping = self._quitting = False


def test_another_rate_is_looked_for_only_while_a_run_goes_on():
    lead = Lead(None)
    lead._master.summary = Summary(a_run())  # of the run before
    lead._look()
    assert lead.told == []
    lead._master.running = True
    lead._look()
    lead._look()
    assert lead.told == ["7/s"]


@pytest.mark.parametrize(("workers", "told"), [
    (1, ("Locust was asked to stop the test", True)), (0, ("the last worker went missing", False)),
])  # fmt: skip
def test_a_test_that_locust_stops_for_want_of_workers_was_not_asked_to_stop(workers, told):
    lead = Lead(Alone())
    for number in range(workers):
        lead._environment.runner.clients[f"h_{number}"] = WorkerNode(f"h_{number}", STATE_INIT)
    lead._on_stopping()
    assert lead.told == [told]


def test_nothing_is_spawned_for_a_run_that_never_begins():
    lead = Lead(SimpleNamespace(shape_greenlet=object()))
    lead._carry = lambda begun: begun()
    with pytest.raises(gevent.GreenletExit):
        lead._on_start()
    assert lead._environment.runner.shape_greenlet is None


@pytest.fixture
def ramping(monkeypatch):
    """Answer the events of Locust's own master, whose messages go nowhere, in a test whose users take an hour to come."""
    monkeypatch.setattr(
        zmqrpc, "Server", lambda *_: SimpleNamespace(recv_from_client=Event().wait, send_to_client=lambda _: None)
    )
    environment = Environment(events=Events(), user_classes=[R1User])
    runner = environment.create_master_runner("127.0.0.1", 0)
    runner.clients["h_1"] = WorkerNode("h_1")
    lead = Lead(runner)
    lead._environment, environment.web_ui = environment, SimpleNamespace(_swarm_greenlet=None)
    lead._master.summary, lead._carry = object(), lambda begun: begun()
    environment.events.test_start.add_listener(lead._on_start)
    environment.events.test_stopping.add_listener(lead._on_stopping)
    environment.events.spawning_complete.add_listener(lead._on_spawned)
    yield lead
    runner.greenlet.kill()


def spawning(lead, users, rate=1):
    """Let Locust start users, one a second; return what does it."""
    runner = lead._environment.runner
    started = gevent.spawn(runner.start, users, rate)
    while runner.target_user_count != users or runner.state != STATE_SPAWNING:
        gevent.sleep(0)
    return started


@pytest.mark.parametrize("by", ["the command line", "the form", "a change in the form"])
def test_a_test_that_ends_deals_no_users_out_any_more(ramping, by):
    web_ui, runner = ramping._environment.web_ui, ramping._environment.runner
    doing = spawning(ramping, 3600)
    if by == "a change in the form":
        doing.kill()  # as Locust does
        doing = spawning(ramping, 1800)
    if by != "the command line":
        web_ui._swarm_greenlet = doing
    runner.stop()  # as the end of a run does
    assert doing.dead
    assert runner.state == STATE_STOPPING


def test_what_has_started_all_its_users_is_left_alone(ramping):
    ramping._environment.runner.clients["h_1"].user_classes_count = {"R1User": 1}
    keys = gevent.spawn(lambda: (ramping._environment.runner.start(1, 1), Event().wait()))  # Locust's keys start users too
    while ramping._environment.runner.state != STATE_RUNNING:
        gevent.sleep(0)
    ramping._environment.runner.clients["h_1"].user_classes_count = {}
    ramping._environment.runner.stop()
    assert not keys.dead
    keys.kill()


@pytest.mark.parametrize(
    ("goes_on", "shaped", "rate", "refused"),
    [
        pytest.param(True, True, "4/s", True, id="nothing would come of it"),
        pytest.param(True, True, "8/s", False, id="another rate"),
        pytest.param(False, True, "4/s", False, id="no run goes on"),
        pytest.param(True, False, "4/s", False, id="users are sessions"),
    ],
)
def test_a_start_beside_an_open_loop_is_refused_in_the_form(ramping, goes_on, shaped, rate, refused):
    ramping._environment.shape_class = OpenLoop(lambda: None) if shaped else None
    ramping._options = argparse.Namespace(r1_rate="4/s")
    ramping._master.running, ramping._master.client_ids = goes_on, lambda: ["h_1"]
    asked = argparse.Namespace(r1_scenario="smoke", r1_model="", r1_rate=rate, r1_duration="", r1_set=[])
    with pytest.raises(UsageError, match=r"^a run goes on: ") if refused else contextlib.nullcontext():
        ramping._check(asked, None)


@pytest.mark.parametrize("goes_on", [False, True])
def test_a_start_ends_what_goes_on_without_a_run(ramping, goes_on):
    spawning(ramping, 3600)
    ramping._master.running, ramping._master.client_ids = goes_on, lambda: ["h_1"]
    ramping._check(argparse.Namespace(r1_scenario="smoke", r1_model="", r1_rate="", r1_duration="", r1_set=[]), None)
    assert ramping._environment.runner.state == (STATE_SPAWNING if goes_on else STATE_STOPPING)


@pytest.mark.parametrize("ran", [True, False])
def test_a_single_process_lets_locust_write_its_csv_files_once_more(monkeypatch, ran):
    monkeypatch.setattr(stats, "CSV_STATS_INTERVAL_SEC", 0.001)
    environment, written = Environment(events=Events(), user_classes=[R1User]), []

    def write():
        while True:
            written.append(lead.told.count("done"))
            gevent.sleep(stats.CSV_STATS_INTERVAL_SEC)

    lead = Lead(environment.create_local_runner())
    lead._options.csv_prefix = "x"
    lead._master.interrupt = lambda: None
    writer = gevent.spawn(write)
    gevent.sleep(0)
    lead._run = gevent.spawn(lead.told.append, "done") if ran else None
    lead._on_quitting()
    assert written[-1] == ran
    assert (len(written) > 1) == ran, "a process without a run waits for nothing"
    writer.kill()
    environment.runner.greenlet.kill()


@pytest.mark.parametrize(("asked", "level"), [(True, "INFO"), (False, "ERROR")])
def test_an_end_that_people_asked_for_is_no_error(caplog, asked, level):
    lead = Lead(None)
    lead._stopping = lead._quitting = True
    lead._scenario = lambda: (None, None, False)
    lead._options.r1_runs = "runs"
    lead._master.asked = "enough" if asked else None
    lead._master.carry = lambda *_, **__: Ran(Verdict(0, "enough", None), None)
    with caplog.at_level("INFO", "r1perf"):
        lead._carry(lambda: None)
    assert [(record.levelname, record.message) for record in caplog.records] == [(level, "enough")]
