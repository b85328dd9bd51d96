import pytest

from pytest_r1perf.ids import clause_id
from pytest_r1perf.markers import Promise


@pytest.mark.parametrize(
    ("clause", "confidence", "expected"),
    [
        ("p95(ttft) < 800ms", None, "p95(ttft)<800ms"),
        (" p95( ttft )<800ms ", None, "p95(ttft)<800ms"),
        ("p99(itl){workload=chat, target=a} < 60ms during steady", None, "p99(itl){workload=chat,target=a}<60ms-during-steady"),
        ("goodput(ttft<800ms, tpot<60ms) >= 95%", None, "goodput(ttft<800ms,tpot<60ms)>=95%"),
        ("p95(ttft) < baseline +10%", None, "p95(ttft)<baseline+10%"),
        ("throughput(requests) >= baseline - 5%", None, "throughput(requests)>=baseline-5%"),
        ("p95(ttft) < 800ms", 0.99, "p95(ttft)<800ms@99%"),
        ("p95(ttft) < 800ms", 0.999, "p95(ttft)<800ms@99.9%"),
    ],
    ids=["plain", "spaces", "selector", "goodput", "baseline", "minus", "confidence", "digits"],
)  # fmt: skip
def test_ids_of_clauses(clause, confidence, expected):
    assert clause_id(Promise(clause, confidence)) == expected


def ids(project, *words):
    result = project.run("--collect-only", "-q", *words)
    return [line.partition("::")[2] for line in result.outlines if "::" in line and not line.startswith(" ")]


def test_one_item_a_clause_in_the_order_in_which_they_are_read(project):
    project.record()
    project.tests("""
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "error_rate < 5%")
@pytest.mark.r1_sla("p50(e2e) < 2s", confidence=0.99)
@pytest.mark.r1_sla("error_rate < 5%")
def test_chat(): ...
""")
    expected = ["test_chat[p95(ttft)<800ms]", "test_chat[error_rate<5%]", "test_chat[p50(e2e)<2s@99%]"]
    assert ids(project) == expected
    assert ids(project, "--r1-sla") == expected


def test_markers_of_modules_and_classes_come_first(project):
    project.record()
    project.tests("""
pytestmark = [pytest.mark.r1_recorded("runs/one"), pytest.mark.r1_sla("error_rate < 5%")]

@pytest.mark.r1_sla("p50(e2e) < 2s")
class TestIt:
    @pytest.mark.r1_sla("p95(ttft) < 800ms")
    def test_one(self): ...

    @staticmethod
    def test_two(): ...
""")
    assert ids(project, "--r1-sla") == [
        "TestIt::test_one[error_rate<5%]", "TestIt::test_one[p50(e2e)<2s]", "TestIt::test_one[p95(ttft)<800ms]",
        "TestIt::test_two[error_rate<5%]", "TestIt::test_two[p50(e2e)<2s]",
    ]  # fmt: skip
    project.judge().assert_outcomes(passed=5)


def test_parameters_multiply_the_clauses_and_a_target_need_not_be_an_argument(project):
    project.record("a", target="vllm")
    project.record("b", target="sglang", slow=40)
    project.tests("""
@pytest.mark.r1_recorded("runs")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "error_rate < 5%")
@pytest.mark.parametrize("r1_target", ["vllm", "sglang"])
def test_chat(): ...
""")
    assert project.verdicts() == {
        "test_chat[p95(ttft)<800ms-vllm]": "pass",
        "test_chat[p95(ttft)<800ms-sglang]": "fail",
        "test_chat[error_rate<5%-vllm]": "pass",
        "test_chat[error_rate<5%-sglang]": "pass",
    }


def test_without_the_flag_marked_tests_skip_and_their_body_does_not_run(project):
    project.tests("""
@pytest.mark.r1_load("nowhere.toml")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "no clause at all")
def test_chat(): raise AssertionError

def test_takes_a_run(r1_run): raise AssertionError

def test_unit(): ...
""")
    result = project.run("-rs")
    result.assert_outcomes(passed=1, skipped=3)
    result.stdout.fnmatch_lines(["*needs --r1-sla*"])


