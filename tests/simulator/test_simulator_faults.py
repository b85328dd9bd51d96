"""Each fault, on virtual time for what it writes and over a real socket for how a connection ends."""

import asyncio
import json
from collections import Counter

import pytest
from onwire import ASK, Paper, Reply, Stage, exchange, site

from r1perf.errors import UsageError
from r1perf.simulator.faults import KINDS, Fault, FaultDraw, parse_fault, parse_rate

SIX = {**ASK, "max_tokens": 40, "ignore_eos": True, "stream_options": {"include_usage": True}}
DONE = "[DONE]"


def asked(fault: str, *, dialect: str = "vllm", stream: bool = True, **more: object) -> tuple[Reply, dict[str, object]]:
    """Ask a simulator with this fault for 40 tokens; return what came and how the simulator counts it."""

    async def scene() -> tuple[Reply, dict[str, object]]:
        async with site(dialect=dialect) as made:
            body = {**SIX, "stream": stream, **more}
            if not stream:
                del body["stream_options"]
            reply = await asyncio.wait_for(made.ask(body, x_r1sim_fault=fault), 10)
            return reply, made.sim.stats.as_json()

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("fault", "status", "retry"),
    [
        ("rate_limit:2", 429, "2"),
        ("rate_limit", 429, "1"),
        ("unavailable:0.5", 503, "0.5"),
        ("overloaded", 529, None),
        ("server_error", 500, None),
        ("unauthorized", 401, None),
        ("forbidden", 403, None),
        ("model_not_found", 404, None),
        ("bad_request", 400, None),
    ],
)
def test_a_refusal(fault: str, status: int, retry: str | None) -> None:
    reply, stats = asked(fault)
    assert (reply.status, reply.headers.get("retry-after")) == (status, retry)
    assert reply.json["error"]["code"] == status
    assert (stats["endings"], stats["faults"]) == ({"refused": 1}, {fault.split(":")[0]: 1})


def test_the_connection_is_closed_before_the_head() -> None:
    reply, stats = asked("close")
    assert (reply.status, reply.end) == (0, "closed")
    assert stats["endings"] == {"cut": 1}


@pytest.mark.parametrize(("way", "end"), [("reset", "reset"), ("eof", "closed"), ("end", "complete")])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_cut(way: str, end: str, stream: bool) -> None:
    reply, stats = asked(f"cut:{way}@10", stream=stream)
    assert (reply.status, reply.end) == (200, end)
    if stream and way != "reset":  # a reset may overtake what was sent before it
        assert (len(reply.texts), reply.finishes) == (10, [])
        assert DONE not in reply.events
    if not stream and way == "end":
        with pytest.raises(json.JSONDecodeError):
            json.loads(reply.body)
    assert (stats["endings"], stats["output_tokens"]) == ({"cut": 1}, 10)


def test_an_error_object_in_the_stream() -> None:
    reply, stats = asked("error_object@10")
    assert len(reply.texts) == 10
    assert reply.events[-2]["error"]["code"] == 500
    assert (reply.events[-1], reply.finishes, reply.end) == (DONE, [], "complete")
    assert stats["endings"] == {"error": 1}


@pytest.mark.parametrize("dialect", ["vllm", "dynamo"])
def test_an_error_event_is_only_a_comment(dialect: str) -> None:
    reply, _ = asked("error_event@10", dialect=dialect)
    assert (len(reply.texts), reply.finishes, reply.end) == (10, [], "complete")
    assert DONE not in reply.events
    assert reply.body.endswith(b"event: error\n: EngineCore encountered an issue\n\n")


@pytest.mark.parametrize("fault", ["error_object", "error_event"])
def test_an_error_in_an_answer_that_is_not_streamed(fault: str) -> None:
    reply, stats = asked(fault, stream=False)
    assert (reply.status, reply.json["error"]["type"]) == (500, "InternalServerError")
    assert (stats["endings"], stats["statuses"]) == ({"error": 1}, {"500": 1})


def test_no_finish_but_done() -> None:
    for dialect in ("vllm", "sglang", "deepseek", "openrouter"):
        reply, stats = asked("no_finish", dialect=dialect)
        assert (len(reply.texts), reply.finishes, reply.events[-1]) == (40, [], DONE)
        assert stats["finish_reasons"] == {}


def test_no_usage() -> None:
    reply, _ = asked("no_usage")
    assert (len(reply.texts), reply.finishes, reply.events[-1]) == (40, ["length"], DONE)
    assert b"prompt_tokens" not in reply.body


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "deepseek", "trtllm"])
def test_the_filter_ends_the_answer(dialect: str) -> None:
    reply, stats = asked("content_filter@10", dialect=dialect)
    assert (len(reply.texts), reply.finishes, reply.events[-1]) == (10, ["content_filter"], DONE)
    assert [event["usage"]["completion_tokens"] for event in reply.events[:-1] if event.get("usage")][-1] == 10
    assert (stats["endings"], stats["finish_reasons"]) == ({"complete": 1}, {"content_filter": 1})


