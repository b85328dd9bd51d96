import json
import xml.etree.ElementTree as ET

import pytest

THREE = """
@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "p90(ttft) < 800ms", "error_rate < 5%")
def test_chat(): ...
"""


@pytest.fixture
def three(project):
    """Give a project whose three clauses fail, are inconclusive and pass."""
    project.record(slow=21)
    project.tests(THREE)
    return project


def properties(case):
    """Return a case's properties, each of which must be there once."""
    pairs = [(each.get("name"), each.get("value")) for each in case.iter("property")]
    assert len(pairs) == len(dict(pairs))
    return dict(pairs)


def test_junit_has_a_case_a_clause_with_its_properties(three):
    fail, unsure, ok = three.junit()
    assert [case.get("name") for case in (fail, unsure, ok)] == [
        "test_chat[p95(ttft)<800ms]", "test_chat[p90(ttft)<800ms]", "test_chat[error_rate<5%]",
    ]  # fmt: skip
    found = properties(fail)
    assert {name: found.pop(name) for name in ("r1.lower", "r1.upper", "r1.n_eff")}.keys()
    assert found == {
        "r1.clause": "p95(ttft) < 800ms", "r1.verdict": "fail", "r1.proven": "True", "r1.over": "21", "r1.n": "200",
        "r1.value": "0.105", "r1.confidence": "0.95", "r1.target": "vllm", "r1.run_id": "one-5eed", "r1.archive": "runs/one",
    }  # fmt: skip
    assert [properties(case)["r1.verdict"] for case in (unsure, ok)] == ["inconclusive", "pass"]
    assert [properties(case)["r1.proven"] for case in (unsure, ok)] == ["False", "True"]


def test_junit_counts_what_fails_and_its_message_is_the_verdict(three):
    fail, unsure, ok = three.junit()
    message = fail.find("failure").get("message")
    assert message.startswith("SLA FAIL p95(ttft) < 800ms: 21 of 200 = 10.5 % missed, 5 % may; at least ")
    assert "\n" not in message
    assert "rerun      pytest --r1-sla --r1-run=runs/one" in fail.find("failure").text
    assert unsure.find("failure").get("message").startswith("SLA INCONCLUSIVE p90(ttft) < 800ms: ")
    assert list(ok) == [ok.find("properties")]
    suite = next(ET.parse(three.path / "junit.xml").getroot().iter("testsuite"))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("3", "2", "0", "0")


@pytest.mark.parametrize("family", ["xunit1", "xunit2", "legacy"])
def test_every_family_of_junit_takes_the_properties_without_a_warning(three, family):
    for case in three.junit("-o", f"junit_family={family}"):
        assert "r1.clause" in properties(case)


def test_an_inconclusive_verdict_that_skips_is_a_skipped_case(three):
    cases = three.junit("-o", "r1_inconclusive=skip")
    assert [[child.tag for child in case if child.tag != "properties"] for case in cases] == [["failure"], ["skipped"], []]


def test_an_invalid_run_is_an_error_in_junit(project):
    folder = project.record()
    document = project.json("runs/one/run.json")
    document["validity"] = {"valid": False, "reasons": ["5 requests were sent late"]}
    (folder / "run.json").write_text(json.dumps(document))
    project.tests(THREE)
    for case in project.junit():
        assert "one is invalid, so it says nothing on vllm: 5 requests were sent late" in case.find("error").get("message")
        found = properties(case)
        assert {name: found[f"r1.{name}"] for name in ("verdict", "proven", "target", "run_id", "archive")} == {
            "verdict": "error", "proven": "False", "target": "vllm", "run_id": "one-5eed", "archive": "runs/one",
        }  # fmt: skip


def test_json_has_every_verdict_as_run_json_has_it(three):
    three.judge("--r1-json", "deep/er/out.json")
    written = three.json("deep/er/out.json")
    assert written.keys() == {"schema", "r1perf", "counts", "verdicts"}
    assert (written["schema"], written["counts"]) == (1, {"error": 0, "fail": 1, "inconclusive": 1, "pass": 1})
    assert [(one["ruling"], one["proven"]) for one in written["verdicts"]] == [
        ("fail", True),
        ("inconclusive", False),
        ("pass", True),
    ]
    first = written["verdicts"][0]
    assert first.keys() == {"test", "clause", "ruling", "proven", "target", "run_id", "archive", "text", "verdict"}
    assert first["test"] == "test_it.py::test_chat[p95(ttft)<800ms]"
    assert first["verdict"]["causes"] == [["slow", 21]]
    assert (first["verdict"]["n"], first["verdict"]["over"], first["verdict"]["allowed"]) == (200, 21, pytest.approx(0.05))


def test_json_is_written_where_nothing_was_judged(project):
    project.tests("def test_unit(): ...")
    project.judge("--r1-json", "out.json")
    assert project.json("out.json")["verdicts"] == []


def test_a_file_that_cannot_be_written_is_said_and_hides_no_verdict(three):
    three.file("taken", "a file")
    result = three.judge("--r1-json", "taken/out.json")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["ERROR: --r1-json: *taken/out.json cannot be written: *", "FAIL  p95(ttft) < 800ms*"])


def test_github_gets_a_table_with_what_is_not_a_pass_first(three, monkeypatch):
    summary = three.file("summary.md", "# before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    three.judge()
    lines = summary.read_text().splitlines()
    assert lines[:5] == [
        "# before", "### SLA verdicts", "", "| verdict | clause | target | what was seen | run |", "|---|---|---|---|---|",
    ]  # fmt: skip
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[5:8]]
    assert [(row[0], row[1], row[2], row[4]) for row in rows] == [
        ("❌ fail", "`p95(ttft) < 800ms`", "vllm", "`runs/one`"),
        ("❔ inconclusive", "`p90(ttft) < 800ms`", "vllm", "`runs/one`"),
        ("✅ pass", "`error_rate < 5%`", "vllm", "`runs/one`"),
    ]
    assert "<details><summary><code>p95(ttft) &lt; 800ms</code></summary>" in lines
    assert sum(line.startswith("<details>") for line in lines) == 2


def test_github_gets_nothing_without_verdicts(project, monkeypatch):
    summary = project.file("summary.md", "")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    project.tests("def test_unit(): ...")
    project.judge()
    project.run()
    assert summary.read_text() == ""
