"""Calibration: a few requests before the run fit made texts to the server's own counts, and what repeats is told beforehand."""

import pytest
from fake_traffic import T0
from hypothesis import given
from hypothesis import strategies as st

from r1perf import setup
from r1perf.budget import Budget, Limits
from r1perf.calibrate import Failed, calibrate
from r1perf.client import Reply
from r1perf.datasets import Conversation, Turn
from r1perf.datasets.lengths import Uniform
from r1perf.datasets.prompts import Prompts
from r1perf.datasets.repeats import BLOCK, Repeats, repeats
from r1perf.datasets.synthetic import Prefix, Synthetic
from r1perf.datasets.tokens import Calibration
from r1perf.datasets.trace import TraceLengths
from r1perf.loop.sim import SimLoop
from r1perf.messages import Assign
from r1perf.result import Outcome, Result, Usage
from r1perf.scenario import load
from r1perf.source import WorkloadSource
from r1perf.target import Message, Price, Target
from r1perf.workload import Workload

TARGET = Target(url="http://h/v1", model="m", provider="vllm")


class Server:
    """Counts as a server does: words with a vowel in front are two tokens, and its template adds `overhead`."""

    def __init__(self, loop, overhead=11, outcome=Outcome.TRUNCATED, tells=True):
        self.loop, self.overhead, self.outcome, self.tells, self.calls = loop, overhead, outcome, tells, []

    def tokens(self, text):
        return self.overhead + sum(2 if word[0] in "aeiou" else 1 for word in text.split())

    def prepare(self, call):
        return call

    def send(self, ticket, call, stream):
        self.calls.append(call)
        usage = Usage(self.tokens(call.messages[0].content), 1, None, 0) if self.tells else Usage()
        result = Result(
            id=ticket.id, arrival=-1, turn=0, workload="w", stage=0, item=-1, outcome=self.outcome, scheduled_ns=ticket.scheduled_ns,
            sent_ns=ticket.scheduled_ns, done_ns=self.loop.now_ns(), usage=usage, token_source="server" if self.tells else None,
            message=None if self.outcome is Outcome.TRUNCATED else "no such model",
        )  # fmt: skip
        return Reply(result)

    def close(self):
        raise AssertionError("the run still needs the client")


def source_of(dataset, base=None):
    workload = Workload(dataset=dataset)
    return WorkloadSource(workload, dataset.load(7, base, "run"), TARGET)


def synthetic(inputs=2000, **more):
    return Synthetic(input_tokens=inputs, output_tokens=8, **more)


def found(dataset, *, limits=Limits(), price=Price(), **server):
    """Calibrate; return (what came of it, the server, the source)."""
    loop, made = SimLoop(start_ns=T0), {}
    source = source_of(dataset)

    def main():
        made["server"] = Server(loop, **server)
        made["found"] = calibrate(loop, "w", source, made["server"], Budget(limits, price), "run-1")

    loop.run(main)
    return made["found"], made["server"], source


def test_four_small_requests_tell_tokens_a_word_and_the_templates_own():
    calibration, server, source = found(synthetic())
    vowels = sum(word[0] in "aeiou" for word in source.items.vocabulary.words) / 256
    assert calibration.tokens_per_word == pytest.approx(1 + vowels)
    assert calibration.overhead == 11
    assert (calibration.requests, calibration.input_tokens) == (
        4,
        sum(server.tokens(c.messages[0].content) for c in server.calls),
    )
    assert [len(call.messages[0].content.split()) for call in server.calls] == [256, 768, 768, 768]
    assert [(call.max_tokens, call.output_tokens, call.model) for call in server.calls] == [(1, None, "m")] * 4
    assert len({call.messages[0].content for call in server.calls}) == 4


def test_the_error_is_that_of_texts_like_the_runs_own():
    calibration, server, _ = found(synthetic())
    drawn = server.calls[2:]
    errors = []
    for call in drawn:
        text = call.messages[0].content
        errors.append(abs(calibration.tokens(len(text.split())) / server.tokens(text) - 1))
    assert calibration.error == pytest.approx(max(errors))
    assert 0 < calibration.error < 0.05


@pytest.mark.parametrize("inputs", [100, 700, 2000])
def test_calibrated_prompts_are_as_long_as_asked_for(inputs):
    calibration, server, source = found(synthetic(inputs))
    better = source.of(source.items.calibrated(calibration)).items
    lengths = [server.tokens(better.conversation(item).turns[0].text) for item in range(200)]
    assert sum(lengths) / 200 == pytest.approx(inputs, rel=0.01)
    assert max(abs(length - inputs) for length in lengths) < 0.06 * inputs + 8


def test_the_error_is_told_at_the_shortest_and_the_longest_prompt():
    calibration, server, _ = found(synthetic(Uniform(low=60, high=600)))
    words = [len(call.messages[0].content.split()) for call in server.calls]
    assert words == [256, 768, calibration.words(60), calibration.words(600)]