def test_an_event_that_is_not_json() -> None:
    reply, stats = asked("bad_json@10")
    assert (len(reply.texts), reply.finishes, reply.events[-1]) == (40, ["length"], DONE)
    assert [event for event in reply.events if isinstance(event, str)] == ['{"id": "chatcmpl-', DONE]
    assert stats["endings"] == {"complete": 1}
    with pytest.raises(json.JSONDecodeError):
        json.loads(asked("bad_json", stream=False)[0].body)


def test_another_model_answers() -> None:
    reply, _ = asked("rerouted:other")
    assert {event["model"] for event in reply.events[:-1]} == {"other"}
    assert len(reply.texts) == 40


def test_several_tokens_a_chunk() -> None:
    plain, _ = asked("none", max_tokens=39)
    reply, stats = asked("multi_token:4", max_tokens=39)
    assert "".join(reply.texts) == "".join(plain.texts)
    assert len(plain.texts) == 39
    # Groups of four, cut where thinking ends and at the end.
    reasoning = sum("reasoning" in event["choices"][0]["delta"] for event in plain.events[:-1] if event["choices"])
    assert len(reply.texts) == -(-reasoning // 4) + -(-(39 - reasoning) // 4)
    assert (stats["chunks"], stats["output_tokens"]) == (len(reply.texts), 39)


def test_comments_until_the_first_token() -> None:
    reply, _ = asked("keep_alive:0.001")
    assert len(reply.comments) >= 1
    assert set(reply.comments) == {": keep-alive"}
    assert reply.body.startswith(b": keep-alive\n\n")
    assert len(reply.texts) == 40
    assert asked("keep_alive", dialect="openrouter")[0].comments == [": OPENROUTER PROCESSING"] * 2


def started(fault: str, **body: object) -> tuple[Stage, Paper, float]:
    """Play a request up to where it waits; return also for how long it would."""
    stage, paper, _ = exchange("vllm", fault, **body)
    [(seconds, callback)] = stage.timeouts
    before = paper.body
    callback()
    assert stage.ending == "complete"
    paper.writes = [before, paper.body[len(before) :]]
    return stage, paper, seconds


def test_a_stall_holds_the_rest_back_and_then_lets_it_out_at_once() -> None:
    whole = exchange("vllm")[1].body
    stage, paper, seconds = started("stall:7@2")
    assert seconds == 7
    assert paper.body == whole
    assert paper.writes[0].count(b"data: ") == 1 + 2  # the role and two tokens
    assert stage.stats.chunks == 6
    assert stage.stats.ttft.count + stage.stats.itl.count == 3  # three writes brought chunks


def test_a_stall_at_the_last_token_holds_its_end_back() -> None:
    _, paper, _ = started("stall@6")
    assert paper.writes[1] == b"data: [DONE]\n\n"


def test_a_stall_for_ever_ends_when_the_client_leaves() -> None:
    stage, paper, made = exchange("vllm", "stall:forever@2")
    assert (stage.timeouts, stage.ending, paper.end) == ([], "", "")
    made.gone()
    assert (stage.ending, made.truth.output_tokens, made.truth.chunks) == ("aborted", 6, 2)


def test_a_slow_head_holds_everything_back() -> None:
    stage, paper, seconds = started("slow_head:3")
    assert (seconds, paper.writes[0]) == (3, b"")
    assert paper.body == exchange("vllm")[1].body
    assert stage.stats.ttft.count == 1


@pytest.mark.parametrize("fault", ["slow_head:3", "stall:3"])
def test_waiting_answers_that_are_not_streamed(fault: str) -> None:
    _, paper, seconds = started(fault, stream=False)
    assert seconds == 3
    assert json.loads(paper.body) == json.loads(exchange("vllm", stream=False)[1].body)


def test_a_burst_is_one_write() -> None:
    stage, paper, made = exchange("vllm", "burst")
    assert paper.writes == [b"", paper.body]
    assert paper.body == exchange("vllm")[1].body
    assert (stage.ending, made.truth.chunks, stage.stats.itl.count) == ("complete", 6, 0)


@pytest.mark.parametrize("at", range(1, 7))
@pytest.mark.parametrize("fault", [name for name, kind in KINDS.items() if kind.mid_stream])
@pytest.mark.parametrize("dialect", ["vllm", "sglang", "trtllm"])
def test_a_fault_in_the_middle_strikes_after_exactly_that_token(fault: str, at: int, dialect: str) -> None:
    stage, paper, made = exchange(dialect, f"{fault}@{at}")
    plain = exchange(dialect)[1].body
    events = plain.split(b"\n\n")
    before = b"\n\n".join(events[: 1 + at])
    if at == 6 and dialect != "sglang" and fault not in ("stall", "bad_json"):
        before = b"\n\n".join(events[:at])  # the last token then comes without its finish
    assert paper.body.startswith(before)
    if fault == "stall":
        assert made.truth.chunks == at
        return
    ends = {"cut": "cut", "error_object": "error", "error_event": "error", "content_filter": "complete", "bad_json": "complete"}
    assert stage.ending == ends[fault]
    assert made.truth.chunks == (6 if fault == "bad_json" else at)
    assert stage.engine.due_ns is None


class TestReading:
    """Faults as they are written."""

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("stall", Fault("stall", "1")),
            ("stall:forever@7", Fault("stall", "forever", 7)),
            ("cut:eof", Fault("cut", "eof")),
            ("rate_limit:0.5", Fault("rate_limit", "0.5")),
            (" no_usage ", Fault("no_usage", "")),
        ],
    )
    def test_what_is_allowed(self, text: str, fault: Fault) -> None:
        assert parse_fault(text) == fault

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("boom", '"boom" is not a fault; allowed are rate_limit, unavailable'),
            ("no_usage:3", "fault no_usage takes no argument"),
            ("stall:soon", 'fault stall takes seconds from 0 to 86400 or "forever", not "soon"'),
            ("stall:-1", 'not "-1"'),
            ("stall:nan", 'not "nan"'),
            ("slow_head:forever", 'takes seconds from 0 to 86400, not "forever"'),
            ("cut:half", 'fault cut takes reset, eof, end, not "half"'),
            ("multi_token:0", "a whole number above 0"),
            ("no_usage@3", "@TOKEN is a whole number above 0"),
            ("stall@0", "@TOKEN is a whole number above 0"),
            ("stall@x", "@TOKEN is a whole number above 0"),
        ],
    )
    def test_what_is_not(self, text: str, sentence: str) -> None:
        with pytest.raises(UsageError) as error:
            parse_fault(text)
        assert sentence in str(error.value)

    @pytest.mark.parametrize("text", ["rate_limit", "rate_limit=2", "rate_limit=x", "rate_limit=-0.1", "rate_limit=nan"])
    def test_rates(self, text: str) -> None:
        with pytest.raises(UsageError, match="is not a fault with its rate"):
            parse_rate(text)

    def test_a_bad_header_is_a_400(self) -> None:
        reply, stats = asked("boom")
        assert reply.status == 400
        assert "is not a fault" in reply.json["error"]["message"]
        assert stats["faults"] == {}


