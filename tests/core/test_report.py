import io
import json
import re
from functools import cache

import msgspec
import pytest
from click.testing import CliRunner
from rich.console import Console
from virtual_run import MS, STAGES, Answer, S, a_run, play, traffic

from r1perf.cli.report import command as report
from r1perf.datasets.facts import Prompting
from r1perf.datasets.repeats import Repeats
from r1perf.datasets.tokens import Calibration
from r1perf.errors import ArchiveError
from r1perf.metrics import METRICS
from r1perf.report import live_block, live_line, load, print_report, render_json, window_s
from r1perf.report.terminal import LATENCIES
from r1perf.report.wording import count, duration, money, rate, share, span
from r1perf.result import Outcome
from r1perf.schedule import live_stage
from r1perf.sinks.archive import ArchiveSink, write_document
from r1perf.sla import Verdict, entries
from r1perf.snapshot import Counter
from r1perf.summary import Interval, Summary, Validity, document
from r1perf.target import Price, System


@cache
def snapshots():
    return tuple(play(traffic(), seconds=50))


def summary(*, upto=50, **changes):
    merged = Summary(a_run(**changes))
    for taken in snapshots()[:upto]:
        merged.merge(taken)
    return merged


def drawn(built, width=80):
    out = io.StringIO()
    print_report(built, Console(file=out, width=width, force_terminal=False, color_system=None))
    return out.getvalue()


def cells(text, title, row):
    """Return the cells of a row of the table with this title."""
    table = text.split(f"\n{title}", 1)[1].split("\n\n")[0]
    found = next(line for line in table.splitlines() if line.startswith(row))
    return re.split(r" {2,}", found.strip())


@pytest.mark.parametrize("width", [80, 120])
def test_the_tables_of_the_archive_are_those_of_the_run(tmp_path, width):
    live = summary()
    sink = ArchiveSink(tmp_path)
    sink.open(live.run)
    for taken in snapshots():
        sink.write(Interval.of(taken))
    built = document(live)
    sink.close(built)
    assert drawn(load(tmp_path), width) == drawn(built, width)
    assert render_json(load(tmp_path)) == (tmp_path / "run.json").read_text()


