"""The parts of the plugin that need no pytest around them."""

import datetime
import io
import os
import signal
import subprocess
import sys

import msgspec
import pytest
from archives import archive

from pytest_r1perf import loading, progress
from pytest_r1perf.load import carried_out
from pytest_r1perf.messages import Done, Note, Order, Progress
from pytest_r1perf.progress import LOG_NS, Shown
from pytest_r1perf.ruling import estimate
from pytest_r1perf.runs import Spent, spent_by
from pytest_r1perf.targets import toml
from r1perf.datasets.facts import Prompting
from r1perf.datasets.tokens import Calibration
from r1perf.errors import UsageError
from r1perf.scenario import Shorthands, load, resolved
from r1perf.sla import Verdict, parse
from r1perf.summary import Cost, read_document

# --- What the estimate says ---

FACTS = {"kind": "x", "verdict": "inconclusive", "says": "", "confidence": 0.95}


@pytest.mark.parametrize(
    ("clause", "fields", "meets"),
    [
        ("p95(ttft) < 1s", {"n": 200, "over": 10, "over_possible": 10, "allowed": 1 - 0.95}, True),
        ("p90(ttft) < 1s", {"n": 200, "over": 20, "over_possible": 20, "allowed": 1 - 0.9}, True),
        ("p95(ttft) < 1s", {"n": 200, "over": 11, "over_possible": 11, "allowed": 1 - 0.95}, False),
        ("p95(ttft) < 1s", {"n": 200, "over": 9, "over_possible": 49, "allowed": 1 - 0.95}, False),
        ("p95(ttft) < 1s", {"n": 40, "over": 0, "over_possible": 40, "allowed": 1 - 0.95}, None),
        ("p95(ttft) < 1s", {"n": 0, "allowed": 0.05}, None),
        ("max(ttft) < 1s", {"n": 40, "over": 0, "over_possible": 2}, True),
        ("mean(ttft) < 1s", {"value": 999_999_999.0}, True),
        ("mean(ttft) < 1s", {"value": 1e9}, False),
        ("mean(ttft) <= 1s", {"value": 1e9}, True),
        ("throughput(requests) >= 2/s", {"value": 2.0}, True),
        ("throughput(requests) > 2/s", {"value": 2.0}, False),
        ("throughput(requests) >= 2/s", {"value": 1.9}, False),
        ("p95(ttft) < baseline +10%", {"value": 1.09}, True),
        ("p95(ttft) < baseline +10%", {"value": 1.11}, False),
        ("throughput(requests) >= baseline -5%", {"value": 0.94}, False),
        ("mean(ttft) < 1s", {}, None),
    ],
    ids=["at-the-limit", "rounded", "over", "cut-ones-left-out", "all-cut", "nothing", "max", "mean", "mean-at", "mean-at-most",
         "at-least", "more", "less", "baseline", "baseline-over", "baseline-upward", "no-value"],
)  # fmt: skip
def test_what_was_observed_meets_a_clause_or_not(clause, fields, meets):
    assert estimate(parse(clause), Verdict(clause=clause, **(FACTS | fields))) is meets


# --- What is laid over a scenario ---


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("8/s", '"8/s"'),
        (3, "3"),
        (0.5, "0.5"),
        (True, "true"),
        (["a", 1], '["a", 1]'),
        ({"a b": {"c": [1]}}, '{"a b" = {"c" = [1]}}'),
        (datetime.date(2026, 11, 30), "2026-11-30"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
    ],
    ids=["text", "integer", "number", "truth", "list", "table", "date", "nan", "inf"],
)
def test_values_are_written_astoml(value, text):
    assert toml(value) == text


def test_what_toml_has_not_is_refused():
    with pytest.raises(UsageError, match=r"\(1\+2j\) cannot be a value of a scenario; allowed: what TOML has"):
        toml([{"a": 1 + 2j}])


def test_a_list_of_tables_reaches_the_scenario():
    stages = [{"kind": "constant", "rate": "1/s", "duration": "5s"}, {"kind": "constant", "rate": "2/s", "duration": "5s"}]
    made = load("chat", [f"arrivals={toml({'kind': 'stages', 'stages': stages})}"])
    assert [float(stage.rate) for stage in made.arrivals.stages] == [1.0, 2.0]


# --- What is shown while a load goes on ---


class Reporter:
    def __init__(self, isatty):
        self.isatty, self.lines = isatty, []

    def ensure_newline(self):
        self.lines.append("newline")

    def write_line(self, text):
        self.lines.append(text)

    def rewrite(self, text, erase):
        self.lines.append(f"over: {text}")


class Config:
    def __init__(self, reporter, verbosity=0):
        self.pluginmanager, self._reporter, self._verbosity = self, reporter, verbosity

    def get_plugin(self, name):
        return self._reporter if name == "terminalreporter" else None

    def get_verbosity(self):
        return self._verbosity


@pytest.fixture
def now(monkeypatch):
    """Give the time, which the test moves."""
    time = [0]
    monkeypatch.setattr(progress.clock, "monotonic_ns", lambda: time[0])
    return time


def test_a_log_gets_a_line_now_and_then(now):
    reporter = Reporter(isatty=False)
    shown = Shown(Config(reporter))
    shown.begin("chat on vllm")
    for seconds in range(0, 95, 5):
        now[0] = seconds * 10**9
        shown.tell(Progress(f"at {seconds} s"))
    shown.tell(Note("a note"))
    shown.end("done")
    said = [line for line in reporter.lines if line != "newline"]
    assert LOG_NS == 30 * 10**9
    assert said == [
        "r1perf: chat on vllm", "r1perf: at 30 s", "r1perf: at 60 s", "r1perf: at 90 s", "r1perf: a note", "r1perf: done",
    ]  # fmt: skip


