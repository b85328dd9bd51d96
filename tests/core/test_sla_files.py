"""Clauses come from TOML and from OpenSLO documents; what is wrong is said in one sentence with the file."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.errors import UsageError
from r1perf.sla import Scope
from r1perf.sla.files import load
from r1perf.sla.openslo import clauses


def source(query: str, **more: str) -> dict[str, Any]:
    return {"metricSource": {"type": "r1perf", "spec": {"query": query, **more}}}


def slo(indicator: dict[str, Any] | None, *objectives: dict[str, Any], **spec: Any) -> dict[str, Any]:
    inline = {} if indicator is None else {"indicator": {"metadata": {"name": "i"}, "spec": indicator}}
    return {
        "apiVersion": "openslo/v1",
        "kind": "SLO",
        "metadata": {"name": "chat"},
        "spec": {"objectives": list(objectives)} | inline | spec,
    }


def threshold(query: str, **more: str) -> dict[str, Any]:
    return {"thresholdMetric": source(query, **more)}


def ratio(total: str = "attempts", **side: str) -> dict[str, Any]:
    return {"ratioMetric": {"counter": True, "total": source(total)} | {key: source(query) for key, query in side.items()}}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (slo(threshold("ttft"), {"op": "lte", "value": 0.8, "target": 0.95}), ["p95(ttft) <= 0.8s"]),
        (slo(threshold("ttft"), {"op": "lt", "value": 800, "targetPercent": 99.9}), ["p99.9(ttft) < 800s"]),
        (slo(threshold("itl", unit="ms"), {"op": "lt", "value": 60, "target": 0.999}), ["p99.9(itl) < 60ms"]),
        (slo(threshold("interactivity"), {"op": "gte", "value": 30, "target": 0.9}), ["p90(interactivity) >= 30/s"]),
        (slo(threshold("output_tokens"), {"op": "gt", "value": 100, "target": 0.5}), ["p50(output_tokens) > 100"]),
        (
            slo(threshold("ttft", workload="chat", during="steady"), {"op": "lt", "value": 1, "target": 0.9}),
            ["p90(ttft){workload=chat} < 1s during steady"],
        ),
        (
            slo(ratio(good="ttft<800ms, tpot<60ms"), {"target": 0.95}, {"target": 0.5}),
            ["goodput(ttft<800ms, tpot<60ms) >= 95%", "goodput(ttft<800ms, tpot<60ms) >= 50%"],
        ),
        (slo(ratio(bad="errors"), {"target": 0.99}), ["error_rate <= 1%"]),
        (slo(ratio(good="ok"), {"targetPercent": 99.5}), ["error_rate <= 0.5%"]),
        (slo(ratio("answers", good="right"), {"target": 0.7}), ["accuracy >= 70%"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_openslo(tmp_path: Path, document: dict[str, Any], expected: list[str]) -> None:
    assert clauses([document]) == expected
    (tmp_path / "slo.json").write_text(json.dumps(document))
    assert [str(clause) for clause in load(tmp_path / "slo.json").clauses] == expected


def test_openslo_yaml_with_a_referenced_indicator(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    (tmp_path / "slo.yaml").write_text(
        """\
apiVersion: openslo/v1
kind: Service
metadata: {name: llm}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: first-token}
spec:
  thresholdMetric:
    metricSource: {type: r1perf, spec: {query: ttft}}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat}
spec:
  service: llm
  indicatorRef: first-token
  budgetingMethod: Occurrences
  objectives:
    - {op: lte, value: 0.8, target: 0.95}
