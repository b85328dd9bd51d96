"""What a master refuses, without any process: Locust's own runner of one process is all it has."""

import pytest
import unpatched  # noqa: F401
from locust.env import Environment
from locust.event import Events
from virtual_run import a_run

from r1perf.errors import UsageError
from r1perf.scenario import load
from r1perf.summary import Summary
from r1perf.swarm.master import Master
from r1perf.swarm.user import R1User
from r1perf.units import Rate


class Running:
    """A run that goes on, as the master sees it."""

    def __init__(self):
        self.summary, self.rates = Summary(a_run()), []
        self.set_rate = self.rates.append


@pytest.fixture
def master():
    environment = Environment(events=Events(), user_classes=[R1User])
    environment.create_local_runner()
    return Master(environment)


@pytest.fixture
def running(master):
    master._relay, master._view, master.scenario = Running(), object(), load("smoke")
    return master


# --- Rates ---


@pytest.mark.parametrize("rate", [Rate(0), Rate(-1), Rate(1e-7), Rate(1e9), Rate("inf"), Rate("nan")], ids=str)
def test_a_rate_at_which_nothing_would_come_never_reaches_a_worker(running, rate):
    with pytest.raises(UsageError, match=r"^the rate must be greater than 0"):
        running.set_rate(rate)
    assert running._relay.rates == []


@pytest.mark.parametrize("rate", [Rate.LEAST, 2.0, Rate.MOST])
def test_another_rate_is_taken_over(running, rate):
    running.set_rate(Rate(rate))
    assert running._relay.rates == [rate]
    running._view = None
    with pytest.raises(UsageError, match="no run goes on"):
        running.set_rate(Rate(rate))
