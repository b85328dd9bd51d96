"""The gate as its user has it: real runs against the simulated endpoint, their verdicts, their exit codes, their archives."""

import re
import subprocess
from pathlib import Path

import msgspec
import pytest
import runs
from runs import BUSY, Ran

from r1perf.sinks.archive import write_document
from r1perf.sla import judge_archive, read_verdicts
from r1perf.summary import read_document

GATE = """
name = "gate"
seed = 7
[target]
url = "simulate:tiny"
price = { input_per_1m = 0.55, cached_per_1m = 0.14, output_per_1m = 2.19 }
[workload.aime]
weight = 3
dataset = { kind = "aime" }
max_tokens = 24
[workload.chat]
weight = 7
dataset = { kind = "chat", turns = 1 }
max_tokens = 24
[arrivals]
kind = "constant"
rate = "40/s"
"""


SLOW = "simulate:tiny?fault=slow_head:2=1"
"""Every answer begins two seconds late: limits below that are broken, and still wide beside what a busy machine does."""


@pytest.fixture
def gate(tmp_path):
    """Give a function that runs the scenario above, again where the machine was too busy for the run to be valid."""
    scenario = tmp_path / "gate.toml"
    scenario.write_text(GATE)

    def run(*words: str, valid: bool = True) -> Ran:
        for attempt in range(3):
            ran = runs.run(tmp_path / f"runs-{attempt}", scenario, *words)
            invalid = [read_document(path.parent).validity.reasons for path in ran.runs.rglob("run.json")]
            if not valid or not any(invalid):
                return ran
            assert all(BUSY.search(reason) for reasons in invalid for reason in reasons), invalid
            assert ran.code == 3, "an invalid run neither passes nor fails"
        pytest.skip("the machine was too busy for a valid run")

    return run


def rulings(ran: Ran) -> dict[str, str]:
    return {one.clause: one.verdict for one in read_verdicts(ran.document["sla"])}


def test_met_is_exit_0_and_the_archive_says_the_same(gate):
    clauses = (
        "p95(ttft) < 2s", "error_rate < 3%", "goodput(ttft<2s, tpot<1s) >= 90%", "throughput(output_tokens) >= 10/s",
        "cost_per_1m(output_tokens) < $50", "p95(e2e){workload=chat} < 5s during constant", "mean(ttft) < 2s",
    )  # fmt: skip
    ran = gate("--duration", "5s", "--workers", "2", *(word for clause in clauses for word in ("--sla", clause)))
    assert (ran.code, rulings(ran)) == (0, dict.fromkeys(clauses, "pass")), ran.stdout
    section = ran.stdout[ran.stdout.index("SLA at 95 % confidence") :].splitlines()
    assert section[1].startswith("SLA PASS  p95(ttft) < 2s: 0 of 200 = 0 % missed, 5 % may; at most 1.5 % do")
    assert section[2] == "  note       no miss to measure dependence by: attempts count as independent"
    assert "SLA: 7 of 7 clauses pass" in section
    assert ran.document["tightest_limit_ns"] == 2 * 10**9
    assert ran.document["scenario"]["sla"]["clauses"] == list(clauses)
    live = read_verdicts(ran.document["sla"])
    write_document(ran.folder, msgspec.structs.replace(read_document(ran.folder), sla=[]))
    assert judge_archive(ran.folder) == live


def test_broken_by_a_slowed_endpoint_is_exit_1_with_the_reckoning(gate):
    ran = gate("--duration", "3s", "--url", SLOW, "--sla", "p95(ttft) < 1900ms", "--sla", "error_rate < 5%")
    assert (ran.code, rulings(ran)) == (1, {"p95(ttft) < 1900ms": "fail", "error_rate < 5%": "pass"}), ran.stdout
    assert re.search(
        r"SLA FAIL  p95\(ttft\) < 1900ms   \[target=simulated tiny\]\n"
        r"  observed   p95 = 2(\.\d+)? s\n"
        r"  missed     120 of 120 = 100 %  \(120 slow\); allowed 5 %\n"
        r"  bounds     [\d.]+ % to [\d.]+ %  \(one-sided 95 % each, exact binomial, n_eff \d+",
        ran.stdout,
    ), ran.stdout
    assert ran.stdout.splitlines()[-2] == "SLA: 1 of 2 clauses pass, 1 fail"
    judged = subprocess.run(
        [*runs.R1PERF, "judge", ran.folder, "--sla", "p95(ttft) < 50s"], capture_output=True, text=True, check=False
    )
    assert (judged.returncode, judged.stdout.splitlines()[-1]) == (0, "SLA: 1 of 1 clause passes")


