import pytest

from pytest_r1perf.markers import Load, MarkerError, Recorded, Sla, declared


class Node:
    """Something with markers, those next to the function first, as pytest gives them."""

    def __init__(self, *marks):
        self.marks = [mark.mark for mark in marks]

    def iter_markers(self, name):
        return (mark for mark in self.marks if mark.name == name)


LOAD, RECORDED, SLA = pytest.mark.r1_load, pytest.mark.r1_recorded, pytest.mark.r1_sla


def test_markers_become_values():
    found = declared(Node(SLA("b", confidence=0.99), SLA("a"), LOAD("chat", rate="8/s", set={"seed": 4}, repeat=3)))
    assert found.load == Load(scenario="chat", rate="8/s", set={"seed": 4}, repeat=3)
    assert found.sla == (Sla(clauses=("a",)), Sla(clauses=("b",), confidence=0.99))
    assert found.recorded is None
    assert found.anything


def test_a_recorded_run_may_have_a_baseline():
    found = declared(Node(RECORDED("runs/a", "runs/b", baseline="runs/c")))
    assert found.recorded == Recorded(paths=("runs/a", "runs/b"), baseline="runs/c")


def test_the_marker_next_to_the_test_wins():
    assert declared(Node(LOAD("near"), LOAD("far"))).load == Load(scenario="near")


def test_nothing_is_declared_without_markers():
    assert not declared(Node(pytest.mark.skip)).anything


@pytest.mark.parametrize(
    ("marks", "says"),
    [
        ([LOAD("chat", rats="8/s")], "r1_load: unknown argument `rats`; did you mean `rate`?"),
        ([LOAD("chat", x=1)], ("r1_load: unknown argument `x`; allowed: url, model, rate, sessions, requests, duration, warmup, "
         "seed, set, workers, repeat, baseline")),
        ([LOAD()], "r1_load takes one scenario: a file, the name of a shipped one, or a kind of dataset"),
        ([LOAD("a", "b")], "r1_load takes one scenario: a file, the name of a shipped one, or a kind of dataset"),
        ([LOAD("a", rate=8)], """r1_load: `rate` must be a text with its unit, as rate="2/s" or duration="90s", not 8"""),
        ([LOAD("a", repeat=0)], "r1_load: `repeat` must be a whole number above 0, not 0"),
        ([LOAD("a", workers=True)], "r1_load: `workers` must be a whole number above 0, not True"),
        ([LOAD("a", set=["x=1"])], """r1_load: `set` must be a dict, as {"workload.chat.max_tokens": 512}, not ['x=1']"""),
        ([RECORDED()], """r1_recorded takes the paths of recorded runs, as r1_recorded("runs/2026-11-29-r1-mixed")"""),
        ([RECORDED("a", base="b")], "r1_recorded: unknown argument `base`; did you mean `baseline`?"),
        ([SLA(95)], """r1_sla takes clauses, as r1_sla("p95(ttft) < 800ms", "error_rate < 1%")"""),
        ([SLA(" ")], """r1_sla takes clauses, as r1_sla("p95(ttft) < 800ms", "error_rate < 1%")"""),
        ([SLA("a", confidence=95)], "r1_sla: `confidence` must lie between 0.5 and 1, such as 0.95, not 95"),
        ([SLA("a", confidence=0.5)], "r1_sla: `confidence` must lie between 0.5 and 1, such as 0.95, not 0.5"),
        ([LOAD("a"), RECORDED("b")],
         "r1_load and r1_recorded exclude each other: a test judges a load that is sent, or a recorded run"),
    ],
    ids=["near", "far", "no-scenario", "two-scenarios", "bare-number", "zero", "bool", "set", "no-path", "recorded-word", "number",
         "empty", "percent", "half", "both"],
)  # fmt: skip
def test_what_is_not_known_is_said(marks, says):
    with pytest.raises(MarkerError) as raised:
        declared(Node(*marks))
    assert str(raised.value) == says


@pytest.mark.parametrize("words", [(), ("--r1-sla",)], ids=["unit-run", "gate"])
def test_a_wrong_marker_is_an_error_of_collection(project, words):
    project.tests('@pytest.mark.r1_load("chat", rats="8/s")\ndef test_it(): ...\ndef test_other(): ...')
    result = project.run(*words)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*ERROR collecting*", "test_it.py::test_it: r1_load: unknown argument `rats`; did you mean `rate`?"]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("mark", "says"),
    [
        ('r1_sla("p95(tfft) < 800ms")', "*unknown metric `tfft`; did you mean `ttft`? (column 5)*"),
        ('r1_sla("p95(ttft){workload=aime} < 1s")', "*unknown workload `aime`; allowed: chat*"),
        ('r1_sla("p95(ttft) < 1s during ramp")', "*unknown stage `ramp`*"),
        ('r1_sla("p95(ttft) < baseline +10%")', "*needs the runs to compare with: --r1-baseline, or baseline=*"),
        ('r1_sla()', "*nothing to judge: there is no clause; give r1_sla some (on the test function, not in pytest.param), put *"),
        ('r1_sla(file="none.toml")', "*none.toml: cannot be read: No such file or directory*"),
    ],
    ids=["metric", "workload", "stage", "baseline", "none", "file"],
)  # fmt: skip
def test_a_wrong_clause_is_an_error_before_anything_is_sent(project, mark, says):
    project.tests(f'@pytest.mark.r1_load("chat", rate="5/s", duration="2s")\n@pytest.mark.{mark}\ndef test_it(): ...')
    result = project.judge()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*ERROR collecting*", says])
    assert project.archives == []


def test_a_wrong_scenario_is_an_error_before_anything_is_sent(project):
    project.tests('@pytest.mark.r1_load("chatt")\n@pytest.mark.r1_sla("error_rate < 1%")\ndef test_it(): ...')
    project.judge().stdout.fnmatch_lines(["*chatt: no such file, shipped scenario or dataset; did you mean `chat`?*"])


def test_an_argument_is_named_as_it_was_given(project):
    project.tests('@pytest.mark.r1_load("chat", rate="8")\n@pytest.mark.r1_sla("error_rate < 1%")\ndef test_it(): ...')
    project.judge().stdout.fnmatch_lines(["*: r1_load: `rate`: *"])
    project.tests(
        '@pytest.mark.r1_load("chat", rate="8/s", sessions=2)\n@pytest.mark.r1_sla("error_rate < 1%")\ndef test_it(): ...'
    )
    project.judge().stdout.fnmatch_lines(["*: r1_load: `rate` and `sessions` exclude each other*"])


def test_clauses_without_anything_to_judge_are_an_error(project):
    project.tests('@pytest.mark.r1_sla("error_rate < 1%")\ndef test_it(): ...')
    project.judge().stdout.fnmatch_lines(["*nothing to judge: r1_sla needs r1_load, r1_recorded or --r1-run"])
