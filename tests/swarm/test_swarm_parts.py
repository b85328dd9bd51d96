"""The parts of the swarm, each by itself."""

import os
import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest
from fake_traffic import MS
from hypothesis import given
from hypothesis import strategies as st
from locust import User, dispatch
from locust.dispatch import UsersDispatcher
from locust.env import Environment
from locust.event import Events
from locust.runners import WorkerNode
from locust.stats import RequestStats
from services import ROOT

from r1perf import clock, messages
from r1perf.arrivals import Closed
from r1perf.errors import UsageError
from r1perf.loop.sim import SimLoop
from r1perf.result import Outcome, Result
from r1perf.scenario import load, shipped
from r1perf.scenario.validate import validate
from r1perf.swarm import options, wire
from r1perf.swarm.address import address
from r1perf.swarm.dispatcher import dispatcher
from r1perf.swarm.fetch import ASK_AGAIN_NS, GIVE_UP_NS, Fetching
from r1perf.swarm.joining import work
from r1perf.swarm.master import scaled
from r1perf.swarm.numbered import Numbered
from r1perf.swarm.page.form import take
from r1perf.swarm.part import Part
from r1perf.swarm.place import alive, place
from r1perf.swarm.roster import Roster, in_locusts_order
from r1perf.swarm.sessions import Held
from r1perf.swarm.tables import teller
from r1perf.swarm.user import R1User, joiner
from r1perf.units import Duration

S = 10**9


# --- Addresses ---


@pytest.mark.parametrize(
    ("text", "is_"),
    [
        ("10.0.0.1:5000", ("10.0.0.1", 5000)),
        ("master", ("master", 5557)),
        ("*:1", ("*", 1)),
        ("[::1]:6000", ("::1", 6000)),
        ("fe80::1", ("fe80::1", 5557)),
    ],
)
def test_an_address_is_read(text, is_):
    assert address(text) == is_


@pytest.mark.parametrize("text", ["", ":5557", "host:", "host:x", "host:0", "host:65536"])
def test_what_is_no_address_is_refused(text):
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        address(text)


def test_a_masters_host_that_is_nowhere_is_said_at_once(tmp_path):
    with pytest.raises(UsageError, match=r'^the master\'s host "nohost.invalid" cannot be found: '):
        work("nohost.invalid:5557", tmp_path, lambda sentence: None)


# --- Processes ---


def test_a_process_lives_until_it_has_ended_even_if_nobody_has_waited_for_it():
    assert alive(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    assert alive(child.pid)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # ended, and still in the process table
    assert not alive(child.pid)
    child.wait()
    assert not alive(child.pid)


def test_processes_of_one_place_agree_on_its_name():
    said = subprocess.run(
        [sys.executable, "-c", "from r1perf.swarm.place import place; print(place())"],
        capture_output=True, text=True, check=True, env={**os.environ, "LOCUST_SKIP_MONKEY_PATCH": "1"},
    ).stdout.strip()  # fmt: skip
    assert said == place() != ""


# --- Who is there ---


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "a-long-host"]), st.uuids()), min_size=1, max_size=12, unique=True),
    st.integers(1, 40),
)
def test_shards_are_in_the_order_in_which_locust_deals_out_users(workers, users):
    ids = [f"{host}_{uuid.hex}" for host, uuid in workers]
    made = UsersDispatcher([WorkerNode(name) for name in ids], [R1User])
    made.new_dispatch(users, users)
    dealt = list(made)[-1]
    order = in_locusts_order(ids)
    # Session s belongs to shard s mod n, so worker i must have the users i, i + n, i + 2n, ...
    assert [dealt[name]["R1User"] for name in order] == [len(range(i, users, len(ids))) for i in range(len(ids))]


class Pings:
    """Answers pings: `skew_ns` and the two ways' times by client."""

    def __init__(self, loop, **clients):
        self.loop, self.clients, self.roster = loop, clients, None
        self.count = self.slow = 0  # which ping takes its time on the way there

    def __call__(self, client_id, message):
        if client_id in self.clients:
            self.loop.spawn(self.answer, client_id, message)

    def answer(self, client_id, message):
        skew_ns, there_ns, back_ns = self.clients[client_id]
        self.count += 1
        if self.count == self.slow:
            there_ns += 300 * MS
        self.loop.sleep_until(self.loop.now_ns() + there_ns)
        shown_ns = self.loop.now_ns() + skew_ns
        self.loop.sleep_until(self.loop.now_ns() + back_ns)
        self.roster.take(client_id, wire.Pong(message.sent_ns, shown_ns))


