"""Hard limits: what is reserved is the most that a request can cost, and all workers and workloads together never pass the whole."""

import random

import pytest
from fake_traffic import MS, T0, FakeClient, S, Talks
from hypothesis import given, settings
from hypothesis import strategies as st

from r1perf.arrivals import Poisson
from r1perf.budget import TEMPLATE_TOKENS, Budget, Limits, usd
from r1perf.client import Reply
from r1perf.datasets.prompts import Prompts
from r1perf.loop.sim import SimLoop
from r1perf.recorder import Recorder
from r1perf.result import Outcome, Result, Usage
from r1perf.schedule import Share, plan
from r1perf.source import WorkloadSource
from r1perf.target import Call, Message, Price, Target
from r1perf.traffic import Traffic
from r1perf.units import Duration, Rate, Tokens
from r1perf.workload import Workload

PRICE = Price(input_per_1m=1e6, cached_per_1m=5e5, output_per_1m=2e6)  # $1, $0.50 and $2 a token
TARGET = Target(url="http://x/v1", model="m")


class Spender(FakeClient):
    """Answers after some time with as many tokens as it likes, up to the bound, and sums what it was paid for."""

    def __init__(self, loop, seed):
        super().__init__(loop)
        self.random, self.tokens, self.cost = random.Random(seed), 0, 0.0

    def send(self, ticket, call, stream):
        self.service_ms = self.random.choice((5, 80, 700))
        reply = super().send(ticket, call, stream)
        given = self.random.randint(1, len(call.messages[-1].content) + 2 * TEMPLATE_TOKENS)
        cached, made = self.random.randint(0, given), self.random.randint(1, int(call.max_tokens))
        self.tokens += made
        self.cost += PRICE.cost(given, cached, made)
        told = self.random.random() < 0.8  # some servers break off, and bill all the same
        fields = {name: getattr(reply.result, name) for name in Result.__struct_fields__}
        fields |= {"usage": Usage(given, made, None, cached) if told else Usage(), "token_source": "server" if told else None}
        fields |= {"outcome": Outcome.OK if told else Outcome.STREAM_BROKEN}
        return Reply(Result(**fields))


@settings(max_examples=40)
@given(
    shards=st.sampled_from([1, 2, 4]),
    seed=st.integers(0, 1000),
    limits=st.builds(
        Limits,
        cost=st.none() | st.integers(1, 20_000).map(float),
        output_tokens=st.none() | st.integers(1, 5_000),
        requests=st.none() | st.integers(1, 120),
    ),
)
def test_limits_hold_over_workers_and_the_mix(shards, seed, limits):
    """Every shard goes on to its own share, as if no other told it to stop: the worst case."""
    mix = {"short": 8, "long": 90}
    scheme = plan({name: Share(1.0, None, 1.0) for name in mix}, Poisson(rate=Rate(20)), seed=seed, duration=Duration.seconds(6))
    tokens, cost, requests = 0, 0.0, 0
    for i in range(shards):
        loop = SimLoop(start_ns=T0)
        client, shard = Spender(loop, seed * 7 + i), scheme.shard(i, shards)
        sources = {
            name: WorkloadSource(Workload(dataset=Prompts(prompts=("x",)), max_tokens=Tokens(most)), Talks(), TARGET)
            for name, most in mix.items()
        }

        def main(loop=loop, shard=shard, sources=sources, client=client):
            traffic = Traffic(
                loop, shard, T0, sources, client, Recorder("0", shard.stages, T0, S), seed=1, max_in_flight=50,
                budget=Budget(limits.share(shards), PRICE), on_result=lambda result: None, on_limit=lambda sentence: None,
            )  # fmt: skip
            traffic.run()
            assert traffic.drained()

        loop.run(main)
        tokens, cost, requests = tokens + client.tokens, cost + client.cost, requests + len(client.sent)
    assert limits.output_tokens is None or tokens <= limits.output_tokens
    assert limits.cost is None or cost <= limits.cost * (1 + 1e-12)
    assert limits.requests is None or requests <= limits.requests
    assert limits != Limits() or requests == len(scheme)


def call(**more):
    return Call(**({"messages": (Message("user", "abc"),), "model": "m", "max_tokens": Tokens(10)} | more))


def held(asked, *, extra_bytes=0, price=PRICE):
    """Return what a call reserves, in tokens of $1."""
    hold = Budget(Limits(cost=1e9), price, extra_bytes).reserve(asked)
    return hold.cost - 10 * 2