def test_failures_of_the_target_miss_every_limit(gate):
    ran = gate("--duration", "3s", "--url", "simulate:tiny?fault=server_error=0.5", "--sla", "p95(ttft) < 5s")
    (found,) = read_verdicts(ran.document["sla"])
    assert (ran.code, found.verdict, [cause for cause, _ in found.causes]) == (1, "fail", ["server_error"])
    assert found.over == ran.document["counts"]["server_error"]


def test_too_few_is_exit_3_and_says_how_many_more(gate):
    ran = gate("--requests", "40", "--sla", "p95(ttft) < 2s")
    (found,) = read_verdicts(ran.document["sla"])
    assert (ran.code, found.verdict, found.needs_requests) == (3, "inconclusive", 19), ran.stdout
    assert "needs      about 19 more requests" in ran.stdout


def test_an_invalid_run_is_exit_3_and_neither_passes_nor_fails(gate):
    """One request at a time, of 40 a second that take longer: what was sent late says nothing on the target."""
    ran = gate(
        "--duration", "2s", "--url", "simulate:tiny?speed=0.3", "--set", "target.max_in_flight=1", "--set", "drain.mode=500ms",
        "--sla", "p95(ttft) < 1ms", "--sla", "p95(ttft) < 9s", valid=False,
    )  # fmt: skip
    assert (ran.code, set(rulings(ran).values())) == (3, {"error"})
    assert "requests were sent late" in ran.stdout[ran.stdout.index("SLA ERROR") :]


def test_failing_fast_ends_the_run_when_nothing_can_mend_it(gate):
    """Every answer begins after two seconds: after a sixth of the minute a p99 fails however the rest turns out."""
    clauses = {"p99(ttft) < 1s": "fail", "p95(ttft) < 9s": "inconclusive"}
    ran = gate("--duration", "60s", "--url", SLOW, "--fail-fast", *(word for clause in clauses for word in ("--sla", clause)))
    assert (ran.code, rulings(ran)) == (1, clauses)
    assert ran.document["reason"].startswith("`p99(ttft) < 1s` cannot pass any more: ")
    assert ran.document["counts"]["scheduled"] < 1200, "those of half a minute"


def test_a_hard_limit_ends_a_run_without_a_verdict(gate):
    ran = gate("--duration", "60s", "--set", "stop.output_tokens=2000", "--sla", "p95(ttft) < 9s")
    (found,) = read_verdicts(ran.document["sla"])
    assert (ran.code, found.verdict) == (3, "inconclusive")
    assert found.says.startswith("the run ended early (the limit of 2,000 output tokens could be passed")


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("p95(tfft) < 1s", r"unknown metric `tfft`; did you mean `ttft`\? \(column 5\)\n  p95\(tfft\) < 1s\n      \^$"),
        ("p95(ttft) < 11m", r"cannot be judged: the client gives up after `target.timeouts.first_chunk` = 5m"),
        ("p95(ttft){workload=caht} < 1s", r"unknown workload `caht`; did you mean `chat`\?"),
        ("accuracy{workload=chat} >= 5%", r"accuracy needs a workload whose dataset has answers"),
    ],
)
def test_a_wrong_clause_is_exit_2_before_anything_is_sent(gate, clause, says):
    ran = gate("--sla", clause, "--duration", "5s")
    assert ran.code == 2
    assert re.search(says, ran.stderr.rstrip()), ran.stderr
    assert not list(ran.runs.rglob("requests.*"))
    assert ran.stdout == ""


def test_runs_are_held_against_a_baseline(gate, tmp_path):
    clause = "mean(output_tokens) < baseline +50%"  # the lengths are planned, so that a slow machine changes nothing
    base = gate("--requests", "10", "--rate", "100/s", "--repeat", "2", "--quiet", valid=False)
    folder = Path(base.stdout.splitlines()[-1])
    ran = gate(
        "--requests", "10", "--rate", "100/s", "--repeat", "2", "--sla", clause, "--baseline", str(folder), valid=False
    )  # fmt: skip
    documents = [read_document(path.parent) for path in ran.runs.rglob("run.json")]
    mine = [one for one in documents if one.sla]
    assert len(mine) == 2
    if any(not one.validity.valid for one in documents):
        assert ran.code == 3
        pytest.skip("the machine was too busy for valid runs")
    assert "all 2 runs against the baseline" in ran.stdout
    for one in mine:
        (found,) = read_verdicts(one.sla)
        assert "2 runs against 2 runs" in found.says
    assert ran.code in (0, 3)