"""
    )
    assert [str(clause) for clause in load(tmp_path / "slo.yaml").clauses] == ["p95(ttft) <= 0.8s"]


GOOD = {"op": "lt", "value": 1, "target": 0.9}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"kind": "Deployment"}, "`kind: Deployment` is no OpenSLO document; allowed: SLO, SLI"),
        ("text", "`kind: text` is no OpenSLO document"),
        ({"kind": "SLO", "apiVersion": "openslo/v1alpha"}, "allowed: openslo/v1"),
        ({"kind": "Service", "apiVersion": "openslo/v1"}, "there is no SLO in these OpenSLO documents"),
        (
            slo(threshold("ttft"), GOOD, budgetingMethod="Timeslices"),
            "SLO `chat`: `spec.budgetingMethod` is Timeslices, which cannot be judged in one run; allowed: Occurrences",
        ),
        (slo(None, GOOD, indicatorRef="nowhere"), "`spec.indicatorRef` is nowhere, and no SLI here; allowed: none"),
        (slo(threshold("ttft")), "`spec.objectives` is empty"),
        (slo({}, GOOD), "`spec.indicator.spec` needs `thresholdMetric` or `ratioMetric`"),
        (
            slo(threshold("ttft", usage="x"), GOOD),
            "`spec.indicator.spec.thresholdMetric.metricSource.spec` has the unknown key `usage`; allowed: query",
        ),
        (slo({"thresholdMetric": {"metricSource": {"type": "Datadog", "spec": {"query": "x"}}}}, GOOD), "needs `type: r1perf`"),
        (
            slo(threshold("ttft"), {"op": "eq", "value": 1, "target": 0.9}),
            "`spec.objectives[0].op` is eq; allowed: lt, lte, gt, gte",
        ),
        (
            slo(threshold("ttft"), {"op": "lt", "target": 0.9}),
            "`spec.objectives[0]` is on a threshold, so it needs `op` (lt, lte",
        ),
        (slo(threshold("ttft"), {"op": "lt", "value": 1}), "needs `target` or `targetPercent`"),
        (slo(threshold("ttft"), GOOD | {"targetPercent": 90}), "one of them only"),
        (slo(threshold("ttft"), GOOD | {"target": 1.5}), "`spec.objectives[0].target` is 1.5, outside of 0 to 100 %"),
        (slo(threshold("ttft"), GOOD | {"target": "most"}), "`spec.objectives[0].target` must be a number, not most"),
        (slo(threshold("ttft"), GOOD | {"target": float("nan")}), "[0].target` must be a number that can be judged, not nan"),
        (slo(threshold("ttft"), GOOD | {"value": "fast"}), "`spec.objectives[0].value` must be a number, not fast"),
        (slo(threshold("ttft"), GOOD | {"value": True}), "`spec.objectives[0].value` must be a number, not True"),
        (slo(threshold("ttft"), GOOD | {"value": "1e999999999"}), "must be a number that can be judged, not 1e999999999"),
        (slo(threshold("ttft"), GOOD | {"op": ["lt"]}), "`spec.objectives[0].op` must be a text, not ['lt']"),
        (slo(threshold("ttft")) | {"metadata": None}, "SLO: `metadata.name` must be a text, not empty"),
        (slo(threshold("ttft")) | {"spec": None}, "SLO `chat`: `spec.objectives` is empty"),
        (slo(threshold("ttft"), GOOD) | {"spec": "fast"}, "SLO `chat`: `spec` must be a mapping, not fast"),
        (slo({"ratioMetric": None}, {"target": 0.9}), "ratioMetric` needs `good` or `bad`, and `total`"),
        (slo({"ratioMetric": {"raw": source("x")}}, {"target": 0.9}), "ratioMetric` needs `good` or `bad`, and `total`"),
        (slo(ratio(bad="slow"), {"target": 0.9}), "ratioMetric.bad` cannot be `slow`; allowed: errors"),
        (slo(ratio("answers", good="ok"), {"target": 0.9}), "ratioMetric.total` of `ok` is `attempts`, not `answers`"),
    ],
)
def test_openslo_that_cannot_be_judged(document: Any, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        clauses([document])
    assert message in str(refused.value)


SLI = {"apiVersion": "openslo/v1", "kind": "SLI", "metadata": {"name": "first"}, "spec": threshold("ttft")}

GOOD_DOCUMENTS = [
    [slo(threshold("ttft", unit="ms", workload="chat", during="main"), GOOD, GOOD | {"op": "gte"})],
    [SLI, slo(None, {"op": "lte", "value": 0.8, "targetPercent": 95}, indicatorRef="first", budgetingMethod="Occurrences")],
    [slo(ratio(good="ttft<800ms, tpot<60ms"), {"target": 0.95}), slo(ratio("answers", good="right"), {"target": 0.7})],
    [slo(ratio(bad="errors"), {"target": 0.99})],
]

ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates(), st.binary(max_size=2), st.just([]), st.just({}),
    st.just([1]), st.just({"a": 1}), st.just({1: 2}), st.just([[]]), st.just([{}]), st.just(10**5000), st.just("1e999999999"), st.just("a" * 100),
)  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Go through the path of every value in nested dicts and lists."""
    if path:
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*path, key))


