"""Read OpenSLO v1 documents as clauses; pure: documents come as YAML or JSON decodes them, clauses go as text.

An SLO's indicator names what r1perf measures in its `metricSource` (`type: r1perf`):

    thresholdMetric  query: ttft                     op, value, target  ->  p95(ttft) <= 0.8s   (unit: s unless `unit` says)
    ratioMetric      good: "ttft<800ms, tpot<60ms"   total: attempts    ->  goodput(ttft<800ms, tpot<60ms) >= 95%
    ratioMetric      good: ok or bad: errors         total: attempts    ->  error_rate <= 1%
    ratioMetric      good: right                     total: answers     ->  accuracy >= 70%

`workload`, `target` and `during` beside `query` select. A run is judged over its own window, so `timeWindow` is not used; budgets by time
slices and precomputed (`raw`) ratios are refused. Specification: https://github.com/OpenSLO/OpenSLO.
"""

import reprlib
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from r1perf.errors import UsageError
from r1perf.metrics import METRICS

_OPS = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_OTHER_KINDS = ("SLI", "Service", "DataSource", "AlertPolicy", "AlertCondition", "AlertNotificationTarget")
_SPEC_KEYS = ("query", "unit", "workload", "target", "during")

_MOST_DIGITS = 30
"""Before or after the point of a number: `1e999999999` is one that would take a gigabyte to write out."""


class _Value:
    """One value of a document, and where it stands; what is not of the kind that is asked for is an error that says where.

    A key without a value (`spec:`) counts as absent.
    """

    def __init__(self, found: Any, document: str, path: str = "") -> None:
        self.found, self._document, self._path = found, document, path

    def at(self, key: str) -> "_Value":
        """Return what stands at a key, whose value is None where it is absent."""
        return _Value(self.mapping().get(key), self._document, f"{self._path}.{key}" if self._path else key)

    def mapping(self) -> Mapping[Any, Any]:
        """Return the keys and values here; none where there is nothing."""
        if self.found is None:
            return {}
        if not isinstance(self.found, Mapping):
            raise self.wrong("must be a mapping")
        return self.found

    def items(self) -> list["_Value"]:
        """Return the parts of a list that is not empty."""
        if self.found is None or self.found == []:
            raise self.error("is empty")
        if not isinstance(self.found, list):
            raise self.wrong("must be a list")
        return [_Value(one, self._document, f"{self._path}[{place}]") for place, one in enumerate(self.found)]

    def text(self) -> str:
        """Return a text."""
        if not isinstance(self.found, str):
            raise self.wrong("must be a text")
        return self.found

    def number(self) -> Decimal:
        """Return a number exactly as written, as a text too: YAML 1.1 reads `1e-3` as one."""
        if isinstance(self.found, bool) or not isinstance(self.found, int | float | str):
            raise self.wrong("must be a number")
        try:
            number = Decimal(str(self.found))
        except (InvalidOperation, ValueError) as error:  # ValueError: a whole number of thousands of digits
            raise self.wrong("must be a number") from error
        if not number.is_finite() or abs(number.adjusted()) > _MOST_DIGITS:
            raise self.wrong("must be a number that can be judged")
        return number

    def wrong(self, wanted: str) -> UsageError:
        """Say what should have stood here, and what does."""
        return self.error(f"{wanted}, not {'empty' if self.found is None else shown(self.found)}")

    def error(self, says: str) -> UsageError:
        """Say what is wrong here."""
        return UsageError(f"{self._document}: {f'`{self._path}` ' if self._path else ''}{says}")


def clauses(documents: Iterable[Any]) -> list[str]:
    """Return one clause an objective of every SLO; raises UsageError that names the SLO, the key and what is allowed."""
    parts = list(documents)
    for part in parts:
        kind = part.get("kind") if isinstance(part, Mapping) else part
        if not isinstance(part, Mapping) or kind not in ("SLO", *_OTHER_KINDS):
            raise UsageError(f"`kind: {shown(kind)}` is no OpenSLO document; allowed: SLO, {', '.join(_OTHER_KINDS)}")
        if part.get("apiVersion") != "openslo/v1":
            raise UsageError(f"OpenSLO `apiVersion: {shown(part.get('apiVersion'))}` is not supported; allowed: openslo/v1")
    indicators = {_name(part): _Value(part, f"SLI `{shown(_name(part))}`").at("spec") for part in parts if part["kind"] == "SLI"}
    slos = [_Value(part, f"SLO `{shown(_name(part))}`") for part in parts if part["kind"] == "SLO"]
    if not slos:
        raise UsageError("there is no SLO in these OpenSLO documents")
    return [clause for slo in slos for clause in _slo(slo, indicators)]