def roster_of(monkeypatch, **clients):
    loop = SimLoop()
    monkeypatch.setattr(clock, "wall_ns", loop.now_ns)
    pings = Pings(loop, **clients)
    pings.roster = Roster(loop, pings)
    for client_id in clients:
        pings.roster.take(client_id, wire.Hello("h", 7, place() if client_id == "x_1" else "elsewhere", "0"))
    return loop, pings.roster


def test_clocks_are_measured_to_half_the_difference_of_the_ways(monkeypatch):
    loop, roster = roster_of(monkeypatch, x_1=(0, MS, MS), x_2=(-3 * S, 2 * MS, 4 * MS))
    crew = loop.run(roster.crew, ["x_2", "x_1"])
    assert [(mate.name, mate.client_id, mate.here) for mate in crew] == [("0", "x_1", True), ("1", "x_2", False)]
    assert [mate.clock_offset_ns for mate in crew] == [0, -3 * S - MS]


@pytest.mark.parametrize("slow", [1, 3, 5])
def test_the_quickest_ping_counts(monkeypatch, slow):
    loop, roster = roster_of(monkeypatch, x_1=(7 * S, MS, MS))
    roster._tell.slow = slow
    assert loop.run(roster.crew, ["x_1"])[0].clock_offset_ns == 7 * S


def test_a_worker_that_answers_no_ping_has_no_offset_and_takes_no_forever(monkeypatch):
    loop, roster = roster_of(monkeypatch, x_1=(0, 60 * S, 0))
    began_ns = loop.now_ns()
    crew = loop.run(roster.crew, ["x_1"])
    assert crew[0].clock_offset_ns is None
    assert loop.now_ns() - began_ns < 6 * S


def test_who_has_not_said_hello_is_named_in_time(monkeypatch):
    loop, roster = roster_of(monkeypatch, x_1=(0, 0, 0))
    assert loop.run(roster.wait, ["x_1", "x_9"], loop.now_ns() + 2 * S) == ["x_9"]
    assert roster.take("x_9", wire.Hello("h", 1, "p", "0"))
    assert not roster.take("x_9", wire.Hello("h", 1, "p", "0"))
    assert loop.run(roster.wait, ["x_1", "x_9"], loop.now_ns() + 2 * S) == []


# --- Users ---


@pytest.mark.parametrize("closed", [False, True])
def test_users_are_dealt_out_anew_between_runs_alone(closed):
    made = dispatcher(lambda: closed)([WorkerNode("a_1"), WorkerNode("a_2")], [R1User])
    made.new_dispatch(4, 4)
    before = list(made)[-1]
    made.add_worker(WorkerNode("a_3"))
    made.remove_worker(WorkerNode("a_1"))
    made.new_dispatch(4, 4)
    after = list(made)[-1]
    assert before == {"a_1": {"R1User": 2}, "a_2": {"R1User": 2}}
    assert after == (before if closed else {"a_2": {"R1User": 2}, "a_3": {"R1User": 2}})


class Own(R1User):
    """A session of somebody's own class."""


class Portal(User):
    """No session."""


class Search(User):
    """Another one."""

    weight = 2


class Once(User):
    """One that Locust starts before the others."""

    fixed_count = 1


@pytest.mark.parametrize("again", [False, True], ids=["at first", "dealt out anew"])
@pytest.mark.parametrize("classes", [[R1User, Portal], [R1User, Own, Portal], [R1User, Portal, Search], [R1User, Once, Portal]],
                         ids=lambda classes: "+".join(one.__name__ for one in classes))  # fmt: skip
