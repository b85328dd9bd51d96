"""Read OpenSLO v1 documents as clauses; pure: documents come as dicts, clauses go as text.

An SLO's indicator names what r1perf measures in its `metricSource` (`type: r1perf`):

    thresholdMetric  query: ttft                     op, value, target  ->  p95(ttft) <= 0.8s   (unit: s unless `unit` says)
    ratioMetric      good: "ttft<800ms, tpot<60ms"   total: attempts    ->  goodput(ttft<800ms, tpot<60ms) >= 95%
    ratioMetric      good: ok or bad: errors         total: attempts    ->  error_rate <= 1%
    ratioMetric      good: right                     total: answers     ->  accuracy >= 70%

`workload`, `target` and `during` beside `query` select. A run is judged over its own window, so `timeWindow` is not used; budgets by time
slices and precomputed (`raw`) ratios are refused. Specification: https://github.com/OpenSLO/OpenSLO.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from r1perf.errors import UsageError
from r1perf.metrics import METRICS

_OPS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OTHER_KINDS = ("SLI", "Service", "DataSource", "AlertPolicy", "AlertCondition", "AlertNotificationTarget")
_SPEC_KEYS = ("query", "unit", "workload", "target", "during")

Document = Mapping[str, Any]


def clauses(documents: Iterable[Document]) -> list[str]:
    """Return one clause an objective of every SLO; raises UsageError that names the SLO, the key and what is allowed."""
    parts = list(documents)
    for part in parts:
        if not isinstance(part, Mapping) or part.get("kind") not in ("SLO", *_OTHER_KINDS):
            kind = part.get("kind") if isinstance(part, Mapping) else part
            raise UsageError(f"`kind: {kind}` is no OpenSLO document; allowed: SLO, {', '.join(_OTHER_KINDS)}")
        if part.get("apiVersion") != "openslo/v1":
            raise UsageError(f"OpenSLO `apiVersion: {part.get('apiVersion')}` is not supported; allowed: openslo/v1")
    indicators = {_name(part): part.get("spec", {}) for part in parts if part["kind"] == "SLI"}
    found = [clause for part in parts if part["kind"] == "SLO" for clause in _slo(part, indicators)]
    if not found:
        raise UsageError("there is no SLO in these OpenSLO documents")
    return found


def _name(document: Document) -> str:
    return str(document.get("metadata", {}).get("name", "?"))


def _slo(slo: Document, indicators: Mapping[str, Any]) -> list[str]:
    name, spec = f"SLO `{_name(slo)}`", slo.get("spec", {})
    method = spec.get("budgetingMethod", "Occurrences")
    if method != "Occurrences":
        raise UsageError(f"{name}: `budgetingMethod: {method}` cannot be judged in one run; allowed: Occurrences")
    reference = spec.get("indicatorRef")
    if reference is not None and reference not in indicators:
        raise UsageError(f"{name}: `indicatorRef: {reference}` names no SLI here; allowed: {', '.join(indicators) or 'none'}")
    indicator = indicators[reference] if reference is not None else spec.get("indicator", {}).get("spec", {})
    objectives = spec.get("objectives") or []
    if not objectives:
        raise UsageError(f"{name}: `objectives` is empty")
    if "thresholdMetric" in indicator:
        source = _source(name, "thresholdMetric", indicator["thresholdMetric"])
        return [_threshold(name, source, objective) for objective in objectives]
    if "ratioMetric" in indicator:
        return [_ratio(name, indicator["ratioMetric"], objective) for objective in objectives]
    raise UsageError(f"{name}: the indicator needs `thresholdMetric` or `ratioMetric`")


def _source(name: str, part: str, metric: Any) -> dict[str, str]:
    source = metric.get("metricSource", {}) if isinstance(metric, Mapping) else {}
    spec = source.get("spec", {})
    if source.get("type") != "r1perf" or "query" not in spec:
        raise UsageError(f"{name}: `{part}.metricSource` needs `type: r1perf` and `spec.query`")
    for key in spec:
        if key not in _SPEC_KEYS:
            raise UsageError(f"{name}: `{part}.metricSource.spec.{key}` is unknown; allowed: {', '.join(_SPEC_KEYS)}")
    return {key: str(value) for key, value in spec.items()}


def _target(name: str, objective: Document) -> Decimal:
    """Return an objective's target in percent, exactly as written."""
    given = [key for key in ("target", "targetPercent") if key in objective]
    if len(given) != 1:
        raise UsageError(f"{name}: an objective needs `target` or `targetPercent`, and one of them only")
    try:
        value = Decimal(str(objective[given[0]])) * (100 if given[0] == "target" else 1)
    except InvalidOperation as error:
        raise UsageError(f"{name}: `{given[0]}: {objective[given[0]]}` is no number") from error
    if not 0 < value < 100:
        raise UsageError(f"{name}: `{given[0]}: {objective[given[0]]}` is outside of 0 to 100 %")
    return value


def _threshold(name: str, source: Mapping[str, str], objective: Document) -> str:
    op, value = objective.get("op"), objective.get("value")
    if op not in _OPS or value is None:
        raise UsageError(f"{name}: an objective on a threshold needs `op` ({', '.join(_OPS)}) and `value`")
    query = source["query"]
    default = "s" if query in METRICS and METRICS[query].unit == "us" else "/s" if query == "interactivity" else ""
    return _clause(
        f"p{_plain(_target(name, objective))}({query})",
        source,
        f"{_OPS[op]} {_plain(Decimal(str(value)))}{source.get('unit', default)}",
    )


def _ratio(name: str, ratio: Any, objective: Document) -> str:
    side = "good" if "good" in ratio else "bad"
    if "raw" in ratio or side not in ratio or "total" not in ratio:
        raise UsageError(f"{name}: `ratioMetric` needs `good` or `bad`, and `total`")
    source = _source(name, f"ratioMetric.{side}", ratio[side])
    total = _source(name, "ratioMetric.total", ratio["total"])["query"]
    target, query = _target(name, objective), source["query"]
    wanted = "answers" if query == "right" else "attempts"
    if total != wanted:
        raise UsageError(f"{name}: `ratioMetric.total` of `{query}` is `{wanted}`, not `{total}`")
    if (side, query) in (("good", "ok"), ("bad", "errors")):
        return _clause("error_rate", source, f"<= {_plain(100 - target)}%")
    if (side, query) == ("good", "right"):
        return _clause("accuracy", source, f">= {_plain(target)}%")
    if side == "good":
        return _clause(f"goodput({query})", source, f">= {_plain(target)}%")
    raise UsageError(f"{name}: `ratioMetric.bad` cannot be `{query}`; allowed: errors")


def _clause(aggregate: str, source: Mapping[str, str], rest: str) -> str:
    selector = ", ".join(f"{key}={source[key]}" for key in ("workload", "target") if key in source)
    during = f" during {source['during']}" if "during" in source else ""
    return aggregate + (f"{{{selector}}}" if selector else "") + f" {rest}{during}"


def _plain(value: Decimal) -> str:
    """Write a decimal without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
