"""Clauses are read strictly, print back, and are refused with the column and what is allowed."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.metrics import METRICS
from r1perf.sla import ClauseError, Scope, parse
from r1perf.sla.clauses import (
    COSTS,
    LIMITED,
    THROUGHPUTS,
    Accuracy,
    Baseline,
    Bound,
    Clause,
    Cost,
    ErrorRate,
    Goodput,
    Max,
    Mean,
    MetricLimit,
    Quantile,
    Throughput,
)
from r1perf.target import Timeouts
from r1perf.units import Duration


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("p95(ttft) < 800ms", Clause(Quantile("95", "ttft"), "<", Bound("800", "ms"))),
        (
            "p99(itl){workload=chat} < 60ms during steady",
            Clause(Quantile("99", "itl"), "<", Bound("60", "ms"), (("workload", "chat"),), "steady"),
        ),
        ("error_rate < 1%", Clause(ErrorRate(), "<", Bound("1", "%"))),
        (
            "goodput(ttft<800ms, tpot<60ms) >= 95%",
            Clause(
                Goodput((MetricLimit("ttft", "<", Bound("800", "ms")), MetricLimit("tpot", "<", Bound("60", "ms")))),
                ">=",
                Bound("95", "%"),
            ),
        ),
        ("throughput(output_tokens) >= 2000/s", Clause(Throughput("output_tokens"), ">=", Bound("2000", "/s"))),
        ("p95(interactivity) >= 30/s", Clause(Quantile("95", "interactivity"), ">=", Bound("30", "/s"))),
        ("accuracy{workload=aime} >= 0.70", Clause(Accuracy(), ">=", Bound("0.70", ""), (("workload", "aime"),))),
        ("cost_per_1m(output_tokens) < $2.50", Clause(Cost("output_tokens"), "<", Bound("2.50", "$"))),
        ("p95(ttft) < baseline +10%", Clause(Quantile("95", "ttft"), "<", Baseline("+", "10"))),
        ("p99.9(e2e) <= 2m", Clause(Quantile("99.9", "e2e"), "<=", Bound("2", "m"))),
        ("mean(output_tokens) > 8k", Clause(Mean("output_tokens"), ">", Bound("8", "k"))),
        ("max(tpot) < 100ms during 2x-load", Clause(Max("tpot"), "<", Bound("100", "ms"), during="2x-load")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_reads_and_prints(text: str, clause: Clause) -> None:
    assert parse(text) == clause
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    "text",
    ["  p95( ttft )<800 ms ", "p95(ttft)<800ms", "p95\t(ttft)\n< 800ms"],
)
def test_space_means_nothing(text: str) -> None:
    assert str(parse(text)) == "p95(ttft) < 800ms"


@pytest.mark.parametrize(
    ("bound", "value"),
    [
        ("p95(ttft) < 800ms", 800e6),
        ("p95(ttft) < 0.8s", 800e6),
        ("p95(ttft) < 50us", 50e3),
        ("p95(e2e) < 2m", 120e9),
        ("p95(e2e) < 1h", 3600e9),
        ("p95(output_tokens) < 8k", 8192),
        ("p95(output_tokens) < 100 tokens", 100),
        ("throughput(requests) >= 120/min", 2.0),
        ("throughput(requests) >= 1800/h", 0.5),
        ("error_rate < 1%", 0.01),
        ("accuracy >= 0.7", 0.7),
        ("cost_per_1m(total_tokens) < $2.50", 2.5),
        ("goodput(ttft<1s) >= 5/s", 5.0),
    ],
)
def test_units(bound: str, value: float) -> None:
    clause = parse(bound)
    assert isinstance(clause.bound, Bound)
    assert clause.bound.value == value


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("", 1, "expected an aggregate (p50 .. p99.9, mean, max"),
        ("95 < 1s", 1, "expected an aggregate"),
        ("p95", 4, "expected `(`, found the end"),
        ("p95(ttft", 9, "expected `)`, found the end"),
        ("p95(ttft < 800ms", 10, "expected `)`, found `<`"),
        ("p95(ttft) 800ms", 11, "expected one of < <= > >=, found `800`"),
        ("p95(ttft) = 800ms", 11, "expected one of < <= > >=, found `=`"),
        ("p95(ttft) <", 12, "expected a number with its unit, or `baseline`, found the end"),
        ("p95(ttft) < -1s", 13, "expected a number with its unit"),
        ("p95(ttft) < 800xs", 16, "unknown unit `xs`; allowed: us ms s m h"),
        ("p95(ttft) < 800ms steady", 19, "expected `during STAGE` or the end of the clause, found `steady`"),
        ("p95(ttft) < 800ms during", 25, "expected the name of a stage, found the end"),
        ("p95(ttft) < 800ms during a b", 28, "expected the end of the clause, found `b`"),
        ("p95(ttft) < baseline", 21, "expected `+` or `-` and a percentage"),
        ("p95(ttft) < baseline 10%", 22, "expected `+` or `-` and a percentage"),
        ("p95(ttft) < baseline +10", 25, "expected `%`"),
        ("p95(ttft){} < 1s", 11, "expected a key such as workload"),
        ("p95(ttft){workload} < 1s", 19, "expected `=`"),
        ("p95(ttft){workload=} < 1s", 20, "expected the name of a workload"),
        ("p95(ttft){workload=a workload=b} < 1s", 22, "expected `,` or `}`"),
        ("p95(ttft){workload=a, workload=b} < 1s", 23, "`workload` is selected twice"),
        ("goodput() >= 95%", 9, "expected a limit such as ttft<800ms"),
        ("goodput(ttft<1s,) >= 95%", 17, "expected a limit such as ttft<800ms"),
        ("medain(ttft) < 1s", 1, "unknown aggregate `medain`; did you mean `mean`?"),
        ("cost_per_1m(output_tokens) < $", 31, "expected an amount of money"),
        # What reads well and cannot be judged.
        ("p95(tfft) < 800ms", 5, "unknown metric `tfft`; did you mean `ttft`?"),
        ("p100(ttft) < 1s", 1, "`p100` is no percentile"),
        ("p0(ttft) < 1s", 1, "`p0` is no percentile"),
        ("p95(ttft) < 800", 13, "`800` does not fit; `p95(ttft)` takes a duration"),
        ("p95(ttft) < 8%", 13, "takes a duration such as 800ms"),
        ("p95(output_tokens) < 8ms", 22, "takes a count of tokens"),
        ("p95(interactivity) >= 30ms", 23, "takes a rate such as 30/s"),
        ("mean(interactivity) >= 30/s", 6, "unknown metric `interactivity`"),
        ("throughput(tokens) >= 1/s", 12, "unknown throughput `tokens`; did you mean"),
        ("cost_per_1m(requests) < $1", 13, "unknown cost `requests`; allowed: output_tokens, input_tokens, total_tokens"),
        ("goodput(itl<60ms) >= 95%", 9, "unknown limit `itl`; did you mean"),
        ("goodput(ttft<60) >= 95%", 9, "`ttft<60` does not fit"),
        ("goodput(ttft<1s) < 95%", 18, "takes > or >="),
        ("goodput(ttft<1s) >= 100%", 21, "cannot be shown by any number of requests; leave room, as in 99.9%"),
        ("accuracy >= 1", 13, "cannot be shown by any number of requests"),
        ("accuracy >= 70", 13, "`70` is over 100%"),
        ("error_rate <= 0%", 15, "cannot be shown by any number of requests; leave room, as in 0.1%"),
        ("error_rate > 1%", 12, "takes < or <="),
        ("max(ttft) > 1s", 11, "takes < or <="),
        ("max(ttft) < baseline +10%", 13, "cannot be held against a baseline"),
        ("p95(ttft) < baseline -100%", 13, "leaves nothing"),
        ("p95(ttft) < 0ms", 13, "`p95(ttft) < 0ms` holds for nothing; allowed: a bound above 0"),
        ("mean(e2e) <= 0s", 14, "holds for nothing"),
        ("p95(connect) > 0us", 16, "holds for everything"),
        ("p95(output_tokens) < 0", 22, "holds for nothing"),
        ("p95(output_tokens) >= 0", 23, "holds for everything"),
        ("throughput(requests) >= 0/s", 25, "holds for everything"),
        ("cost_per_1m(output_tokens) < $0", 30, "holds for nothing"),
        ("p95(interactivity) >= 0/s", 23, "holds for everything"),
        ("p95(interactivity) <= 0/s", 23, "holds for nothing"),
        ("goodput(ttft<1s, e2e<0s) >= 95%", 18, "`e2e < 0s` holds for nothing"),
        ("p95(ttft){wrokload=chat} < 1s", 11, "unknown selector `wrokload`; did you mean `workload`?"),
    ],
)
def test_refuses_with_the_column(text: str, column: int, message: str) -> None:
    with pytest.raises(ClauseError) as refused:
        parse(text)
    assert (refused.value.column, message in refused.value.message) == (column, True), str(refused.value)


def test_error_points_with_a_caret() -> None:
    with pytest.raises(ClauseError) as refused:
        parse("p95(tfft) < 800ms")
    assert str(refused.value) == ("unknown metric `tfft`; did you mean `ttft`? (column 5)\n  p95(tfft) < 800ms\n      ^")


SCOPE = Scope(
    workloads=("aime", "chat"),
    stages=("steady",),
    unjudged=("warmup", "ramp"),
    target="staging",
    timeouts=Timeouts(connect=Duration.parse("5s"), first_chunk=Duration.parse("10s"), between_chunks=Duration.parse("60s")),
    priced=False,
    ungraded=("chat",),
)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("p95(ttft){workload=caht} < 1s", 20, "unknown workload `caht`; did you mean `chat`?"),
        ("p95(ttft){target=prod} < 1s", 18, "unknown target `prod`; this run's target is `staging`"),
        ("p95(ttft) < 1s during stedy", 23, "unknown stage `stedy`; did you mean `steady`?"),
        ("p95(ttft) < 1s during ramp", 23, "stage `ramp` is not judged; allowed: steady"),
        ("p95(ttft) < 11s", 13, "the client gives up after `target.timeouts.first_chunk` = 10s"),
        ("goodput(tpot<1s, ttft<11s) >= 9%", 18, "the client gives up after `target.timeouts.first_chunk` = 10s"),
        ("p95(itl) < 2m", 12, "the client gives up after `target.timeouts.between_chunks` = 1m"),
        ("p95(e2e) < 11m", 12, "the client gives up after `target.timeouts.total` = 10m"),
        ("cost_per_1m(output_tokens) < $2", 1, "a cost needs `target.price`"),
        ("accuracy{workload=chat} >= 70%", 1, "accuracy needs a workload whose dataset has answers"),
    ],
)
def test_refuses_what_the_run_does_not_have(text: str, column: int, message: str) -> None:
    parse(text)
    with pytest.raises(ClauseError) as refused:
        parse(text, SCOPE)
    assert (refused.value.column, message in refused.value.message) == (column, True), str(refused.value)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        (
            "p90(ttft) < 1s",
            5,
            "`ttft` needs a stream, and `target.stream` is false; allowed: schedule_delay, e2e, service_e2e, connect",
        ),
        ("mean(service_ttft) < 1s", 6, "`service_ttft` needs a stream"),
        ("p95(ttft) < baseline +10%", 5, "`ttft` needs a stream"),
        ("p99(itl) < 60ms", 5, "`itl` needs a stream"),
        ("p95(interactivity) >= 30/s", 5, "`interactivity` needs a stream"),
        ("max(tpot) < 60ms", 5, "`tpot` needs a stream"),
        ("goodput(e2e<5s, ttft<1s) >= 50%", 17, "`ttft` needs a stream, and `target.stream` is false; allowed: e2e"),
    ],
)
def test_refuses_what_only_a_stream_has(text: str, column: int, message: str) -> None:
    whole = Scope(workloads=("chat",), stages=("steady",), streamed=False)
    parse(text, msgspec.structs.replace(whole, streamed=True))
    with pytest.raises(ClauseError) as refused:
        parse(text, whole)
    assert (refused.value.column, message in refused.value.message) == (column, True), str(refused.value)


@pytest.mark.parametrize("text", ["p95(e2e) < 1s", "goodput(e2e<5s) >= 50%", "error_rate < 1%", "mean(output_tokens) > 5"])
def test_accepts_what_a_whole_answer_has(text: str) -> None:
    assert parse(text, Scope(workloads=("chat",), stages=("steady",), streamed=False)) == parse(text)


@pytest.mark.parametrize("text", ["p95(reasoning_tokens) <= 0", "p95(output_tokens) > 0", "cost_per_1m(output_tokens) <= $0"])
def test_a_bound_of_0_that_says_something(text: str) -> None:
    assert str(parse(text)) == text


def test_gpu_hours_are_not_parted_between_workloads() -> None:
    hourly = Scope(workloads=("aime", "chat"), stages=("steady",), by_tokens=False)
    assert parse("cost_per_1m(output_tokens) < $2", hourly).op == "<"
    with pytest.raises(ClauseError, match="GPU hours cannot be parted between workloads") as refused:
        parse("cost_per_1m(output_tokens){workload=chat} < $2", hourly)
    assert refused.value.column == 37


@pytest.mark.parametrize(
    "text",
    [
        "p95(ttft){workload=chat, target=staging} < 10s during steady",
        "p95(e2e) < 10m",
        "p5(ttft) >= 11s",
        "p95(tpot) < 90s",
        "accuracy >= 70%",
    ],
)
def test_accepts_what_the_run_has(text: str) -> None:
    assert parse(text, SCOPE) == parse(text)


digits = st.from_regex(r"[1-9][0-9]{0,4}(\.[0-9]{1,3})?", fullmatch=True)
shares = st.from_regex(r"[1-9][0-9]?(\.[0-9]{1,2})?", fullmatch=True).map(lambda number: Bound(number, "%"))
times = st.builds(Bound, digits, st.sampled_from(["us", "ms", "s", "m", "h"]))
tokens = st.builds(Bound, digits, st.sampled_from(["", "tokens", "k", "M"]))
rates = st.builds(Bound, digits, st.sampled_from(["/s", "/min", "/h"]))
money = st.builds(Bound, digits, st.just("$"))
upward, downward = st.sampled_from([">", ">="]), st.sampled_from(["<", "<="])
ops = upward | downward
percents = st.from_regex(r"[1-9][0-9]?(\.[0-9]{1,3})?", fullmatch=True)
durations = st.sampled_from([name for name, metric in METRICS.items() if metric.unit == "us"])
baselines = st.builds(Baseline, st.sampled_from(["+", "-"]), percents)
limits = st.builds(MetricLimit, st.sampled_from(LIMITED), ops, times)
plain = st.one_of(
    st.tuples(st.builds(Quantile, percents, durations) | st.builds(Mean, durations), ops, times | baselines),
    st.tuples(st.builds(Max, durations), downward, times),
    st.tuples(st.builds(Quantile, percents, st.just("output_tokens")), ops, tokens),
    st.tuples(st.builds(Throughput, st.sampled_from(THROUGHPUTS)), ops, rates | baselines),
    st.tuples(st.builds(Goodput, st.lists(limits, min_size=1, max_size=4).map(tuple)), upward, shares | rates),
    st.tuples(st.builds(Cost, st.sampled_from(COSTS)), downward, money),
    st.tuples(st.just(ErrorRate()), downward, shares),
    st.tuples(st.just(Accuracy()), upward, shares),
)
names = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}", fullmatch=True)
selectors = st.dictionaries(st.sampled_from(["workload", "target"]), names).map(lambda d: tuple(sorted(d.items())))
clauses = st.builds(lambda head, selector, during: Clause(*head, selector, during), plain, selectors, st.none() | names)


@given(clauses)
def test_canonical_text_reads_back(clause: Clause) -> None:
    assert parse(str(clause)) == clause
    assert hash(parse(str(clause))) == hash(clause)


@given(st.text(alphabet="p95(ttft){}=<>%$ .,0-9abduringbaseline+", max_size=40))
def test_any_text_is_read_or_refused_with_a_column(text: str) -> None:
    try:
        clause = parse(text)
    except ClauseError as error:
        column = error.column
    else:
        column = 1
        assert parse(str(clause)) == clause
    assert 1 <= column <= len(text) + 1
