import pytest

CHAT = """
name = "chat"
duration = "60s"
[target]
url = "http://127.0.0.1:9/v1"
model = "m"
name = "far"
provider = "vllm"
price = { input_per_1m = 1.0, output_per_1m = 2.0 }
[workload.chat]
dataset = { kind = "synthetic", input_tokens = 100, output_tokens = 50 }
[arrivals]
kind = "constant"
rate = "2/s"
"""


def plan(project, *words, code=0):
    result = project.judge("--collect-only", *words)
    assert result.ret == code
    lines = result.outlines
    return lines[next(n for n, line in enumerate(lines) if " SLA plan " in line) + 1 :]


def test_collect_only_prints_the_plan_and_sends_nothing(project):
    project.file("chat.toml", CHAT)
    project.tests("""
@pytest.mark.r1_load("chat.toml")
@pytest.mark.r1_sla("p95(ttft) < 800ms", "p99(ttft) < 2s", "p95(itl) < 60ms", "max(e2e) < 3s", "mean(e2e) < 3s")
def test_chat(): ...

@pytest.mark.r1_load("chat.toml")
@pytest.mark.r1_sla("error_rate < 5%", confidence=0.99)
def test_errors(): ...
""")
    lines = plan(project)
    assert lines[:4] == [
        "chat on far", "  for   test_it.py::test_chat", "  for   test_it.py::test_errors",
        "  load  1m00s of arrivals, then what is in flight; about 120 requests; about $0.024, at most $0.024",
    ]  # fmt: skip
    assert [line for line in lines if line.startswith(("  p", "  mean", "  max", "  error"))] == [
        "  p95(ttft) < 800ms  needs 59 requests if none misses, 434 if 2.5 % miss; the plan has 120 requests",
        (
            "  p99(ttft) < 2s     needs 299 requests if none misses, 2,185 if 0.5 % miss; the plan has 120 requests: too few, "
            "whatever happens"
        ),
        (
            "  p95(itl) < 60ms    needs 59 requests and 59 intervals of 1 s with gaps if none misses, 434 if 2.5 % miss; the plan has "
            "120 requests and 60 intervals"
        ),
        "  max(e2e) < 3s      speaks of this run only; the plan has 120 requests",
        "  mean(e2e) < 3s     needs a window of 15 times the 3.5 s that a request is expected to stay; the plan has 60 s",
        "  error_rate < 5%    needs 90 requests if none misses, 656 if 2.5 % miss; the plan has 120 requests",
    ]
    assert not (project.path / "runs").exists()


def test_a_plan_is_made_for_each_target_and_knows_recorded_runs(project):
    project.record()
    project.file("chat.toml", CHAT)
    project.file(
        "targets.toml", '[a]\nurl = "http://127.0.0.1:9/a"\n[b]\nurl = "http://127.0.0.1:9/b"\nprice = { output_per_1m = 20.0 }'
    )
    project.tests("""
@pytest.mark.r1_load("chat.toml", repeat=3)
@pytest.mark.r1_sla("p95(ttft) < 800ms")
@pytest.mark.parametrize("r1_target", ["a", "b"])
def test_chat(): ...

@pytest.mark.r1_recorded("runs/one")
@pytest.mark.r1_sla("p95(ttft) < 800ms")
def test_old(): ...
""")
    lines = plan(project, "-o", "r1_targets=targets.toml")
    assert "  p95(ttft) < 800ms" in lines  # a recorded run needs nothing
    heads = [line for line in lines if line and not line.startswith((" ", "=", "*"))]
    assert [head.partition(": ")[0] for head in heads] == ["chat on a", "chat on b", "recorded, no load is sent"]
    assert sum("3 runs, each 1m00s of arrivals" in line for line in lines) == 2
    assert any("about $0.13" in line for line in lines)


def test_what_a_budget_would_refuse_is_said_in_the_plan(project):
    project.file("chat.toml", CHAT.replace("price", "# price"))
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...')
    assert plan(project, "--r1-max-cost", "5", code=4)[0] == (
        "ERROR: chat: --r1-max-cost: `stop.cost`: cannot be kept without `target.price.input_per_1m` and `target.price.output_per_1m`"
    )


def test_a_load_that_only_a_body_asks_for_is_in_the_plan(project):
    project.file("chat.toml", CHAT)
    project.tests('@pytest.mark.r1_load("chat.toml")\ndef test_body(r1_run): ...')
    assert plan(project)[:3] == [
        "chat on far", "  for   test_it.py::test_body",
        "  load  1m00s of arrivals, then what is in flight; about 120 requests; about $0.024, at most $0.024",
    ]  # fmt: skip