@pytest.mark.parametrize("width", [80, 120])
def test_nothing_is_cut_at_80_columns_and_no_colour_is_needed(width):
    text = drawn(document(summary()), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert "\x1b" not in text


def test_the_tables_say_what_the_summary_holds():
    live = summary()
    text = drawn(document(live))
    for workload, title in ((None, "all workloads"), ("aime", "workload aime"), ("chat", "workload chat")):
        for metric in LATENCIES:
            counts = live.counts(metric, workload)
            got = cells(text, title, METRICS[metric].title)
            if not counts.count:
                assert got[1:] == ["–"] * 6
                continue
            numbers = [*counts.percentiles((50, 90, 95, 99)), counts.most]
            assert got[1:] == [count(counts.count), *(duration(min(number, counts.most) / 1000) for number in numbers)]
    for outcome, n in live.outcomes().items():
        assert cells(text, "requests", str(outcome))[1] == count(n)
    assert cells(text, "requests", "overloaded")[3] == f"503 {live.outcomes()[Outcome.OVERLOADED]}"
    assert cells(text, "stages", "warmup")[0] == "warmup *"
    assert text.count("requests, ok, failed: scheduled in the stage; rates: of what ended in it\n* sent, not judged") == 1
    steady = live.outcomes(stage=2)
    ok = steady[Outcome.OK] + steady[Outcome.TRUNCATED]
    assert cells(text, "stages", "steady")[-4:-2] == [count(ok), count(sum(steady.values()) - ok)]
    assert cells(text, "p95 by stage", "steady")[1] == duration(live.counts("ttft", stage=2).percentile(95) / 1000)
    assert text.rstrip().endswith("valid: the generator kept up")


def test_the_drain_stands_last_in_the_table_of_stages():
    made = summary()
    made.add_stage(live_stage(made.run.stages, 1, 9.0, 20 * S))
    made.ended |= {2: 20 * S, 4: 45 * S}
    table = drawn(document(made, "finished")).split("p95 by stage")[0]
    names = ("warmup *", "ramp", "steady", "live-1", "drain *")
    lines = [line.split("  ")[0] for line in table.splitlines()]
    assert [line for line in lines if line in names] == list(names)


def test_a_percentile_is_not_shown_above_the_maximum():
    one = Summary(a_run())
    for taken in play([Answer(workload="chat", at_ns=16 * S, ttft_ns=299_499_000, chunks=1)], seconds=45):
        one.merge(taken)
    assert one.counts("ttft").percentile(50) == 299_519  # the edge of its bucket
    assert cells(drawn(document(one)), "workload chat", "TTFT") == ["TTFT", "1", *["299 ms"] * 5]
    exact = next(row for row in document(one).series if row.metric == "ttft")
    assert (exact.p50, exact.max) == (299.519, 299.499)


def test_what_was_never_measured_is_a_dash():
    failing = Summary(a_run())
    answers = [Answer(workload="chat", at_ns=n * S + 1, chunks=0, outcome=Outcome.OVERLOADED, reason="503") for n in range(6, 30)]
    for taken in play(answers, seconds=45):
        failing.merge(taken)
    text = drawn(document(failing))
    assert "all workloads" not in text  # there is no latency at all: no table of dashes
    assert cells(text, "throughput", "all") == ["all", "0.00", "–", "–", "–", "–"]
    assert cells(text, "stages", "steady")[-1] == "–"
    assert " 0 ms" not in text
    assert " 0.00 ms" not in text.replace("schedule delay: p50 0.00 ms, p99 0.00 ms, max 0.00 ms", "")


def test_a_run_before_anything_came_can_be_drawn():
    text = drawn(document(Summary(a_run()), "failed", "the disk is full"))
    assert "failed: the disk is full" in text
    assert "nan" not in text.lower()


def test_an_invalid_run_says_so_once_a_reason():
    built = document(summary())
    built = msgspec.structs.replace(built, validity=Validity(False, ["worker 0 was lost", "2 requests were never sent"]))
    assert drawn(built).endswith("INVALID: worker 0 was lost\nINVALID: 2 requests were never sent\n")


CLOSING = {
    "cost": (
        lambda: document(untold(untold=0, untold_output_tokens=0)),
        r"cost: \$0\.549 by token prices, \$2\.75 per 1M output tokens, \$0\.549 a request\n",
    ),
    "gpu-hours": (lambda: document(summary(price=Price(gpu_hour=2.0))), r"cost: \$0\.444 by GPU hours, "),
    "untold": (
        lambda: document(untold()),
        (
            r"nobody told the input tokens of 4 requests: they are not in the rates of input and total tokens\n"
            r"cost: \$0\.549 at least, \$3\.30 at most, by token prices: nobody told all tokens of 4 requests; of the others \$3\.02 per 1M output "
            r"tokens\n"
        ),
    ),
    "untold, output too": (
        lambda: document(untold(output_tokens=0, untold_output_tokens=0, input_tokens=0, untold_output_most=1_000_000)),
        r"cost: not known, \$5\.22 at most, by token prices: nobody told all tokens of 4 requests\n",
    ),
    "untold, and not bounded": (
        lambda: document(untold(untold_unbounded=1)),
        r"cost: \$0\.549 at least, with no bound, by token prices: nobody told all tokens of 4 requests; of the others \$3\.02 per 1M",
    ),
    "sources": (lambda: document(summary()), r"tokens were counted by: server \(\d+\)"),
    "delay": (lambda: document(summary()), r"schedule delay: p50 0\.\d\d ms, p99 0\.\d\d ms, max 0\.40 ms"),
    "stationarity": (lambda: document(summary()), r"stage steady: "),
    "conversations": (lambda: document(summary()), r"\n201 conversations, 18\d with all turns\n"),
    "accuracy": (
        lambda: document(graded(right=3, wrong=1, unanswered=2)),
        (
            r"accuracy of aime: 50\.0 % \[95 %: 18\.8 % to 81\.2 %\] \(right 3, wrong 1, unanswered 2\); of those answered 75\.0 % "
            r"\[95 %: 30\.1 % to 95\.4 %\]\n"
        ),
    ),
    "cut accuracy": (
        lambda: document(graded(cut=2, right=3, wrong=1)),
        r"accuracy of aime: 75\.0 % \[95 %: 30\.1 % to 95\.4 %\] \(right 3, wrong 1\)\naccuracy of aime: 2 answers more were cut by the run's end; with them it lies between 50\.0 % and 83\.3 %\n",
    ),
    "prompting": (
        lambda: document(prompted()),
        (
            r"prompts of chat: cache bust, with cache_control hints; 3 of the first 200 are repetitions, 41\.0 % of their text begins "
            r"as an earlier one did; lengths calibrated by 4 requests before the run: 1\.375 tokens a word and 9 for the template, error "
            r"up to 0\.8 %; 3\.7 % are longer than asked: the template and one word have more tokens\n"
        ),
    ),
}


def prompted():
    facts = Prompting(
        cache="bust", cache_control=True, repeats=Repeats(prompts=200, repeated=3, shared=0.41),
        calibration=Calibration(1.375, 9, 0.008, 4, 2800), lengthened=0.037,
    )  # fmt: skip
    merged = summary()
    merged.run = msgspec.structs.replace(merged.run, prompting={"chat": facts})
    return merged


def untold(**more):
    """A request of 100,000 tokens in and 100,000 out; four of 100,000 out together, and of 5 MB of prompts."""
    merged = Summary(a_run(price=Price(input_per_1m=0.55, output_per_1m=2.47)))
    numbers = {"completed": 1, "input_tokens": 100_000, "output_tokens": 200_000}
    numbers |= {"untold": 4, "untold_output_tokens": 100_000, "untold_input_most": 5_000_000} | more
    extra = [Counter(name, "aime", 2, n) for name, n in numbers.items()]
    merged.merge(msgspec.structs.replace(snapshots()[-1], counters=extra, series=[]))
    return merged


def graded(cut=0, **grades):
    merged = summary()
    extra = [Counter(f"grade.{grade}", "aime", 2, n) for grade, n in grades.items()]
    extra += [Counter("outcome.cancelled", "aime", 2, cut)] if cut else []
    merged.merge(msgspec.structs.replace(snapshots()[-1], worker="1", counters=extra, series=[]))
    return merged


@pytest.mark.parametrize(("made", "pattern"), CLOSING.values(), ids=CLOSING.keys())
def test_the_lines_below_the_tables(made, pattern):
    assert re.search(pattern, drawn(made(), 400))


def test_one_workload_has_one_table_and_one_row():
    single = Summary(a_run(workloads=("chat",)))
    for taken in play([plan for plan in traffic() if plan.workload == "chat"], seconds=50):
        single.merge(taken)
    text = drawn(document(single))
    assert "all workloads" not in text
    assert text.count("workload chat") == 1
    assert not re.search(r"^chat ", text, re.MULTILINE)


def test_a_gpu_column_only_where_gpus_are_stated():
    assert "tok/s per GPU" in drawn(document(summary()))
    assert "tok/s per GPU" not in drawn(document(summary(system=System())))


def test_json_is_run_json():
    built = document(summary())
    assert json.loads(render_json(built))["counts"]["scheduled"] == 201
    assert msgspec.json.decode(render_json(built), type=type(built)) == built


def test_events_that_went_unread_are_told():
    built = document(summary())
    assert "went unread" not in drawn(built)
    told = drawn(msgspec.structs.replace(built, counters=built.counters | {"stray_events": 3}), width=200)
    assert "3 events held no JSON and went unread: text in them is lost, and its time is in ITL" in told


def test_report_prints_all_runs_of_a_folder(tmp_path):
    built = document(summary())
    folders = [tmp_path / "side" / name for name in ("1", "2")]
    for folder in folders:
        folder.mkdir(parents=True)
        write_document(folder, msgspec.structs.replace(built, run_id=f"run-{folder.name}"))

    def reported(*words):
        result = CliRunner().invoke(report, [*map(str, words)], standalone_mode=False)
        return result.output if result.exception is None else str(result.exception)

    assert re.findall(r"run (run-\d)$", reported(folders[0].parent), re.MULTILINE) == ["run-1", "run-2"]
    assert [each["run_id"] for each in json.loads(reported(folders[0].parent, "--json"))] == ["run-1", "run-2"]
    assert json.loads(reported(folders[1], "--json"))["run_id"] == "run-2"
    assert reported(tmp_path) == f"{tmp_path}: is no run archive, and no folder of some; {folders[0].parent} is one"


def test_report_prints_what_it_can_read_of_a_folder_and_notes_the_rest(tmp_path):
    for name in ("a", "c", "many/1", "many/2"):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        write_document(folder, msgspec.structs.replace(document(summary()), run_id=f"run-{name}"))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "run.json").write_text("{")
    runner = CliRunner()
    ran = runner.invoke(report, [str(tmp_path)], standalone_mode=False)
    assert re.findall(r"run (run-\w)$", ran.stdout, re.MULTILINE) == ["run-a", "run-c"]
    broken, passed = ran.stderr.splitlines()
    assert (ran.return_value, broken[: len("note: ")]) == (2, "note: ")
    assert str(tmp_path / "b" / "run.json") in broken
    assert passed == f"note: {tmp_path / 'many'} was passed over: it is a folder of 2 runs"
    as_json = runner.invoke(report, [str(tmp_path), "--json"], standalone_mode=False)
    assert ([each["run_id"] for each in json.loads(as_json.stdout)], as_json.return_value) == (["run-a", "run-c"], 2)
    whole = runner.invoke(report, [str(tmp_path / "many")], standalone_mode=False)
    assert (whole.return_value, whole.stderr) == (0, "")
    alone = runner.invoke(report, [str(tmp_path / "b")], standalone_mode=False)
    assert isinstance(alone.exception, ArchiveError)


