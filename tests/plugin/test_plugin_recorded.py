import json

import pytest

from pytest_r1perf.reporting import Reporter

ONE = """
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_it(): ...
"""


def change(folder, **changes):
    """Change what run.json says."""
    document = json.loads((folder / "run.json").read_text()) | changes
    (folder / "run.json").write_text(json.dumps(document))


def test_the_command_line_names_a_run_in_place_of_a_load(project):
    project.record()
    project.tests('@pytest.mark.r1_load("chat", rate="5/s", duration="2s")' + ONE)
    project.judge("--r1-run", "runs/one").assert_outcomes(passed=1)
    assert [path.name for path in project.archives] == ["one"]


def test_a_path_may_start_from_the_test_or_from_the_root(project):
    project.record()
    marker = '@pytest.mark.r1_recorded("{}")'
    (project.path / "deep").mkdir()
    project.tests(marker.format("../runs/one") + ONE, "deep/test_a.py")
    project.tests(marker.format("runs/one") + ONE, "deep/test_b.py")
    project.judge().assert_outcomes(passed=2)


def test_of_several_runs_those_of_the_test_s_target_and_scenario_count(project):
    for name, target, slow in (("chat", "vllm", 0), ("chat", "sglang", 40), ("aime", "vllm", 40)):
        project.record(f"{name}-{target}", name=name, target=target, slow=slow)
    project.file("chat.toml", 'name = "chat"\n[workload.chat]\ndataset = { kind = "chat" }\n'
                 '[arrivals]\nkind = "poisson"\nrate = "1/s"\nduration = "9s"')  # fmt: skip
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.parametrize("r1_target", ["vllm", "sglang"])' + ONE)
    assert project.verdicts("--r1-run", "runs") == {
        "test_it[p95(ttft)<800ms-vllm]": "pass",
        "test_it[p95(ttft)<800ms-sglang]": "fail",
    }


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--r1-run", "runs", "--r1-target", "trt"], "--r1-run: no run of the target trt; there: sglang, vllm"),
        (["--r1-run", "runs"], "--r1-run: the runs differ (aime on vllm, chat on sglang); name one, or choose with r1_target"),
    ],
    ids=["no-such-target", "different-ones"],
)
def test_runs_that_do_not_fit_are_an_error(project, words, says):
    project.record("a", name="aime")
    project.record("b", target="sglang")
    project.tests(ONE)
    result = project.judge(*words)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{says.replace('[', '[[]')}*"])


def test_a_run_of_another_scenario_is_an_error(project):
    project.record("a", name="aime")
    project.tests('@pytest.mark.r1_load("chat", rate="5/s", duration="2s")' + ONE)
    project.judge("--r1-run", "runs/a").stdout.fnmatch_lines(["*--r1-run: no run of the scenario chat; there: aime*"])