@pytest.mark.parametrize("workers", [1, 2, 3, 4])
def test_sessions_are_dealt_out_evenly_whatever_other_users_there_are(monkeypatch, classes, workers, again):
    monkeypatch.setattr(dispatch, "gevent", SimpleNamespace(sleep=lambda seconds: None))  # between its steps
    nodes = [f"a_{i}" for i in range(workers)]
    ours, theirs = (kind([WorkerNode(node) for node in nodes], classes) for kind in (dispatcher(lambda: False), UsersDispatcher))
    for made in (ours, theirs):
        if again:
            made.new_dispatch(10, 10)
            list(made)
            made.add_worker(WorkerNode("a_9"))
    nodes += ["a_9"] if again else []
    for made in (ours, theirs):
        made.new_dispatch(16, 5)
    for now, locusts in zip(ours, theirs, strict=True):  # step by step
        totals = [{one.__name__: sum(on[one.__name__] for on in users.values()) for one in classes} for users in (now, locusts)]
        assert totals[0] == totals[1], "as many of each class as Locust has"
        sessions = [sum(n for name, n in now[node].items() if name in ("R1User", "Own")) for node in nodes]
        # Session s is worker s mod n's, as the plan has them.
        assert sessions == [len(range(i, sum(sessions), len(nodes))) for i in range(len(nodes))]
        users = [sum(now[node].values()) for node in nodes]
        assert max(users) - min(users) <= 2


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        ([R1User], [(2, 5), (4, 5), (5, 5), (5, 5), (3, 1), (1, 1)]),
        ([R1User, Portal], [(1, None), (2, None), (2, 2), (2, 2), (1, None), (0, 0)]),
        ([Portal], [(0, None), (0, None), (0, 0), (0, 0), (0, None), (0, 0)]),
    ],
    ids=["sessions alone", "sessions and others", "no sessions"],
)
def test_who_deals_users_out_says_how_many_of_them_are_sessions(monkeypatch, classes, told):
    monkeypatch.setattr(dispatch, "gevent", SimpleNamespace(sleep=lambda seconds: None))
    held = []
    made = dispatcher(lambda: True, held.append)([WorkerNode("a_1"), WorkerNode("a_2")], classes)
    for users in (5, 5, 1):
        made.new_dispatch(users, 2.5)
        list(made)
    assert held == [Held(count, wanted, 2.5) for count, wanted in told]


def test_a_user_joins_when_it_starts_and_leaves_when_it_is_stopped():
    environment, told = Environment(events=Events(), user_classes=[R1User]), []
    joiner(environment, lambda: told.append("join") or (lambda: told.append("leave")))
    user = R1User(environment)
    user.on_start()
    user.on_stop()
    assert told == ["join", "leave"]
    joiner(environment, lambda: None)  # an open loop
    idle = R1User(environment)
    idle.on_start()
    idle.on_stop()


# --- Locust's tables ---


def result(outcome=Outcome.OK, reason=None, **more):
    fields = {"id": "1.0", "arrival": 1, "turn": 0, "workload": "chat", "stage": 0, "item": 0, "scheduled_ns": S, "sent_ns": S + MS,
              "done_ns": S + 500 * MS, "last_ns": S + 480 * MS} | more  # fmt: skip
    return Result(outcome=outcome, reason=reason, **fields)


def test_locusts_tables_have_a_row_a_workload_and_target_in_ms():
    environment, seen = Environment(events=Events()), []
    stats = RequestStats()
    environment.events.request.add_listener(lambda **fired: seen.append(fired))
    environment.events.request.add_listener(
        lambda request_type, name, response_time, response_length, exception, **_: (
            stats.log_request(request_type, name, response_time, response_length),
            exception and stats.log_error(request_type, name, exception),
        )
    )
    tell = teller(environment, "staging")
    tell(result())
    tell(result(Outcome.TRUNCATED, workload="aime"))
    tell(result(Outcome.OVERLOADED, "503", last_ns=None))
    tell(result(Outcome.OVERLOADED, "503", last_ns=None))
    tell(result(Outcome.CANCELLED))
    tell(result(Outcome.DROPPED, sent_ns=None, last_ns=None))
    assert [(fired["request_type"], fired["name"], fired["response_time"]) for fired in seen] == [
        ("chat", "staging", 480.0), ("aime", "staging", 480.0), ("chat", "staging", 500.0), ("chat", "staging", 500.0),
    ]  # fmt: skip
    assert [str(fired["exception"]) for fired in seen if fired["exception"]] == ["overloaded: 503"] * 2
    assert seen[0]["result"].id == "1.0"
    assert stats.get("staging", "chat").num_failures == 2
    (error,) = stats.errors.values()
    assert error.occurrences == 2


# --- Files ---


class Remote:
    """The files of a worker elsewhere, asked for piece by piece."""

    def __init__(self, tmp_path, sizes, **more):
        self.now_ns = 0
        self.files = {name: os.urandom(size) for name, size in zip(("requests.3.jsonl", "snapshots.3"), sizes, strict=True)}
        self.folder = tmp_path
        self.fetching = Fetching(tmp_path, "3", lambda: self.now_ns, messages.Done(1), **more)

    def answer(self, asked, most=1000):
        data = self.files[asked.name]
        return wire.Piece(asked.name, asked.offset, len(data), data[asked.offset : asked.offset + most])


@pytest.mark.parametrize("sizes", [(2500, 10), (0, 0), (1000, 0)], ids=str)
def test_files_come_in_pieces_whole_and_once(tmp_path, sizes):
    remote = Remote(tmp_path, sizes)
    asked = 0
    while (fetch := remote.fetching.ask()) is not None:
        asked += 1
        piece = remote.answer(fetch)
        remote.fetching.take(piece)
        remote.fetching.take(piece)
        assert asked < 10
    assert remote.fetching.ended
    assert remote.fetching.whole
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == remote.files