HOLDS = [
    pytest.param(call(), {}, 3 + 32, id="a message"),
    pytest.param(call(messages=(Message("system", "ä"), Message("user", "abc"))), {}, 2 + 3 + 48, id="bytes, not letters"),
    pytest.param(call(messages=(), prompt="abcd"), {}, 4 + 16, id="a prompt"),
    pytest.param(call(extra_body={"tools": ["x"]}), {}, 3 + len('{"tools":["x"]}') + 32, id="what the workload adds"),
    pytest.param(call(), {"extra_bytes": 100}, 103 + 32, id="what the target adds"),
    pytest.param(call(messages=(), body={"messages": [{"role": "user"}]}), {}, len('{"messages":[{"role":"user"}]}') + 32, id="a body"),
    pytest.param(call(), {"price": Price(input_per_1m=1e6, cached_per_1m=3e6, output_per_1m=2e6)}, 3 * (3 + 32), id="cached costs more"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "options", "dollars"), HOLDS)
def test_the_most_that_a_request_can_cost_is_reserved(asked, options, dollars):
    assert held(asked, **options) == pytest.approx(dollars)


def test_a_server_that_tells_no_input_tokens_is_settled_at_what_was_reserved():
    budget = Budget(Limits(cost=100.0), PRICE)
    hold = budget.reserve(call())
    result = Result(
        id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, outcome=Outcome.OK, scheduled_ns=T0, sent_ns=T0, done_ns=T0 + MS,
        usage=Usage(None, 4), token_source="server",
    )  # fmt: skip
    budget.settle(hold, result)
    assert "$55.00 spent so far" in budget.reserve(call(max_tokens=Tokens(40)))


@pytest.mark.parametrize(
    ("outcome", "reason", "fields", "spent"),
    [
        pytest.param(Outcome.CONNECT_ERROR, "refused", {}, 0, id="refused"),
        pytest.param(Outcome.CONNECT_ERROR, "dns", {}, 0, id="no such name"),
        pytest.param(Outcome.CONNECT_ERROR, "tls_expired", {}, 0, id="no TLS"),
        pytest.param(Outcome.CONNECT_ERROR, "open_files", {}, 0, id="no more files"),
        pytest.param(Outcome.TIMEOUT, "connect", {}, 0, id="not connected in time"),
        pytest.param(
            Outcome.TIMEOUT, "first_chunk", {"connect_ns": MS, "local_port": 9}, 55, id="connected, and no answer in time"
        ),
        pytest.param(Outcome.CONNECT_ERROR, "stale_connection", {"local_port": 9}, 55, id="sent on a connection that was closed"),
        pytest.param(Outcome.CONNECT_ERROR, "eof", {"connect_ns": MS, "local_port": 9}, 55, id="sent, and closed without a word"),
        pytest.param(Outcome.CONNECT_ERROR, "reset", {}, 55, id="reset, the SDK does not tell when"),
        pytest.param(Outcome.OVERLOADED, "http_503", {"status": 503}, 0, id="refused with a status"),
        pytest.param(Outcome.CANCELLED, None, {"connect_ns": MS, "local_port": 9}, 55, id="cancelled"),
        pytest.param(Outcome.DROPPED, None, {"sent_ns": None}, 0, id="dropped"),
    ],
)
def test_what_the_server_told_nothing_of_stays_spent_unless_nothing_was_sent(outcome, reason, fields, spent):
    budget = Budget(Limits(cost=100.0), PRICE)
    hold = budget.reserve(call())
    assert hold.cost == 55
    asked = {"sent_ns": T0} | fields
    result = Result(
        id="0.0", arrival=0, turn=0, workload="w", stage=0, item=0, outcome=outcome, reason=reason, scheduled_ns=T0, done_ns=T0 + MS, **asked
    )  # fmt: skip
    budget.settle(hold, result)
    assert f"{usd(spent)} spent so far" in budget.reserve(call(max_tokens=Tokens(400)))


def test_a_share_says_that_it_is_one():
    limits = Limits(cost=8.0, output_tokens=10, requests=4).share(4)
    assert (limits.cost, limits.output_tokens, limits.requests) == (2.0, 2, 1)
    assert Budget(limits, Price()).reserve(call()) == (
        "the limit of 2 output tokens (this worker's share, one of 4) could be passed: 0 spent so far, 0 requests in flight may use 0, "
        "the next one 10"
    )