def test_a_key_that_is_missing_here_is_a_warning(project, monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    project.file("chat.toml", CHAT.replace('model = "m"', 'model = "m"\napi_key_env = "NO_SUCH_KEY"'))
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...')
    (said,) = [line for line in plan(project) if "NO_SUCH_KEY" in line]
    assert said.startswith("  warning: a load cannot be sent from here: the environment variable NO_SUCH_KEY is not set")


@pytest.mark.parametrize(
    ("clause", "says"),
    [
        ("p95(ttft){target=near} < 1s", "ERROR: chat: unknown target `near`; this run's target is `far`"),
        ("p95(e2e) < 3h", "ERROR: chat: `3h` cannot be judged: the client gives up after"),
        ("accuracy > 70%", "ERROR: chat: accuracy needs a workload whose dataset has answers and is graded"),
    ],
    ids=["target", "timeout", "accuracy"],
)
def test_a_clause_that_a_run_would_refuse_is_refused_by_the_plan(project, clause, says):
    project.file("chat.toml", CHAT)
    project.tests(f'@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("{clause}")\ndef test_chat(): ...')
    assert plan(project, code=4)[0].startswith(says)


@pytest.mark.parametrize(
    ("mark", "words", "says"),
    [
        (
            'r1_load("chat.toml")',
            ("--r1-target", "nope"),
            "ERROR: chat: r1_target: unknown target `nope`; there is no r1_targets file",
        ),
        ('r1_recorded("runs")', ("--r1-target", "nope"), "ERROR: r1_recorded: no run of the target nope; there: vllm"),
    ],
    ids=["load", "recorded"],
)
def test_a_plan_that_cannot_be_carried_out_is_a_wrong_command(project, mark, words, says):
    project.record()
    project.file("chat.toml", CHAT)
    project.tests(f'@pytest.mark.{mark}\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_it(): ...')
    lines = plan(project, *words, code=4)
    assert lines[0].startswith(says)
    assert lines[1] == "  for   test_it.py::test_it"


def test_what_is_not_judged_does_not_count_for_a_clause(project):
    project.file("chat.toml", CHAT)
    project.tests(
        '@pytest.mark.r1_load("chat.toml", warmup="30s")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...'
    )
    lines = plan(project)
    assert lines[2].startswith("  load  1m30s of arrivals, then what is in flight; about 180 requests")
    assert lines[3].endswith("; the plan has 120 requests")


def test_budgets_are_in_the_plan(project):
    project.file("chat.toml", CHAT)
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...')
    assert plan(project, "--r1-max-requests", "100", "--r1-max-cost", "5")[2] == (
        "  load  1m00s of arrivals, then what is in flight; about 120 requests; about $0.024, at most $0.024; stopped after 100 requests, "
        "before it ends (--r1-max-requests); stopped before it costs more than $5.00 (--r1-max-cost)"
    )
    assert "stopped" not in "".join(plan(project, "--r1-max-requests", "120")[2:4])
    cheap = plan(project, "--r1-max-cost", "0.0005", "--r1-set", "target.price={input_per_1m = 0.01, output_per_1m = 0.02}")[2]
    assert cheap.endswith("; about $0.00024, at most $0.00024; stopped before it costs more than $0.0005 (--r1-max-cost)")


@pytest.mark.parametrize(
    ("most", "says"),
    [
        (40, "the plan has 40 requests: too few, whatever happens"),
        (100, "the plan has 100 requests: stopped before its end it cannot pass"),
    ],
)
def test_clauses_are_held_against_what_the_budget_lets_through(project, most, says):
    project.file("chat.toml", CHAT)
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("p95(ttft)<800ms")\ndef test_chat(): ...')
    said = f"  p95(ttft) < 800ms  needs 59 requests if none misses, 434 if 2.5 % miss; {says}"
    assert plan(project, "--r1-max-requests", str(most))[3] == said


def test_a_simulated_target_is_planned_at_its_own_speed(project):
    """As `r1perf check` does; at the speed that is assumed of others a request of 50 tokens stays 3.5 s."""
    project.file("chat.toml", CHAT.replace("http://127.0.0.1:9/v1", "simulate:tiny"))
    project.tests('@pytest.mark.r1_load("chat.toml")\n@pytest.mark.r1_sla("mean(e2e) < 3s")\ndef test_chat(): ...')
    (said,) = [line for line in plan(project) if "needs a window" in line]
    assert "15 times the 275 ms that" in said


def test_what_is_not_judged_uses_the_budget_up_first(project):
    project.file("chat.toml", CHAT)
    project.tests(
        '@pytest.mark.r1_load("chat.toml", warmup="30s")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...'
    )
    assert plan(project, "--r1-max-requests", "100")[3].endswith("; the plan has 40 requests: too few, whatever happens")


def test_collect_only_without_the_flag_plans_nothing(project):
    project.tests('@pytest.mark.r1_load("nowhere.toml")\n@pytest.mark.r1_sla("p95(ttft) < 800ms")\ndef test_chat(): ...')
    result = project.run("--collect-only")
    assert result.ret == 0
    assert "SLA plan" not in result.stdout.str()