def test_one_piece_is_asked_for_at_a_time_and_again_when_it_does_not_come(tmp_path):
    remote = Remote(tmp_path, (2500, 10))
    first = remote.fetching.ask()
    assert remote.fetching.ask() is None
    remote.now_ns = ASK_AGAIN_NS
    assert remote.fetching.ask() == first
    remote.now_ns = GIVE_UP_NS + 1
    assert remote.fetching.ask() is None
    assert remote.fetching.ended
    assert not remote.fetching.whole


def test_files_that_are_not_wanted_are_not_asked_for(tmp_path):
    remote = Remote(tmp_path, (5, 5), wanted=False)
    assert remote.fetching.ended
    assert remote.fetching.ask() is None
    assert not remote.fetching.whole


def test_a_disk_that_takes_no_file_ends_the_fetching(tmp_path):
    remote = Remote(tmp_path / "missing", (5, 5))
    remote.fetching.take(remote.answer(remote.fetching.ask()))
    assert remote.fetching.ended
    assert not remote.fetching.whole


# --- Options ---


def given_options(**more):
    defaults = {"r1_scenario": "closed-32", "r1_model": "", "r1_rate": "", "r1_duration": "", "r1_set": [], "r1_runs": "runs"}
    return Namespace(**defaults | more)


@pytest.mark.parametrize(
    ("go", "others", "left"),
    [
        pytest.param(False, (), [], id="nothing of a run that never began"),
        pytest.param(False, ("requests.0.jsonl",), ["r", "r/requests.0.jsonl"], id="what another worker has there"),
        pytest.param(True, (), ["r", "r/requests.1.jsonl", "r/snapshots.1"], id="all of one that did"),
    ],
)
def test_what_stays_on_a_machine_that_the_master_does_not_share(tmp_path, monkeypatch, go, others, left):
    loop, runs = SimLoop(), tmp_path / "runs"
    setup = SimpleNamespace(
        digest="d", plan=SimpleNamespace(stages=()), notes=(), prompting={}, planned=None,
        client=SimpleNamespace(close=lambda: None), calibrated=lambda calibrations: None,
    )  # fmt: skip
    monkeypatch.setattr("r1perf.worker.set_up", lambda loop, assign, told: setup)
    monkeypatch.setattr(
        "r1perf.worker.Shard", lambda loop, link, assign, setup, journals, *more: SimpleNamespace(run=journals.close)
    )
    part = Part("r", loop, lambda frame: None, lambda folder: False, runs, lambda assign: lambda result: None)
    master = Numbered("r", part.take, loop.now_ns)
    assign = messages.Assign(
        run_id="r", worker="1", shard=1, shards=2, scenario={}, base=".", folder="/elsewhere/r", interval_ns=S, users=False
    )

    def main():
        measuring = loop.spawn(part.measure)
        master.send(wire.encode(assign))
        loop.sleep_until(loop.now_ns() + MS)
        assert sorted(path.name for path in (runs / "r").iterdir()) == ["requests.1.jsonl", "scheduled.1.jsonl", "snapshots.1"]
        for name in others:
            (runs / "r" / name).touch()
        master.send(wire.encode(messages.Go(loop.now_ns(), {}) if go else wire.Over()))
        measuring.join()

    loop.run(main)
    assert part.over
    assert sorted(str(path.relative_to(runs)) for path in runs.rglob("*")) == left


def test_options_are_laid_over_the_scenario():
    scenario, base = options.scenario_of(
        given_options(r1_model="m", r1_duration="30s", r1_set=["workload.chat.weight=2"]), "http://h/v1", sessions=5
    )
    assert (scenario.target.url, scenario.target.model, scenario.duration) == ("http://h/v1", "m", Duration.parse("30s"))
    assert scenario.workload["chat"].weight == 2
    assert isinstance(scenario.arrivals, Closed)
    assert scenario.arrivals.sessions == 5
    assert str(base) == os.getcwd()