def test_traces_are_calibrated_too(tmp_path):
    (tmp_path / "t.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:00:00.0,900,3\n2023-11-16 18:00:01.0,50,3\n"
    )
    dataset = TraceLengths(file=str(tmp_path / "t.csv"))
    calibration, server, source = found(dataset)
    better = source.items.calibrated(calibration)
    assert server.tokens(better.conversation(0).turns[0].text) == pytest.approx(900, rel=0.05)


KNOWN = [
    pytest.param(Prompts(prompts=("x",)), id="not made"),
    pytest.param(synthetic(calibrate=False), id="opted out"),
    pytest.param(synthetic(tokens_per_word=1.3), id="tokens a word given"),
    pytest.param(synthetic(template_tokens=4), id="template given"),
]


@pytest.mark.parametrize("dataset", KNOWN)
def test_nothing_is_asked_where_it_is_known_or_not_wanted(dataset):
    calibration, server, _ = found(dataset)
    assert calibration is None
    assert server.calls == []


NO_ROOM = "its 4 requests and one of the run do not fit into the limits of `stop`"

FAILS = [
    pytest.param({"outcome": Outcome.CLIENT_ERROR}, 1, "a request for it ended as client_error (no such model)", id="refused"),
    pytest.param({"tells": False}, 1, "the server does not tell its token counts", id="no usage"),
    pytest.param({"limits": Limits(output_tokens=11)}, 0, NO_ROOM, id="tokens for all but the run"),
    pytest.param({"limits": Limits(output_tokens=12)}, 4, None, id="tokens enough"),
    pytest.param({"limits": Limits(requests=2)}, 0, NO_ROOM, id="two requests"),
    pytest.param({"limits": Limits(requests=4)}, 0, NO_ROOM, id="four requests"),
    pytest.param({"limits": Limits(requests=5)}, 4, None, id="requests enough"),
    pytest.param({"limits": Limits(cost=0.03), "price": Price(input_per_1m=1.0, output_per_1m=1.0)}, 4, None, id="cost enough"),
    pytest.param({"limits": Limits(cost=0.015), "price": Price(input_per_1m=1.0, output_per_1m=1.0)}, 0, NO_ROOM, id="cost"),
]  # fmt: skip


@pytest.mark.parametrize(("given_", "sent", "why"), FAILS)
def test_hard_limits_and_refusals_leave_estimates_and_say_so(given_, sent, why):
    calibration, server, _ = found(synthetic(), **given_)
    assert len(server.calls) == sent
    if why is None:
        assert isinstance(calibration, Calibration)
    else:
        assert calibration == Failed(f"w: lengths are not calibrated: {why}")


def test_what_calibration_spent_is_part_of_the_limit():
    loop = SimLoop(start_ns=T0)
    budget, source = Budget(Limits(output_tokens=100), Price()), source_of(synthetic())
    loop.run(lambda: calibrate(loop, "w", source, Server(loop), budget, "k"))
    turn = Turn(text="x", max_tokens=97)
    assert "4 spent so far" in budget.reserve(source.call(Conversation(turns=(turn,)), turn, ()))
    turn = Turn(text="x", max_tokens=96)
    assert not isinstance(budget.reserve(source.call(Conversation(turns=(turn,)), turn, ())), str)


def test_the_same_calibration_makes_the_same_items_on_every_worker():
    calibration = found(synthetic(prefix=Prefix(groups=3, hit_ratio=0.5)))[0]
    made = [source_of(synthetic(prefix=Prefix(groups=3, hit_ratio=0.5))).items.calibrated(calibration) for _ in range(2)]
    assert [made[0].conversation(k) for k in range(20)] == [made[1].conversation(k) for k in range(20)]
    assert made[0].digest == made[1].digest


# --- Answers for the simulated endpoint ---


@pytest.mark.parametrize(
    ("simulated", "expected", "headers"),
    [
        pytest.param(True, "73", {"x-r1sim-answer": "73"}, id="simulated"),
        pytest.param(False, "73", {}, id="any other target"),
        pytest.param(True, None, {}, id="no answer known"),
        pytest.param(True, "a\r\nb", {}, id="no header"),
        pytest.param(True, "π", {}, id="no ascii"),
    ],
)
def test_only_the_simulated_endpoint_is_told_the_right_answer(simulated, expected, headers):
    source = WorkloadSource(
        Workload(dataset=Prompts(prompts=("x",))), Prompts(prompts=("x",)).load(1), TARGET, simulated=simulated
    )
    turn = Turn(text="x", expected=expected)
    assert source.call(Conversation(turns=(turn,)), turn, ()).headers == headers
    assert source.of(source.items).call(Conversation(turns=(turn,)), turn, ()).headers == headers
    assert Assign(run_id="r", worker="0", shard=0, shards=1, scenario={}, base="", folder="", interval_ns=1).simulated is False