# --- While it runs ---


def test_the_live_line():
    line = live_line(summary(upto=21), 40)
    assert re.fullmatch(
        r"21 s of 40 s \| steady \| scheduled \d\.\d\d/s sent \d\.\d\d/s \| in flight \d+ \| done \d+ \| "
        r"failed 3 \(overloaded 3\) \| \d+ tok/s \| TTFT p50 \d+ ms, p95 \d+ ms \| ITL p50 [\d.]+ ms, p95 [\d.]+ ms \| "
        r"CPU 30 %, schedule delay up to 0\.\d\d ms, loop lag up to 2\.00 ms",
        line,
    ), line


@pytest.mark.parametrize("width", [60, 74, 75, 80, 120])
def test_the_live_block_is_whole_from_60_columns_on(width):
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(live_block(summary(upto=21), 40))
    text = out.getvalue()
    assert "…" not in text
    assert text.startswith("mixed on staging  21 s of 40 s  stage steady"[:width].rstrip())
    assert len(re.findall(r"p50 +[\d.]+ ms, p95 +[\d.]+ ms", text)) == 2
    text = " ".join(text.split())
    for part in ("in flight", "done", "arrivals", "conversations", "TTFT", "ITL", "tok/s", "CPU 30 %", "failed: overloaded 3"):
        assert part in text