def test_a_target_by_url_only_chooses_since_ports_change(project):
    project.record()
    project.tests(ONE)
    project.judge("--r1-run", "runs/one", "--r1-target", "http://127.0.0.1:5/v1").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"validity": {"valid": False, "reasons": ["a", "b"]}}, "one is invalid, so it says nothing on vllm: a; b"),
        ({"status": "interrupted", "reason": "by Ctrl-C or SIGTERM"}, "one did not come to its end: by Ctrl-C or SIGTERM"),
        ({"status": "failed", "reason": "disk full"}, "one did not come to its end: disk full"),
    ],
    ids=["invalid", "interrupted", "failed"],
)
def test_a_run_that_says_nothing_is_an_error_and_never_a_verdict(project, changes, says):
    change(project.record(slow=40), **changes)
    project.tests('@pytest.mark.r1_recorded("runs/one")' + ONE)
    result = project.judge("--r1-json", "out.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"*{says}*", f"ERROR p95(ttft) < 800ms  [[]vllm]  {says}", "1 error"])
    (made,) = project.json("out.json")["verdicts"]
    assert (made["ruling"], made["verdict"]["says"]) == ("error", says)
    assert (made["target"], made["run_id"], made["archive"]) == ("vllm", "one-5eed", "runs/one")


def test_each_item_counts_that_is_an_error(project):
    for name in ("a", "b"):
        change(project.record(name, target=name), validity={"valid": False, "reasons": ["late"]})
    project.tests("""
@pytest.mark.r1_recorded("runs")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
@pytest.mark.r1_sla("error_rate < 5%", confidence=0.99)
@pytest.mark.parametrize("r1_target", ["a", "b", "c"])
def test_it(): ...
""")
    result = project.judge("--r1-json", "out.json")
    result.assert_outcomes(errors=6)
    assert "6 errors" in result.outlines
    made = project.json("out.json")
    assert made["counts"]["error"] == 6
    assert [(one["clause"][:3], one["verdict"]["confidence"], one["target"], one["archive"]) for one in made["verdicts"]] == [
        ("p95", 0.95, "a", "runs/a"), ("p95", 0.95, "b", "runs/b"), ("p95", 0.95, "c", None),
        ("err", 0.99, "a", "runs/a"), ("err", 0.99, "b", "runs/b"), ("err", 0.99, "c", None),
    ]  # fmt: skip


def test_what_no_run_was_paid_for_counts_for_each_target(project):
    reporter = Reporter.__new__(Reporter)
    verdict = {"confidence": 0.95}
    reporter.records = [
        {"test": f"test_it.py::test_it[{target}]", "clause": "c", "ruling": "inconclusive", "proven": False, "run_id": None, "target": None,
         "verdict": verdict}
        for target in ("a", "b", "b")
    ]  # fmt: skip
    assert [made["test"][-2] for made in reporter._unique()] == ["a", "b"]


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("p95(ttft){workload=nope} < 1s", "unknown workload `nope`; allowed: chat*"),
        ("p95(ttft){target=nope} < 1s", "unknown target `nope`*"),
        ("p95(ttft) < 1s during ramp", "unknown stage `ramp`*"),
        ("p95(ttft) < 1s during drain", "stage `drain` is not judged*"),
        ("cost_per_1m(output_tokens) < $2", "a cost needs `target.price`*"),
    ],
)
def test_a_name_that_no_recorded_run_has_is_an_error_of_collection(project, clause, says):
    project.record()
    project.tests(f'@pytest.mark.r1_recorded("runs/one")\n@pytest.mark.r1_sla("{clause}")\ndef test_it(): ...')
    result = project.judge()
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*{says}"])


def test_a_name_that_another_run_has_is_an_error_of_this_one_and_no_fail(project):
    project.record("a", target="a")
    project.record("b", target="b")
    project.tests("""
ran = []
@pytest.mark.r1_recorded("runs")
@pytest.mark.r1_sla("p95(ttft){target=a} < 800ms")
@pytest.mark.parametrize("r1_target", ["a", "b"])
def test_it(r1_target): assert r1_target == "a", "the body of the other does not run"
""")
    result = project.judge("--r1-json", "out.json")
    result.assert_outcomes(passed=1, errors=1)
    assert [(one["ruling"], one["target"], one["archive"]) for one in project.json("out.json")["verdicts"]] == [
        ("error", "b", "runs/b"), ("pass", "a", "runs/a"),
    ]  # fmt: skip


def test_an_archive_that_lacks_its_files_is_an_error_and_no_fail(project):
    folder = project.record()
    for path in folder.glob("*.0*"):
        path.unlink()
    project.tests('@pytest.mark.r1_recorded("runs/one")' + ONE)
    result = project.judge("--r1-json", "out.json")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*runs/one holds neither requests nor snapshots: nothing in it can be judged*"])
    (made,) = project.json("out.json")["verdicts"]
    assert (made["ruling"], made["target"], made["archive"]) == ("error", "vllm", "runs/one")


@pytest.fixture
def sides(project):
    """Give three runs of a baseline and three of a side that is so much slower."""

    def one(ms):
        for number in range(3):
            project.record(f"../base/b{number}", ttft_ms=100 + number, slow=0)
            project.record(f"../now/n{number}", ttft_ms=ms + number, slow=0)
        return project

    return one


@pytest.mark.parametrize(
    ("ms", "ruling"), [(100, "pass"), (150, "fail"), (110, "inconclusive")], ids=["same", "slower", "at-the-margin"]
)
def test_clauses_against_a_baseline_compare_runs(sides, ms, ruling):
    project = sides(ms)
    project.tests(
        '@pytest.mark.r1_recorded("now", baseline="base")\n@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...'
    )
    assert project.verdicts() == {"test_it[p95(ttft)<baseline+10%]": ruling}


def test_the_command_line_names_a_baseline_too(sides):
    project = sides(150)
    project.tests('@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...')
    result = project.judge("--r1-run", "now", "--r1-baseline", "base")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*rerun*--r1-run=now/n0 --r1-run=now/n1 --r1-run=now/n2 --r1-baseline=base/b0*"])