# --- Repeats ---


def asked(*texts, system=""):
    before = (Message("system", system),) if system else ()
    return [Conversation(turns=(Turn(text=text),), before=before) for text in texts]


A, B, C = "a" * BLOCK, "b" * BLOCK, "c" * BLOCK
REPEATS = [
    pytest.param([], Repeats(prompts=0, repeated=0, shared=0.0), id="nothing"),
    pytest.param(asked("x", "y", "x", "x"), Repeats(prompts=4, repeated=2, shared=0.5), id="short ones"),
    pytest.param(asked(A + B, A + B), Repeats(prompts=2, repeated=1, shared=0.5), id="a whole prompt again"),
    pytest.param(asked(A + "x", A + "x"), Repeats(prompts=2, repeated=1, shared=0.5), id="a repeat counts in full"),
    pytest.param(asked(A + B, A + C, C + A), Repeats(prompts=3, repeated=0, shared=1 / 6), id="a beginning, not a middle"),
    pytest.param(asked(A + B + "x", A + B + "y"), Repeats(prompts=2, repeated=0, shared=128 / 258), id="whole blocks only"),
    pytest.param(
        asked("q1", "q2", system=A + A), Repeats(prompts=2, repeated=0, shared=128 / (2 * (7 + 128 + 1 + 2))), id="system prompt"
    ),
]


@pytest.mark.parametrize(("conversations", "told"), REPEATS)
def test_what_repeats_is_counted(conversations, told):
    assert repeats(conversations) == told


@given(st.lists(st.text("ab", max_size=3 * BLOCK), max_size=12))
def test_repeats_are_what_a_cache_that_forgets_nothing_would_serve(texts):
    seen, whole, shared = set(), [], 0
    for text in texts:
        begun = [text[: end + BLOCK] for end in range(0, len(text) - BLOCK + 1, BLOCK)]
        again = BLOCK * next((k for k, start in enumerate(begun) if start not in seen), len(begun))
        shared += len(text) if text in whole else again
        seen.update(begun)
        whole.append(text)
    found_ = repeats(asked(*texts))
    assert found_.repeated == len(whole) - len(set(whole))
    assert found_.shared * sum(map(len, texts)) == pytest.approx(shared)


def test_only_the_first_thousand_are_looked_at():
    def endless():
        while True:
            yield from asked("x")

    assert repeats(endless()) == Repeats(prompts=1000, repeated=999, shared=0.999)


def test_shared_prefixes_are_found_before_the_run():
    items = synthetic(640, prefix=Prefix(groups=4, hit_ratio=0.5)).load(3)
    told = repeats(items.conversation(item) for item in range(400))
    assert told.shared == pytest.approx(items.hit_ratio(400), abs=0.02)


@pytest.mark.parametrize(
    ("arrivals", "requests", "looked_at"),
    [
        pytest.param({"kind": "constant", "rate": "1/s"}, 6, 6, id="open"),
        pytest.param({"kind": "closed", "sessions": 2}, 6, 6, id="closed, by requests"),
        pytest.param({"kind": "closed", "sessions": 2, "duration": "1s"}, None, 1000, id="closed, by time"),
    ],
)
def test_as_many_prompts_are_looked_at_as_are_planned(arrivals, requests, looked_at):
    raw = {"name": "x", "target": {"url": "http://h/v1", "model": "m"}, "arrivals": arrivals}
    raw |= {"workload": {"w": {"dataset": {"kind": "prompts", "prompts": ["a", "b", "c"]}}}} | (
        {"requests": requests} if requests else {}
    )
    scenario = load(raw)
    items = scenario.items()
    told = setup._prompting(scenario, scenario.plan(items), items)["w"].repeats
    assert (told.prompts, told.repeated) == (looked_at, looked_at - 3)


def test_planned_prompts_that_cannot_be_as_short_as_asked_are_told(tmp_path):
    rows = "".join(f"2023-11-16 18:15:4{n}.0,{inputs},10\n" for n, inputs in enumerate((9, 90, 90, 90)))
    (tmp_path / "t.csv").write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}")
    raw = {"name": "x", "target": {"url": "http://h/v1", "model": "m"}, "arrivals": {"kind": "constant", "rate": "1/s"}}
    raw |= {"workload": {"w": {"dataset": {"kind": "trace", "file": "t.csv", "template_tokens": 30}}}, "requests": 2}
    scenario = load(raw)
    items = scenario.items(tmp_path)
    assert setup._prompting(scenario, scenario.plan(items), items)["w"].lengthened == 0.5
    assert setup._lengthened(scenario.plan(items), "w", items["w"], Calibration(1.0, 5)) == 0.0
