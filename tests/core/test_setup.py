"""What a worker refuses between its assignment and t0."""

import pytest
from fake_traffic import S

from r1perf.errors import UsageError
from r1perf.loop.sim import SimLoop
from r1perf.messages import Assign
from r1perf.setup import set_up


def assigned(shards, **target):
    """Assign the last shard of a scenario whose target nobody can reach."""
    scenario = {
        "name": "s",
        "target": {"url": "http://nowhere.invalid/v1", "model": "m"} | target,
        "arrivals": {"kind": "constant", "rate": "1/s"},
        "duration": "2s",
        "workload": {"w": {"dataset": {"kind": "prompts", "prompts": ["x"]}}},
    }
    return Assign(run_id="r", worker="0", shard=shards - 1, shards=shards, scenario=scenario, base=".", folder=".", interval_ns=S)


def refused(assign):
    loop = SimLoop()
    with pytest.raises(UsageError) as caught:
        loop.run(set_up, loop, assign)
    return str(caught.value)


def test_more_workers_than_may_be_in_flight_are_refused():
    """Each has one place at least, so that all together would pass the limit."""
    assert refused(assigned(8, max_in_flight=4)) == (
        "`target.max_in_flight` (4) is shared out among the workers, and 8 are more than that: raise it, or run with fewer workers"
    )