class TestDrawing:
    """Faults at random."""

    def test_rates_and_seed(self) -> None:
        rates = [parse_rate("rate_limit=0.1"), parse_rate("stall:2=0.3")]

        def drawn(seed: int) -> list[str]:
            draw = FaultDraw(rates, seed)
            return [fault.name if (fault := draw.draw()) else "" for _ in range(10_000)]

        counts = Counter(drawn(1))
        assert counts["rate_limit"] == pytest.approx(1_000, abs=4 * 30)
        assert counts["stall"] == pytest.approx(3_000, abs=4 * 46)
        assert drawn(1) == drawn(1) != drawn(2)

    def test_rates_that_are_too_much(self) -> None:
        with pytest.raises(UsageError, match="more than 1"):
            FaultDraw([parse_rate("stall=0.6"), parse_rate("close=0.6")], 0)

    def test_every_request_is_counted_whatever_happens_to_it(self) -> None:
        rates = ("rate_limit=0.2", "cut:eof=0.2", "error_object=0.2", "no_finish=0.2")

        async def scene() -> dict[str, object]:
            async with site(faults=tuple(parse_rate(rate) for rate in rates), seed=5) as made:
                await asyncio.gather(*(made.ask(SIX) for _ in range(60)))
                return made.sim.stats.as_json()

        stats = asyncio.run(scene())
        draw = FaultDraw([parse_rate(rate) for rate in rates], 5)
        drawn = Counter(fault.name if (fault := draw.draw()) else "" for _ in range(60))
        plain = drawn.pop("")
        assert stats["faults"] == dict(drawn)
        assert stats["endings"] == {
            "refused": drawn["rate_limit"], "cut": drawn["cut"], "error": drawn["error_object"],
            "complete": plain + drawn["no_finish"],
        }  # fmt: skip
        assert (stats["requests"], stats["active"]) == (60, 0)
