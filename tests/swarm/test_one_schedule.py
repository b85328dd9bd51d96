"""One schedule, however many workers share it: the same arrival times, workloads and prompts, compared row by row."""

import itertools

import pytest

from r1perf.scenario import load
from r1perf.source import WorkloadSource

TALK = """
name = "talk"
seed = 5
duration = "20s"
[target]
url = "http://127.0.0.1:1/v1"
model = "m"
[workload.talk]
dataset = { kind = "chat", turns = 3 }
[workload.made]
weight = 2
dataset = { kind = "synthetic", input_tokens = 40, output_tokens = 20 }
[arrivals]
kind = "stages"
stages = [
  { name = "ramp", kind = "ramp", start = "1/s", end = "9/s", duration = "10s" },
  { name = "steady", kind = "poisson", rate = "9/s", duration = "10s" },
]
"""

CONVERSATIONS = 3


def rows(scenario, workers):
    """Return what all workers together would send, in order: when, in which stage, from which workload, and the texts."""
    items = scenario.items()
    sources = {name: WorkloadSource(workload, items[name], scenario.target) for name, workload in scenario.workload.items()}
    whole, found = scenario.plan(items), []
    for n in range(workers):
        shard = whole.shard(n, workers)
        found += [(arrival, text(sources, arrival)) for arrival in shard]
        for group in shard.sessions:
            for session, k in itertools.product(range(group.first, group.count, group.step), range(CONVERSATIONS)):
                arrival = shard.conversation(group, session, k)
                if arrival is not None:
                    found.append((arrival, text(sources, arrival)))
    return sorted(found, key=lambda row: (row[0].offset_ns, row[0].index))


def text(sources, arrival):
    source = sources[arrival.workload]
    conversation = source.items.conversation(arrival.item)
    return [source.call(conversation, turn, conversation.before).messages[-1].content for turn in conversation.turns]


@pytest.mark.parametrize("name", ["r1-mixed", "closed-32", "talk"])
def test_the_rows_are_the_same_with_1_2_and_8_workers(name, tmp_path):
    if name == "talk":
        (tmp_path / "talk.toml").write_text(TALK)
        scenario = load(tmp_path / "talk.toml")
    else:
        scenario = load(name)
    one = rows(scenario, 1)
    assert len(one) > 90
    assert len({arrival.index for arrival, _ in one}) == len(one)
    assert len({arrival.workload for arrival, _ in one}) == 2
    for workers in (2, 8):
        assert rows(scenario, workers) == one


def test_another_seed_is_another_schedule():
    assert rows(load("r1-mixed"), 1) != rows(load("r1-mixed", ["seed=43"]), 1)
