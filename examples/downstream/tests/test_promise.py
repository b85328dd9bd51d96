"""What the endpoint promises. `pytest --r1-sla` sends one load for all of it, and judges it clause by clause."""

import pytest

gate = pytest.mark.r1_load("scenarios/gate.toml")


@gate
@pytest.mark.r1_sla("p95(ttft) < 400ms", "error_rate < 5%")
def test_promise(): ...


@gate
def test_every_request_is_accounted_for(r1_run):
    counts = dict(r1_run.document.counts)
    scheduled, in_flight = counts.pop("scheduled"), counts.pop("in_flight")
    assert in_flight == 0
    assert scheduled == sum(counts.values())
