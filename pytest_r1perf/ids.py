"""Write a clause as the part of a test's id: short, without spaces, the same with and without `--r1-sla`."""

import re

from pytest_r1perf.markers import Promise

_TIGHT = re.compile(r"\s*([<>=(){},+]+|(?<=baseline)\s*-)\s*")


def clause_id(promise: Promise) -> str:
    """Return `p95(ttft)<800ms`, `p99(itl){workload=chat}<60ms-during-steady`, `p95(ttft)<800ms@99%`."""
    text = _TIGHT.sub(lambda found: found[1].strip(), promise.clause.strip())
    at = "" if promise.confidence is None else f"@{100 * promise.confidence:g}%"
    return re.sub(r"\s+", "-", text) + at