def test_without_the_flag_no_server_is_started_for_a_marked_test(project):
    project.file("conftest.py", """
import pytest
@pytest.fixture
def r1_target(): raise AssertionError("a server is started")
""")  # fmt: skip
    project.tests("""
@pytest.mark.r1_load("nowhere.toml")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_chat(): ...
""")
    project.run().assert_outcomes(skipped=1)


def test_unmarked_tests_use_none_of_it(project):
    project.record()
    project.file("conftest.py", """
import pytest
@pytest.fixture
def r1_target(): raise AssertionError("a server is started")
""")  # fmt: skip
    project.tests("""
def test_unit(request): assert not [name for name in request.fixturenames if "r1" in name]
""")
    project.run().assert_outcomes(passed=1)
    project.judge("--r1-run", "runs/one").assert_outcomes(passed=1)


def test_the_body_runs_before_the_verdict_and_may_fail_by_itself(project):
    project.record()
    project.tests("""
ran = []
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_body(): ran.append(1)

@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_wrong(): assert ran == [2]
""")
    result = project.judge()
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["E * assert [[]1[]] == [[]2[]]"])


def test_a_scenario_brings_its_own_clauses(project):
    project.record(clauses=("p95(ttft) < 800ms", "error_rate < 5%"))
    project.tests("""
@pytest.mark.r1_recorded("runs/one")
def test_own(): ...

@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla()
@pytest.mark.r1_sla("p50(e2e) < 2s")
def test_both(): ...

@pytest.mark.r1_recorded("runs/one")
def test_body(r1_run): assert r1_run.document.counts["ok"] == 200
""")
    assert ids(project, "--r1-sla") == [
        "test_own[p95(ttft)<800ms]", "test_own[error_rate<5%]",
        "test_both[p95(ttft)<800ms]", "test_both[error_rate<5%]", "test_both[p50(e2e)<2s]",
        "test_body",
    ]  # fmt: skip
    project.judge().assert_outcomes(passed=6)


def test_a_scenario_s_own_confidence_holds_for_its_own_clauses(project):
    project.record(n=75, clauses=("p95(ttft) < 800ms",), confidence=0.99)
    project.tests("""
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla()
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_it(): ...
""")
    assert project.verdicts() == {"test_it[p95(ttft)<800ms@99%]": "inconclusive", "test_it[p95(ttft)<800ms]": "pass"}


def test_files_bring_clauses_too(project):
    project.record(slow=40)
    project.file("marker.toml", 'clauses = ["error_rate < 5%"]')
    project.file("slo.toml", 'confidence = 0.9\nclauses = ["p50(ttft) < 800ms"]')
    project.tests("""
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms", file="marker.toml")
def test_it(): ...
""")
    assert project.verdicts("--r1-sla-file", "slo.toml") == {
        "test_it[p95(ttft)<800ms]": "fail",
        "test_it[error_rate<5%]": "pass",
        "test_it[p50(ttft)<800ms@90%]": "pass",
    }


LATE = (
    "{} would not be judged: it has to stand on a test function, a class or a module; not in pytest.param, not added by a hook or a "
    "fixture, not on unittest's methods"
)
"""What is said of a marker that came after the clauses of its test were made."""

HOOK = """
import pytest
def pytest_collection_modifyitems(items):
    for item in items:
        item.add_marker(pytest.mark.{})
"""
ON_ONE = '@pytest.mark.r1_recorded("runs/one")\n@pytest.mark.r1_sla("error_rate < 5%")\n'