def test_a_terminal_gets_every_line_over_the_last_one(now, monkeypatch):
    monkeypatch.setenv("COLUMNS", "21")
    reporter = Reporter(isatty=True)
    shown = Shown(Config(reporter))
    shown.tell(Progress("at 1 s"))
    shown.tell(Progress("a line that is too long"))
    shown.end("done")
    assert reporter.lines == ["over: r1perf: at 1 s", "over: r1perf: a line that ", "over: ", "r1perf: done"]


@pytest.mark.parametrize("config", [Config(Reporter(isatty=True), -1), Config(None)], ids=["quiet", "no-terminal"])
def test_otherwise_nothing_is_shown(now, config):
    shown = Shown(config)
    shown.begin("chat")
    shown.tell(Progress("at 1 s"))
    shown.end("done")
    assert config._reporter is None or config._reporter.lines == []


# --- The process that carries a load out ---

ORDER = Order(scenario={}, base=".", runs="runs")


@pytest.fixture
def child(monkeypatch):
    """Let a script stand in for the load's process."""

    def stand_in(script):
        real = subprocess.Popen
        monkeypatch.setattr(loading.subprocess, "Popen", lambda command, **words: real([sys.executable, "-c", script], **words))

    return stand_in


@pytest.mark.parametrize("most", [1, 7, 1 << 16])
def test_what_it_says_is_told_however_its_bytes_are_cut(child, monkeypatch, most):
    said = b"".join(msgspec.json.encode(one) + b"\n" for one in (Note("n"), Progress("p"), Done(3, "s", "f")))
    child(f"import sys; sys.stdin.buffer.readline(); sys.stdout.buffer.write({said!r})")
    read = os.read
    monkeypatch.setattr(loading.os, "read", lambda fd, n: read(fd, min(n, most)))
    told = []
    assert loading.carry_out(ORDER, told.append) == Done(3, "s", "f")
    assert told == [Note("n"), Progress("p")]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("raise SystemExit(7)", "exit code 7"),
        ("import sys; sys.stdin.readline(); sys.exit('MemoryError: no more')", "MemoryError: no more"),
    ],
    ids=["silent", "last-words"],
)
def test_a_process_that_ends_early_is_said_with_its_last_words(child, script, why):
    child(script)
    assert loading.carry_out(ORDER, print) == Done(2, f"the load's process ended early: {why}", None)


def test_ctrl_c_ends_the_load_and_how_it_ended_is_known(child):
    child(
        'import sys; sys.stdin.readline(); print(\'{"type":"note","sentence":"begun"}\', flush=True); sys.stdin.readline(); '
        'print(\'{"type":"done","code":130,"sentence":"s","folder":"f"}\')'
    )
    told = []

    def tell(said):
        if not told:
            signal.raise_signal(signal.SIGINT)
        told.append(said)

    with pytest.raises(loading.Interrupted) as ended:
        loading.carry_out(ORDER, tell)
    assert ended.value.done == Done(130, "s", "f")
    assert told == [Note("begun"), Note("interrupted: the load ends and its archive is completed")]


def test_an_order_that_cannot_be_carried_out_is_one_sentence():
    assert carried_out(ORDER, io.BytesIO()) == Done(2, "`name`: is missing", None)


def test_a_load_whose_test_process_is_gone_before_it_begins_sends_nothing(tmp_path):
    scenario = resolved(load("chat", ["duration=60s"], Shorthands(rate="1/s")))
    order = Order(scenario=scenario, base=str(tmp_path), runs=str(tmp_path / "runs"))
    ran = subprocess.run(
        [sys.executable, "-m", "pytest_r1perf.load"],
        input=msgspec.json.encode(order) + b"\n",
        capture_output=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 130
    assert b"Traceback" not in ran.stderr
    assert all(not path.read_bytes() for path in tmp_path.glob("runs/*/requests.*"))


# --- Budgets ---


@pytest.fixture
def priced():
    """Give a scenario at $1 a million tokens in and $1 a token out, with a limit of $9."""
    sets = ["target.price={input_per_1m = 1.0, output_per_1m = 1e6}", "requests=5", "stop.cost=9", "workload.chat.max_tokens=8"]
    return load("chat", sets, Shorthands(rate="1/s"))


@pytest.mark.parametrize(
    ("changes", "spent"),
    [
        ({"cost": Cost(basis="tokens", usd=2.5)}, Spent(2.5, 7)),
        ({"cost": Cost(basis="tokens", usd=2.5), "workloads": [Prompting(calibration=Calibration(requests=4, input_tokens=10**6))]},
         Spent(2.5 + 1.0 + 4.0, 11)),
        ({"cost": None}, Spent(9.0, 7)),
        ({"cost": Cost(basis="tokens", usd=2.5, untold=3, usd_most=4.0)}, Spent(4.0, 7)),
        ({"cost": Cost(basis="tokens", usd=2.5, untold=3, usd_most=400.0)}, Spent(9.0, 7)),
        ({"cost": Cost(basis="tokens", untold=3)}, Spent(9.0, 7)),
    ],
    ids=["told", "calibrated", "unknown", "at most", "at most what the limit let through", "not bounded"],
)  # fmt: skip
def test_what_a_run_took(tmp_path, priced, changes, spent):
    document = read_document(archive(tmp_path / "one", n=20))
    rows = [msgspec.structs.replace(document.workloads[0], prompting=each) for each in changes.pop("workloads", ())]
    made = msgspec.structs.replace(
        document, counts={"scheduled": 7}, price=priced.target.price, workloads=rows or document.workloads, **changes
    )
    assert spent_by(made, priced) == spent
