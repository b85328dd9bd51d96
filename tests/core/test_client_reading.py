"""From chunks and facts to the stream and the result: exact stamps, exact counts."""

import pytest

from r1perf.client import Ticket
from r1perf.client.ending import Ending
from r1perf.client.reading import Order, Reading
from r1perf.providers import Chunk, Facts, Kind
from r1perf.result import Outcome, Stream, Usage

TICKET = Ticket(id="7.1", arrival=7, turn=1, workload="chat", stage=2, item=3, scheduled_ns=50)
THINK = Chunk(Kind.REASONING, "")
RETHINK = Chunk(Kind.REASONING, "", rethink=True)


def answer(text, **more):
    return Chunk(Kind.ANSWER, text, **more)


def tool(text):
    return Chunk(Kind.TOOL, text)


def play(reads, order=None):
    """Take reads, one at 100, 200, ...; return the reading."""
    reading = Reading(Stream("chat", 2, 50), order or Order())
    for i, chunks in enumerate(reads, 1):
        reading.take(100 * i, chunks)
    return reading


# name: (reads, pending, first, first_reasoning, first_answer, last, answer_chunks); a time of 0 is "did not happen"
STAMPS = {
    "nothing": ([[], []], [], 0, 0, 0, 0, 0),
    "answer only": ([[answer("a")], [answer("b")]], [100, 200], 100, 0, 100, 200, 2),
    "empty reads are not chunks": ([[], [answer("a")], []], [200], 200, 0, 200, 200, 1),
    "thinking, then answer": ([[THINK], [THINK], [answer("a")]], [100, 200, 300], 100, 100, 300, 300, 1),
    "thinking only": ([[THINK], [THINK]], [100, 200], 100, 100, 0, 200, 0),
    "blank answer": ([[THINK], [answer("\n\n")], [answer("a")]], [100, 200, 300], 100, 100, 300, 300, 2),
    "only blanks": ([[THINK], [answer(" \n")]], [100, 200], 100, 100, 0, 200, 1),
    "thinking once more": ([[answer("a")], [THINK], [answer("b")]], [100, 200, 300], 100, 200, 300, 300, 2),
    "thinking at the end": ([[answer("a")], [THINK]], [100, 200], 100, 200, 0, 200, 1),
    "coalesced": ([[THINK, THINK, answer("a")], [answer("b")]], [100, 100, 100, 200], 100, 100, 100, 200, 2),
    "thought and answer in one": ([[THINK], [answer("a", thought=True)]], [100, 200], 100, 100, 200, 200, 1),
    "first is thought and answer": ([[answer("a", thought=True)]], [100], 100, 100, 100, 100, 1),
    "taken back": ([[answer("a")], [answer("b")], [RETHINK], [answer("c")]], [100, 200, 300, 400], 100, 100, 400, 400, 1),
    "taken back with answer": (
        [[answer("a")], [answer("b", thought=True, rethink=True)]], [100, 200], 100, 100, 200, 200, 1,
    ),
    "taken back in one read": ([[answer("a"), answer("b", thought=True, rethink=True)]], [100, 100], 100, 100, 100, 100, 1),
    "nothing to take back": ([[answer("b", thought=True, rethink=True)]], [100], 100, 100, 100, 100, 1),
    "nothing to take back, no thought": ([[answer("b", rethink=True)]], [100], 100, 0, 100, 100, 1),
    "tool call": ([[THINK], [tool("f(")], [tool(")")]], [100, 200, 300], 100, 100, 200, 300, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", STAMPS)
def test_stamps(name):
    reads, *expected = STAMPS[name]
    reading = play(reads)
    stream = reading.stream
    assert [
        stream.pending, stream.first_ns, stream.first_reasoning_ns, stream.first_answer_ns, stream.last_ns, stream.answer_chunks,
    ] == expected  # fmt: skip
    assert reading.chunks == len(stream.pending)


def test_the_recorder_may_take_the_stamps_away():
    reading = play([[THINK]])
    taken, reading.stream.pending = reading.stream.pending, []
    reading.take(900, [THINK])
    assert (taken, reading.stream.pending, reading.chunks) == ([100], [900], 2)


def result(reading, facts=None, **ending):
    return reading.reply(TICKET, Ending(**{"done_ns": 1000, "status": 200, **ending}), facts or Facts("stop")).result


def test_a_result_carries_the_ticket_the_stamps_and_the_facts():
    reading = play([[THINK], [answer("a")]])
    reading.stream.sent_ns = 60
    facts = Facts("stop", Usage(10, 20, 5, 2), request_id="r", model="m", upstream="u", done=True)
    got = result(reading, facts, head_ns=90, connect_ns=5, local_port=4000, headers={"retry-after": "1", "x-request-id": "h"})
    assert (got.id, got.arrival, got.turn, got.workload, got.stage, got.item, got.scheduled_ns) == ("7.1", 7, 1, "chat", 2, 3, 50)
    assert (got.outcome, got.reason, got.message, got.status, got.finish_reason) == (Outcome.OK, None, None, 200, "stop")
    assert (got.sent_ns, got.connect_ns, got.head_ns, got.done_ns) == (60, 5, 90, 1000)
    assert (got.first_ns, got.first_reasoning_ns, got.first_answer_ns, got.last_ns) == (100, 100, 200, 200)
    assert (got.usage, got.token_source, got.reasoning_hidden) == (Usage(10, 20, 5, 2), "server", False)
    assert (got.request_id, got.model, got.upstream, got.local_port) == ("r", "m", "u", 4000)
    assert (got.retry_after_ns, got.streamed, got.answer_chunks) == (1_000_000_000, True, 1)
    assert (got.chunks, got.coalesced, got.chunks_by_stage, got.itl_max_ns, got.stamps_ns) == (0, 0, {}, None, None)


def test_what_did_not_happen_is_absent():
    got = result(play([]), Facts(), outcome=Outcome.CONNECT_ERROR, status=None)
    assert (got.sent_ns, got.first_ns, got.first_reasoning_ns, got.first_answer_ns, got.last_ns) == (None,) * 5
    assert (got.usage, got.token_source, got.status, got.request_id) == (Usage(), None, None, None)


def test_a_request_id_may_stand_in_the_head():
    assert result(play([]), headers={"x-request-id": "h"}).request_id == "h"


# name: (reads, usage said, usage, source)
TOKENS = {
    "said": ([[answer("a")]], Usage(3, 9), Usage(3, 9), "server"),
    "said to be none": ([[answer("a")]], Usage(3, 0), Usage(3, 0), "server"),
    "not said": ([[THINK], [answer("a"), answer("b")]], None, Usage(None, 3), "chunks"),
    "half said": ([[answer("a")]], Usage(3, None, None, 2), Usage(3, 1, None, 2), "chunks"),
    "no chunks": ([], None, Usage(), None),
    "no chunks, half said": ([], Usage(3), Usage(3), None),
}


@pytest.mark.parametrize("name", TOKENS)
def test_tokens(name):
    reads, said, usage, source = TOKENS[name]
    got = result(play(reads), Facts("stop", said))
    assert (got.usage, got.token_source) == (usage, source)


def test_events_that_went_unread_are_in_the_result():
    assert result(play([[answer("a")]]), Facts("stop", stray=2, stray_text="ping")).stray_events == 2


@pytest.mark.parametrize(
    ("reads", "usage", "hidden"),
    [
        ([[answer("a")]], Usage(1, 9, 5), True),
        ([[THINK], [answer("a")]], Usage(1, 9, 5), False),
        ([[answer("a")], [RETHINK]], Usage(1, 9, 5), False),
        ([[answer("a", thought=True)]], Usage(1, 9, 5), False),
        ([[answer("a")]], Usage(1, 9, 0), False),
        ([[answer("a")]], Usage(1, 9), False),
    ],
    ids=["hidden", "seen", "taken back", "in one chunk", "none", "not counted"],
)
def test_reasoning_that_was_counted_but_not_streamed(reads, usage, hidden):
    assert result(play(reads), Facts("stop", usage)).reasoning_hidden is hidden


@pytest.mark.parametrize(
    ("ordered", "usage", "mismatch"),
    [(64, Usage(1, 64), False), (64, Usage(1, 63), True), (64, None, False), (None, Usage(1, 64), False)],
    ids=["as ordered", "another", "chunks do not tell", "not ordered"],
)
def test_an_ordered_length(ordered, usage, mismatch):
    got = result(play([[answer("a")]], Order(length=ordered)), Facts("length" if ordered else "stop", usage))
    assert (got.outcome, got.length_ordered, got.length_mismatch) == (Outcome.OK, ordered, mismatch)


# name: (keep, reads, answer)
KEPT = {
    "nothing": (0, [[answer("abc")]], None),
    "all": (9, [[answer("ab")], [THINK], [answer("cd")]], "abcd"),
    "some": (3, [[answer("ab")], [answer("cd")], [answer("ef")]], "abc"),
    "no thought, no tool": (9, [[THINK], [tool("f()")], [answer("a")]], "a"),
    "none came": (9, [[THINK]], ""),
    "taken back": (3, [[answer("abcd")], [answer("xyz!", thought=True, rethink=True)]], "xyz"),
}


@pytest.mark.parametrize("name", KEPT)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_the_answer_is_kept_as_far_as_it_was_asked_for(name, streamed):
    keep, reads, expected = KEPT[name]
    assert play(reads, Order(streamed, keep)).reply(TICKET, Ending(done_ns=1000), Facts("stop")).answer == expected


def test_what_is_not_streamed_has_one_stamp():
    reading = play([[Chunk(Kind.ANSWER, "a", thought=True)]], Order(streamed=False))
    got = result(reading, Facts("stop", Usage(1, 9, 5)), done_ns=700)
    assert (got.streamed, got.last_ns, got.first_ns, got.first_reasoning_ns, got.first_answer_ns) == (
        False,
        700,
        None,
        None,
        None,
    )
    assert (reading.stream.pending, got.answer_chunks, got.reasoning_hidden) == ([], 1, False)
    assert (got.usage, got.token_source) == (Usage(1, 9, 5), "server")


def test_what_is_not_streamed_is_not_counted_by_chunks():
    got = result(play([[answer("a")]], Order(streamed=False)))
    assert (got.usage, got.token_source) == (Usage(), None)


def test_what_is_not_streamed_and_failed_has_no_last_stamp():
    got = result(play([], Order(streamed=False)), Facts(), outcome=Outcome.TIMEOUT)
    assert got.last_ns is None


def test_a_whole_object_in_place_of_a_stream_is_not_streamed():
    reading = Reading(Stream("chat", 2, 50), Order())
    reading.whole()
    reading.take(500, [answer("a")])
    got = result(reading, done_ns=501)
    assert (got.streamed, got.first_ns, got.last_ns, got.answer_chunks) == (False, None, 501, 1)


@pytest.mark.parametrize(
    ("said", "usage", "source"),
    [
        (Usage(input_tokens=5, output_tokens=10**30), Usage(input_tokens=5, output_tokens=1), "chunks"),
        (Usage(input_tokens=-1, output_tokens=7), Usage(output_tokens=7), "server"),
        (Usage(input_tokens=2**53, output_tokens=0), Usage(input_tokens=2**53, output_tokens=0), "server"),
    ],
    ids=["beyond all bounds", "negative", "the largest"],
)
def test_a_count_that_cannot_be_was_not_told(said, usage, source):
    reading = play([[answer("a")]])
    ending = Ending(
        done_ns=900, outcome=None, reason=None, message=None, status=200, headers={}, head_ns=90, connect_ns=None, local_port=1
    )
    result = reading.reply(TICKET, ending, Facts(finish_reason="stop", usage=said)).result
    assert (result.usage, result.token_source) == (usage, source)