@given(st.data())
def test_whatever_stands_where_in_openslo_a_wrong_document_is_a_usage_error(data: st.DataObject) -> None:
    documents = copy.deepcopy(data.draw(st.sampled_from(GOOD_DOCUMENTS)))
    for _ in range(data.draw(st.integers(1, 2))):
        *way, last = data.draw(st.sampled_from(list(places(documents))))
        holder: Any = documents
        for step in way:
            holder = holder[step]
        holder[last] = copy.deepcopy(data.draw(ANYTHING))  # the next round may change what is in it
    try:
        said = clauses(documents)
    except UsageError as refused:
        said = str(refused).splitlines()
        assert len(said) == 1
    assert all(len(line) < 400 for line in said)


@pytest.mark.parametrize("documents", GOOD_DOCUMENTS)
def test_the_documents_that_are_mutated_are_good(documents: list[Any]) -> None:
    assert clauses(documents)


def test_toml(tmp_path: Path) -> None:
    (tmp_path / "sla.toml").write_text('confidence = 0.99\nclauses = ["p95(ttft)<800ms", "error_rate < 1%"]\n')
    sla = load(tmp_path / "sla.toml")
    assert ([str(clause) for clause in sla.clauses], sla.confidence) == (["p95(ttft) < 800ms", "error_rate < 1%"], 0.99)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("sla.toml", "clauses = [", "is no valid TOML"),
        ("sla.toml", 'clause = ["p95(ttft) < 1s"]', "`clause`: unknown; did you mean `clauses`?"),
        ("sla.toml", "clauses = []", "`clauses` must be a list of clauses"),
        ("sla.toml", "clauses = [95]", "`clauses` must be a list of clauses"),
        ("sla.toml", 'confidence = 95\nclauses = ["p95(ttft) < 1s"]', "`confidence` must lie between 0.5 and 1"),
        ("sla.toml", 'clauses = ["p95(tfft) < 1s"]', "unknown metric `tfft`; did you mean `ttft`? (column 5)"),
        ("slo.json", "{", "is no valid JSON"),
        ("slo.json", '{"kind": "Pod"}', "`kind: Pod` is no OpenSLO document"),
        ("sla.toml", f"confidence = {'9' * 5000}", "is no valid TOML"),
        ("sla.toml", 'confidence = nan\nclauses = ["p95(ttft) < 1s"]', "`confidence` must lie between 0.5 and 1"),
        ("slo.json", "[" * 100_000, "is no valid JSON"),
        ("slo.json", '{"kind": ' + "9" * 5000 + "}", "is no valid JSON"),
        ("slo.yaml", "a: [", "is no valid YAML"),
        ("slo.yaml", "a: 2026-13-45", "is no valid YAML: month must be in 1..12"),
        ("slo.yaml", 'a: !!int ""', "is no valid YAML"),
        ("slo.yaml", "a: !!timestamp x", "is no valid YAML"),
        ("slo.yaml", "a: !!bool x", "is no valid YAML"),
        ("slo.yaml", "&a [*a]", "[...]]]]]]]` is no OpenSLO document"),
        ("slo.txt", "", "cannot tell what `.txt` holds; allowed: .toml, .yaml, .yml, .json"),
    ],
)
def test_file_that_is_wrong(tmp_path: Path, name: str, text: str, message: str) -> None:
    if name.endswith(".yaml"):
        pytest.importorskip("yaml")
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(UsageError) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert message in str(refused.value)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.toml: cannot be read: No such file"):
        load(tmp_path / "gone.toml")


def test_file_is_checked_against_the_run(tmp_path: Path) -> None:
    (tmp_path / "sla.toml").write_text('clauses = ["p95(ttft){workload=caht} < 1s"]')
    with pytest.raises(UsageError, match="did you mean `chat`"):
        load(tmp_path / "sla.toml", Scope(workloads=("chat",), stages=("steady",)))