@pytest.mark.parametrize(
    ("tests", "hook", "test", "says"),
    [
        (
            ON_ONE + '@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.r1_sla("p95(ttft) < 1ms"))])\n'
            "def test_it(n): ...",
            None, "test_it[error_rate<5%-2]", LATE.format("r1_sla"),
        ),
        (
            '@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.r1_recorded("runs/one"))])\ndef test_it(n): ...',
            None, "test_it[2]", LATE.format("r1_recorded"),
        ),
        (
            ON_ONE + '@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.r1_load("chat", rate="1/s"))])\n'
            "def test_it(n): ...",
            None, "test_it[error_rate<5%-2]", "r1_load and r1_recorded exclude each other*",
        ),
        (
            ON_ONE + '@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.r1_sla("x", confident=1))])\ndef test_it(n): ...',
            None, "test_it[error_rate<5%-2]", "r1_sla: unknown argument `confident`; did you mean `confidence`?",
        ),
        (
            '@pytest.fixture(params=[pytest.param(2, marks=pytest.mark.r1_sla("p95(ttft) < 1ms"))])\ndef n(request): ...\n'
            + ON_ONE + "def test_it(n): ...",
            None, "test_it[2-error_rate<5%]", LATE.format("r1_sla"),
        ),
        ("def test_it(): ...", HOOK.format('r1_sla("p95(ttft) < 800ms")'), "test_it", LATE.format("r1_sla")),
        (ON_ONE + "def test_it(): ...", HOOK.format('r1_sla("p95(ttft) < 800ms")'), "test_it[error_rate<5%]", LATE.format("r1_sla")),
        ("def test_it(r1_run): ...", HOOK.format('r1_load("chat", rate="1/s")'), "test_it", LATE.format("r1_load")),
        (
            "import unittest\n" + ON_ONE + "class TestIt(unittest.TestCase):\n    def test_it(self): ...",
            None, "TestIt::test_it", LATE.format("r1_recorded"),
        ),
    ],
    ids=["param", "only-param", "load-in-param", "wrong-in-param", "fixture-param", "hook", "hook-beside-others", "load-by-hook",
         "unittest"],
)  # fmt: skip
def test_a_marker_that_comes_too_late_is_an_error_of_collection(project, tests, hook, test, says):
    project.record()
    if hook:
        project.file("conftest.py", hook)
    project.tests(tests)
    result = project.judge()
    result.assert_outcomes(errors=1)
    name = test.replace("[", "[[]")
    result.stdout.fnmatch_lines(["*ERROR collecting test_it.py*", f"test_it.py::{name}: {says}"])


@pytest.mark.parametrize("words", [(), ("--r1-sla", "--collect-only")], ids=["unit-run", "plan"])
def test_so_it_is_in_a_unit_run_and_in_a_plan(project, words):
    project.tests('@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.r1_sla("x"))])\ndef test_it(n): ...')
    result = project.run(*words)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"test_it.py::test_it[[]2]: {LATE.format('r1_sla')}"])


def test_a_marker_that_a_fixture_adds_fails_its_test(project):
    project.record()
    project.tests(
        '@pytest.fixture\ndef n(request): request.node.add_marker(pytest.mark.r1_sla("p95(ttft) < 1ms"))\n'
        + ON_ONE
        + "def test_it(n): ..."
    )
    result = project.judge()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"test_it.py::test_it[[]error_rate<5%]: {LATE.format('r1_sla')}"])


def test_a_marker_that_says_what_the_test_says_already_is_no_error(project):
    project.record()
    project.tests(
        ON_ONE
        + '@pytest.mark.parametrize("n", [pytest.param(2, marks=pytest.mark.r1_recorded("runs/one"))])\ndef test_it(n): ...'
    )
    project.judge().assert_outcomes(passed=1)


def test_only_what_is_selected_is_held_to_it(project):
    project.record()
    project.tests(
        ON_ONE + '@pytest.mark.parametrize("n", [1, pytest.param(2, marks=pytest.mark.r1_sla("x"))])\ndef test_it(n): ...'
    )
    project.judge("test_it.py::test_it[error_rate<5%-1]").assert_outcomes(passed=1)
