import argparse
import re

import pytest
from services import ROOT

from pytest_r1perf.options import money, positive


@pytest.mark.parametrize(("text", "usd"), [("5", 5.0), ("$2.50", 2.5), ("5USD", 5.0), ("0.05 usd", 0.05)])
def test_money(text, usd):
    assert money(text) == usd


@pytest.mark.parametrize("text", ["", "0", "-1", "5EUR", "$", "1e3", "five"])
def test_what_is_no_money(text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"is not an amount of money above 0; allowed: 5, \$5 or 5USD"):
        money(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many"])
def test_what_is_no_number_of_requests(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number of requests; allowed: a whole number above 0"):
        positive(text)


def test_a_number_of_requests():
    assert positive(" 400 ") == 400


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--r1-run", "runs/one"], "*--r1-run and --r1-baseline judge nothing without --r1-sla*"),
        (["--r1-baseline", "runs/one"], "*--r1-run and --r1-baseline judge nothing without --r1-sla*"),
        (["--r1-sla", "--r1-run", "nowhere"], "*nowhere: no recorded run there: neither it nor a folder in it holds a run.json*"),
        (["--r1-sla", "--r1-run", "influx://bucket/run"], "*influx://bucket/run: recorded runs are read from folders, since a database has no single requests*"),
        (["--r1-sla", "--r1-sla-file", "none.toml"], "*none.toml: cannot be read: No such file or directory*"),
        (["--r1-sla", "--r1-max-cost", "lots"], "*argument --r1-max-cost: `lots` is not an amount of money above 0*"),
        (["--r1-sla", "--r1-max-requests", "0"], "*argument --r1-max-requests: `0` is not a number of requests*"),
        (["--r1-sla", "-o", "r1_inconclusive=maybe"], "*r1_inconclusive: unknown value `maybe`; allowed: fail, observed, skip*"),
        (["--r1-sla", "-o", "r1_max_cost=lots"], "*r1_max_cost: `lots` is not an amount of money above 0*"),
        (["--r1-sla", "-o", "r1_targets=none.toml"], "ERROR: r1_targets: *none.toml cannot be read: No such file or directory"),
        (["--r1-sla", "-o", "r1_targets=test_it.py"], "ERROR: r1_targets: *test_it.py cannot be read: Expected '=' after a key*"),
        (["--r1-sla", "--r1-baseline", "nowhere"], "ERROR: nowhere: no recorded run there: *"),
        (["--r1-sla", "--r1-set", "duration"], "ERROR: --r1-set: `duration` is no setting; allowed: PATH=VALUE, as duration=2m"),
        (["--r1-sla", "--r1-set", " =2m"], "ERROR: --r1-set: ` =2m` is no setting; allowed: PATH=VALUE, as duration=2m"),
    ],
    ids=["run", "baseline", "no-run", "influx", "no-file", "cost", "requests", "inconclusive", "ini-cost", "targets", "bad-targets",
         "no-baseline", "set", "empty-set"],
)  # fmt: skip
def test_a_wrong_command_is_one_sentence_and_exit_code_4(project, words, says):
    project.tests("def test_unit(): ...")
    result = project.run(*words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([says])
    assert "Traceback" not in result.stderr.str()


def test_help_names_every_option_and_key(project):
    text = project.run("--help").stdout.str()
    for name in ("--r1-sla", "--r1-run", "--r1-baseline", "--r1-sla-file", "--r1-target", "--r1-set", "--r1-json", "--r1-max-cost",
                 "--r1-max-requests", "--r1-fail-fast", "r1_inconclusive", "r1_runs", "r1_targets", "r1_max_cost",
                 "r1_max_requests"):  # fmt: skip
        assert f"{name}" in text


def test_every_option_key_marker_and_fixture_is_in_the_docs(project):
    page = (ROOT / "docs" / "pytest.md").read_text()
    text = project.run("--help").stdout.str() + project.run("--markers").stdout.str() + project.run("--fixtures").stdout.str()
    names = set(re.findall(r"--r1-[a-z-]+|\br1_[a-z_]+", text)) - {"r1_run --", "r1_target --"}
    assert len(names) >= 18
    assert sorted(name for name in names if f"`{name}" not in page) == []


def test_without_a_terminal_reporter_verdicts_still_decide(project):
    project.record(slow=40)
    project.tests('@pytest.mark.r1_recorded("runs/one")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_it(): ...')
    assert project.judge("-p", "no:terminal").ret == 1


def test_markers_are_listed(project):
    text = project.run("--markers").stdout.str()
    assert "@pytest.mark.r1_load(scenario, *, rate, duration, ...): send this load once" in text
    assert "@pytest.mark.r1_recorded(*paths, baseline=None): judge a recorded run" in text
    assert "@pytest.mark.r1_sla(*clauses, confidence=None, file=None): what must hold" in text


def test_the_plugin_can_be_left_out(project):
    project.tests("def test_unit(): ...")
    result = project.run("-p", "no:r1perf")
    result.assert_outcomes(passed=1)
    assert project.run("-p", "no:r1perf", "--r1-sla").ret == pytest.ExitCode.USAGE_ERROR