def test_the_forms_text_sets_several_keys():
    scenario, _ = options.scenario_of(given_options(r1_set="seed=7, workload.chat.weight=2"), None)
    assert (scenario.seed, scenario.workload["chat"].weight) == (7, 2)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("seed=7, workload.chat.weight=2,", ["seed=7", "workload.chat.weight=2"]),
        ("workload.chat.sampling={temperature=0.6, top_p=0.95}, seed=7", ["workload.chat.sampling={temperature=0.6, top_p=0.95}", "seed=7"]),
        ('sla.clauses=["a, b", "c"]', ['sla.clauses=["a, b", "c"]']),
        ('labels.x="a, \\" b", labels.y=\'c, \\\', seed=1', ['labels.x="a, \\" b"', "labels.y='c, \\'", "seed=1"]),
        ("labels.x=it's, labels.y=so", ["labels.x=it's", "labels.y=so"]),
        ("labels.x=a], seed=1", ["labels.x=a]", "seed=1"]),
        ("", []),
    ],
)  # fmt: skip
def test_the_forms_text_is_split_outside_of_brackets_and_quotes(text, parts):
    assert options.settings(text) == parts
    assert take({"r1_set": text}, given_options()) == {"r1_set": parts}


def test_values_with_commas_reach_the_scenario():
    given = given_options(
        r1_set='workload.chat.sampling={temperature=0.6, top_p=0.95}, sla.clauses=["p95(ttft) < 1s", "error_rate < 1%"]'
    )
    scenario, _ = options.scenario_of(given, None)
    sampling = scenario.workload["chat"].sampling
    assert (sampling.temperature, sampling.top_p) == (0.6, 0.95)
    assert scenario.sla.clauses == ("p95(ttft) < 1s", "error_rate < 1%")


@pytest.mark.parametrize(("given", "worker", "code"), [("0/s", False, 2), ("0/s", True, None), ("2/s", False, None)])
def test_a_wrong_scenario_ends_the_process_where_its_command_line_is_read(monkeypatch, capsys, given, worker, code):
    monkeypatch.setattr(options, "_checked", [])
    read = given_options(r1_scenario="smoke", r1_rate=given, host=None, worker=worker)
    parser = SimpleNamespace(parse_args=lambda: read)
    options.check(parser)
    if code is None:
        assert parser.parse_args() is read
        read.r1_scenario = "gone"
        if not worker:
            parser.parse_args()  # read again, for the form
        return
    with pytest.raises(SystemExit) as ended:
        parser.parse_args()
    assert ended.value.code == code
    assert capsys.readouterr().err == "r1perf: `arrivals.rate`: must be greater than 0\n"


def test_another_rate_makes_an_open_loop():
    scenario, _ = options.scenario_of(given_options(r1_scenario="smoke", r1_rate="7/s"), None)
    assert scenario.arrivals.rate == 7


def test_wrong_options_are_one_sentence():
    with pytest.raises(UsageError, match="no such file"):
        options.scenario_of(given_options(r1_scenario="nothing"), None)


@pytest.mark.parametrize(("workers", "is_"), [(1, "1s"), (100, "1s"), (250, "2.5s"), (1000, "10s"), (9000, "1m")])
def test_the_interval_grows_with_the_workers(workers, is_):
    assert scaled(load("smoke"), workers).interval == Duration.parse(is_)
    slow = load("smoke", ["interval=1m"])
    assert scaled(slow, workers) is slow


@pytest.mark.parametrize(("workers", "asked", "is_"), [(1000, "10s", "10s"), (2000, "10s", "20s"), (2000, "1m", "1m")])
def test_a_sinks_interval_grows_with_that_of_the_run(workers, asked, is_):
    grown = scaled(load("smoke", [f"sinks.influxdb.interval={asked}"]), workers)
    assert grown.sinks.influxdb.interval == Duration.parse(is_)
    validate(grown)  # as every worker does


def test_nothing_listens_beyond_this_machine_and_no_option_may_be_a_secret():
    from locust.argument_parser import get_empty_argument_parser, setup_parser_arguments

    parser = get_empty_argument_parser(default_config_files=[])
    setup_parser_arguments(parser)
    options.add(parser, "smoke")
    parsed = parser.parse_args([])
    assert (parsed.web_host, parsed.master_bind_host, parsed.r1_scenario) == ("127.0.0.1", "127.0.0.1", "smoke")
    shown = {name for name in parser.args_included_in_web_ui if name.startswith("r1_")}
    assert shown == {"r1_scenario", "r1_model", "r1_rate", "r1_duration", "r1_set"}
    assert not [name for name in vars(parsed) if name.startswith("r1_") and ("key" in name or "token" in name)]


@pytest.mark.parametrize("path", sorted((ROOT / "locustfiles").glob("*.py")), ids=lambda path: path.name)
def test_a_locustfile_is_three_lines_over_a_scenario_that_is_there(path):
    name = path.stem.replace("_", "-")
    assert path.read_text() == f'from r1perf.swarm import R1User, swarm\n\nswarm("{name}")\n'
    assert name in shipped()