def test_one_run_that_is_named_again_and_again_is_one(project):
    project.record("now", ttft_ms=150)
    project.record("base")
    project.tests('@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...')
    words = [word for _ in range(3) for word in ("--r1-run", "runs/now", "--r1-baseline", "runs/base")]
    result = project.judge(*words, "--r1-json", "out.json")
    assert result.parseoutcomes() == {"inconclusive": 1}
    verdict = project.json("out.json")["verdicts"][0]["verdict"]
    assert "1 run against 1 run cannot be judged" in verdict["says"]
    assert verdict["notes"].count(f"{project.path / 'runs' / 'base'} counts once: it was given before") == 2
    result.stdout.no_fnmatch_line("*left out*")
    result.stdout.fnmatch_lines(["*rerun*--r1-sla --r1-run=runs/now --r1-baseline=runs/base 'test_it*"])


def test_a_run_on_both_sides_is_an_error(project):
    project.record("now")
    project.tests('@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...')
    result = project.judge("--r1-run", "runs/now", "--r1-baseline", "runs")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*runs/now: is on both sides of the comparison, and no run can be its own baseline*"])


def test_a_baseline_of_another_scenario_is_nothing_to_compare_with(sides):
    project = sides(150)
    for number in range(3):
        change(project.path / "base" / f"b{number}", name="aime")
    project.tests('@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...')
    words = ("--r1-run", "now", "--r1-baseline", "base", "--r1-json", "out.json")
    for inconclusive in ("fail", "observed"):
        assert project.judge(*words, "-o", f"r1_inconclusive={inconclusive}").parseoutcomes() == {"inconclusive": 1}
    verdict = project.json("out.json")["verdicts"][0]["verdict"]
    assert verdict["says"] == "nothing to compare: 3 runs against 0 runs of the baseline"
    assert verdict["notes"][0].endswith("it is of the scenario aime (workload chat), not of the scenario chat (workload chat)")


def test_one_run_a_side_cannot_be_judged_but_the_estimate_can_decide(project):
    project.record("now", ttft_ms=150)
    project.record("base")
    project.tests(
        '@pytest.mark.r1_recorded("runs/now", baseline="runs/base")\n@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...'
    )
    assert project.verdicts() == {"test_it[p95(ttft)<baseline+10%]": "inconclusive"}
    assert project.verdicts("-o", "r1_inconclusive=observed") == {"test_it[p95(ttft)<baseline+10%]": "fail"}


def test_of_several_runs_of_one_side_the_worst_counts(project):
    for number, slow in enumerate((0, 40, 0)):
        project.record(f"a{number}", slow=slow)
    project.tests('@pytest.mark.r1_recorded("runs")' + ONE)
    assert project.verdicts() == {"test_it[p95(ttft)<800ms]": "fail"}


def test_an_invalid_run_of_several_is_left_out_and_said(project):
    for number, slow in enumerate((0, 40)):
        project.record(f"a{number}", slow=slow)
    change(project.path / "runs" / "a1", validity={"valid": False, "reasons": ["requests were sent late"]})
    project.tests('@pytest.mark.r1_recorded("runs")' + ONE)
    result = project.judge("--r1-json", "out.json")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ok    p95(ttft) < 800ms*; 1 run left out"])
    notes = project.json("out.json")["verdicts"][0]["verdict"]["notes"]
    assert notes[-1] == "a1 was left out: it is invalid (requests were sent late)"
    change(project.path / "runs" / "a0", validity={"valid": False, "reasons": ["requests were sent late"]})
    project.judge().assert_outcomes(errors=1)


def test_of_the_baseline_s_runs_it_is_said_too(sides):
    project = sides(100)
    change(project.path / "base" / "b0", validity={"valid": False, "reasons": ["requests were sent late"]})
    change(project.path / "base" / "b1", name="aime")
    project.record("../base/b3", ttft_ms=104)
    project.tests('@pytest.mark.r1_sla("p95(ttft) < baseline +10%")\ndef test_it(): ...')
    result = project.judge("--r1-run", "now", "--r1-baseline", "base")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["ok    p95(ttft) < baseline +10%*3 runs against 2 runs); 2 runs left out"])


def test_an_archive_is_read_once_for_all_clauses(project, monkeypatch):
    project.record()
    clauses = ", ".join(f'"p{n}(ttft) < 800ms"' for n in range(50, 96))
    project.tests(f'@pytest.mark.r1_recorded("runs/one")\n@pytest.mark.r1_sla({clauses})\ndef test_it(): ...')
    from pytest_r1perf import judging

    calls = []
    real = judging.judge_archive
    monkeypatch.setattr(judging, "judge_archive", lambda *args, **kwargs: calls.append(1) or real(*args, **kwargs))
    project.judge().assert_outcomes(passed=46)
    assert len(calls) == 1