def shown(value: Any) -> str:
    """Write a value of a document for people: short, however long or deep it is."""
    if isinstance(value, str) and value.isprintable() and len(value) <= 60:
        return value
    try:
        return reprlib.repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return "what is too long to show"


def _name(document: Mapping[str, Any]) -> str:
    return _Value(document, str(document["kind"])).at("metadata").at("name").text()


def _slo(slo: _Value, indicators: Mapping[str, _Value]) -> list[str]:
    spec = slo.at("spec")
    method = spec.at("budgetingMethod")
    if method.found not in (None, "Occurrences"):
        raise method.error(f"is {shown(method.found)}, which cannot be judged in one run; allowed: Occurrences")
    indicator = _indicator(spec, indicators)
    objectives = spec.at("objectives").items()
    if "thresholdMetric" in indicator.mapping():
        source = _source(indicator.at("thresholdMetric"))
        return [_threshold(source, objective) for objective in objectives]
    if "ratioMetric" in indicator.mapping():
        return [_ratio(indicator.at("ratioMetric"), objective) for objective in objectives]
    raise indicator.error("needs `thresholdMetric` or `ratioMetric`")


def _indicator(spec: _Value, indicators: Mapping[str, _Value]) -> _Value:
    reference = spec.at("indicatorRef")
    if reference.found is None:
        return spec.at("indicator").at("spec")
    if reference.text() not in indicators:
        raise reference.error(
            f"is {shown(reference.found)}, and no SLI here; allowed: {', '.join(map(shown, indicators)) or 'none'}"
        )
    return indicators[reference.text()]


def _source(metric: _Value) -> dict[str, str]:
    source = metric.at("metricSource")
    spec = source.at("spec")
    if source.at("type").found != "r1perf" or "query" not in spec.mapping():
        raise source.error("needs `type: r1perf` and `spec.query`")
    for key in spec.mapping():
        if key not in _SPEC_KEYS:
            raise spec.error(f"has the unknown key `{shown(key)}`; allowed: {', '.join(_SPEC_KEYS)}")
    return {key: spec.at(key).text() for key in spec.mapping()}


def _target(objective: _Value) -> Decimal:
    """Return an objective's target in percent, exactly as written."""
    given = [key for key in ("target", "targetPercent") if key in objective.mapping()]
    if len(given) != 1:
        raise objective.error("needs `target` or `targetPercent`, and one of them only")
    target = objective.at(given[0])
    percent = target.number() * (100 if given[0] == "target" else 1)
    if not 0 < percent < 100:
        raise target.error(f"is {shown(target.found)}, outside of 0 to 100 %")
    return percent


def _threshold(source: Mapping[str, str], objective: _Value) -> str:
    op, value = objective.at("op"), objective.at("value")
    if op.found is None or value.found is None:
        raise objective.error(f"is on a threshold, so it needs `op` ({', '.join(_OPS)}) and `value`")
    if op.text() not in _OPS:
        raise op.error(f"is {shown(op.found)}; allowed: {', '.join(_OPS)}")
    query = source["query"]
    default = "s" if query in METRICS and METRICS[query].unit == "us" else "/s" if query == "interactivity" else ""
    return _clause(
        f"p{_plain(_target(objective))}({query})",
        source,
        f"{_OPS[op.text()]} {_plain(value.number())}{source.get('unit', default)}",
    )


def _ratio(ratio: _Value, objective: _Value) -> str:
    side = "good" if "good" in ratio.mapping() else "bad"
    if "raw" in ratio.mapping() or side not in ratio.mapping() or "total" not in ratio.mapping():
        raise ratio.error("needs `good` or `bad`, and `total`")
    source = _source(ratio.at(side))
    total = _source(ratio.at("total"))["query"]
    target, query = _target(objective), source["query"]
    wanted = "answers" if query == "right" else "attempts"
    if total != wanted:
        raise ratio.at("total").error(f"of `{shown(query)}` is `{wanted}`, not `{shown(total)}`")
    if (side, query) in (("good", "ok"), ("bad", "errors")):
        return _clause("error_rate", source, f"<= {_plain(100 - target)}%")
    if (side, query) == ("good", "right"):
        return _clause("accuracy", source, f">= {_plain(target)}%")
    if side == "good":
        return _clause(f"goodput({query})", source, f">= {_plain(target)}%")
    raise ratio.at("bad").error(f"cannot be `{shown(query)}`; allowed: errors")


def _clause(aggregate: str, source: Mapping[str, str], rest: str) -> str:
    selector = ", ".join(f"{key}={source[key]}" for key in ("workload", "target") if key in source)
    during = f" during {source['during']}" if "during" in source else ""
    return aggregate + (f"{{{selector}}}" if selector else "") + f" {rest}{during}"


def _plain(value: Decimal) -> str:
    """Write a decimal without exponent or trailing zeros."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