def test_what_has_ended_early_says_nothing_of_its_planned_length():
    running = summary(upto=21)
    assert window_s(running) == 40
    running.ended[2] = 20 * S  # halted in the last stage
    assert window_s(running) is None
    assert " | drain | " in live_line(running, window_s(running))


def test_before_the_first_flip_there_are_dashes():
    line = live_line(Summary(a_run()))
    assert "TTFT – | ITL – | CPU –" in line
    assert "~0.00 tok/s" in line


def test_the_present_is_shown_while_no_answer_has_ended():
    long = Summary(a_run(stages=STAGES))
    answers = [
        Answer(workload="aime", at_ns=n * S + 1, ttft_ns=200 * MS, gap_ns=500 * MS, thinking=900, chunks=10) for n in range(25)
    ]
    for taken in play(answers, seconds=30):
        long.merge(taken)
    line = live_line(long)
    assert "in flight 25 | done 0 | failed 0 | ~48.0 tok/s" in line
    assert "TTFT p50 200 ms, p95 200 ms | ITL p50 500 ms, p95 500 ms" in line
    assert "schedule delay up to 0.00 ms" in line


# --- Words ---


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (None, "–"), (0.0, "0.00 ms"), (0.421, "0.42 ms"), (9.99, "9.99 ms"), (9.996, "10.0 ms"), (99.96, "100 ms"), (812.3, "812 ms"),
        (999.4, "999 ms"), (999.6, "1.00 s"), (61_000.0, "61.0 s"), (599_000.0, "599 s"), (999_600.0, "16.7 min"), (3_600_000.0, "60.0 min"),
    ],
    ids=str,
)  # fmt: skip
def test_durations(ms, text):
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (245, "4:05"), (3723, "1:02:03")], ids=str
)
def test_spans(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 0, "–"), (0, 9, "0.0 %"), (1, 10_000, "<0.1 %"), (9_999, 10_000, ">99.9 %"), (1, 3, "33.3 %"), (7, 7, "100.0 %")],
    ids=str,
)
def test_shares(part, whole, text):
    assert share(part, whole) == text


@pytest.mark.parametrize(
    ("usd", "text"), [(None, "–"), (0.0, "$0.00"), (0.000438, "$0.000438"), (4.681, "$4.68"), (1234.5, "$1,234.50")], ids=str
)
def test_money(usd, text):
    assert money(usd) == text


@pytest.mark.parametrize(("per_s", "text"), [(None, "–"), (0.25, "0.25"), (12.34, "12.3"), (2883.4, "2,883")], ids=str)
def test_rates(per_s, text):
    assert rate(per_s) == text


def test_verdicts_are_a_section_of_their_own_at_the_end():
    """What does not pass stands last, each with its reckoning; a run without clauses has no such section."""
    fields = {"kind": "quantile", "confidence": 0.95, "dimension": "time"}
    verdicts = [
        Verdict(clause="p95(ttft) < 1s", verdict="inconclusive", says="too few", needs_requests=12, **fields),
        Verdict(clause="p95(e2e) < 9s", verdict="pass", says="3 of 900 missed", window_only=True, **fields),
    ]
    text = drawn(document(summary(), sla=entries(verdicts)))
    assert text.endswith(
        "\nSLA at 95 % confidence\n"
        "SLA PASS  p95(e2e) < 9s: 3 of 900 missed (this run's window only)\n"
        "SLA INCONCLUSIVE  p95(ttft) < 1s\n  too few\n  needs      about 12 more requests\n"
        "SLA: 1 of 2 clauses pass, 1 inconclusive\n"
    )
    assert "SLA" not in drawn(document(summary()))
