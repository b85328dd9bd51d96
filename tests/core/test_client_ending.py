"""The outcome table, case by case."""

import pytest

from r1perf.client.ending import MESSAGE_CHARACTERS, Ending, failed, judge, retry_after_ns
from r1perf.errors import TransportError
from r1perf.providers import Facts
from r1perf.result import Outcome

S = 1_000_000_000
WHOLE = Ending(done_ns=1, status=200, headers={"content-type": "text/event-stream; charset=utf-8"})
UNFINISHED = "the response (text/event-stream) ended without a finish_reason"


def cut(outcome, reason):
    return Ending(done_ns=1, status=200, outcome=outcome, reason=reason, message="how it was cut")


BROKEN = cut(Outcome.STREAM_BROKEN, "eof")
LATE = cut(Outcome.TIMEOUT, "between_chunks")
CANCELLED = cut(Outcome.CANCELLED, None)
REFUSED = cut(Outcome.RATE_LIMITED, "http_429")
UNCONNECTED = cut(Outcome.CONNECT_ERROR, "refused")

CASES = {
    "stop": (WHOLE, Facts("stop"), (Outcome.OK, None, None)),
    "tool calls": (WHOLE, Facts("tool_calls"), (Outcome.OK, None, None)),
    "length": (WHOLE, Facts("length"), (Outcome.TRUNCATED, None, None)),
    "filter": (WHOLE, Facts("content_filter"), (Outcome.FILTERED, "content_filter", None)),
    "error": (WHOLE, Facts(error="boom", error_code="500"), (Outcome.STREAM_ERROR, "500", "boom")),
    "error without a code": (WHOLE, Facts(error="boom"), (Outcome.STREAM_ERROR, "error", "boom")),
    "error behind a finish": (WHOLE, Facts("stop", error="boom"), (Outcome.STREAM_ERROR, "stop", "boom")),
    "error and done": (WHOLE, Facts(error="boom", error_code="x", done=True), (Outcome.STREAM_ERROR, "x", "boom")),
    "failing finish": (WHOLE, Facts("abort", error="gave up", error_code="abort"), (Outcome.STREAM_ERROR, "abort", "gave up")),
    "nothing": (WHOLE, Facts(), (Outcome.STREAM_BROKEN, "no_finish_reason", UNFINISHED)),
    "done alone": (WHOLE, Facts(done=True), (Outcome.STREAM_BROKEN, "no_finish_reason", UNFINISHED)),
    "stray": (
        WHOLE, Facts(stray=1, stray_text="busy"), (Outcome.STREAM_BROKEN, "no_finish_reason", f'{UNFINISHED}; it held "busy"'),
    ),
    "broken": (BROKEN, Facts(), (Outcome.STREAM_BROKEN, "eof", "how it was cut")),
    "broken behind the finish": (BROKEN, Facts("stop"), (Outcome.OK, None, None)),
    "broken behind length": (BROKEN, Facts("length"), (Outcome.TRUNCATED, None, None)),
    "broken by its error": (BROKEN, Facts(error="boom", error_code="x"), (Outcome.STREAM_ERROR, "x", "boom")),
    "late": (LATE, Facts(), (Outcome.TIMEOUT, "between_chunks", "how it was cut")),
    "late with an error": (LATE, Facts(error="boom"), (Outcome.TIMEOUT, "between_chunks", "how it was cut")),
    "late behind the finish": (LATE, Facts("stop"), (Outcome.OK, None, None)),
    "cancelled": (CANCELLED, Facts(), (Outcome.CANCELLED, None, "how it was cut")),
    "cancelled behind the finish": (CANCELLED, Facts("stop"), (Outcome.OK, None, None)),
    "refused": (REFUSED, Facts(), (Outcome.RATE_LIMITED, "http_429", "how it was cut")),
    "not connected": (UNCONNECTED, Facts(), (Outcome.CONNECT_ERROR, "refused", "how it was cut")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_outcomes(name):
    ending, facts, expected = CASES[name]
    assert judge(ending, facts) == expected


ORDERED = {
    "length as ordered": ("length", 64, (Outcome.OK, None, None)),
    "stop though ordered": ("stop", 64, (Outcome.OK, None, None)),
    "length not ordered": ("length", None, (Outcome.TRUNCATED, None, None)),
}


@pytest.mark.parametrize("name", ORDERED)
def test_an_ordered_length_is_no_truncation(name):
    finish, ordered, expected = ORDERED[name]
    assert judge(WHOLE, Facts(finish), ordered) == expected


@pytest.mark.parametrize(
    ("facts", "outcome"),
    [
        (Facts("stop"), Outcome.REROUTED),
        (Facts("length"), Outcome.REROUTED),
        (Facts("content_filter"), Outcome.FILTERED),
        (Facts("stop", error="boom"), Outcome.STREAM_ERROR),
        (Facts(), Outcome.STREAM_BROKEN),
    ],
    ids=["stop", "length", "filtered", "error", "unfinished"],
)
def test_a_response_from_elsewhere_is_rerouted_unless_it_failed_anyway(facts, outcome):
    assert judge(WHOLE, facts, None, "answered by Other")[0] is outcome
    if outcome is Outcome.REROUTED:
        assert judge(WHOLE, facts, None, "answered by Other") == (outcome, "not_pinned", "answered by Other")


def test_messages_are_shortened():
    assert judge(WHOLE, Facts(error="x" * 600))[2] == "x" * (MESSAGE_CHARACTERS - 1) + "…"
    assert judge(WHOLE, Facts(error="x" * 500))[2] == "x" * 500


def test_messages_command_no_terminal():
    assert judge(WHOLE, Facts(error="\x1b[2J\u202eno\x9b"))[2] == "\ufffd[2J\ufffdno\ufffd"


def test_a_transport_error_as_an_ending():
    assert failed(TransportError("timeout", "total", "too long")) == (Outcome.TIMEOUT, "total", "too long")


DATE = "Mon, 30 Nov 2026 12:00:00 GMT"
WAITS = {
    "none": ({}, None),
    "seconds": ({"retry-after": "7"}, 7 * S),
    "blanks": ({"retry-after": " 7 "}, 7 * S),
    "fraction": ({"retry-after": "0.25"}, S // 4),
    "zero": ({"retry-after": "0"}, 0),
    "negative": ({"retry-after": "-3"}, 0),
    "ms": ({"retry-after-ms": "1500"}, 3 * S // 2),
    "ms goes first": ({"retry-after-ms": "1500", "retry-after": "2"}, 3 * S // 2),
    "bad ms": ({"retry-after-ms": "soon", "retry-after": "2"}, 2 * S),
    "date": ({"retry-after": "Mon, 30 Nov 2026 12:01:30 GMT", "date": DATE}, 90 * S),
    "date that has passed": ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT", "date": DATE}, 0),
    "words": ({"retry-after": "soon", "date": DATE}, None),
    "infinite": ({"retry-after": "inf"}, None),
    "not a number": ({"retry-after": "nan"}, None),
    "empty": ({"retry-after": ""}, None),
    "impossible date": ({"retry-after": "Mon, 99 Nov 2026 12:00:00 GMT", "date": DATE}, None),
    "a large number": ({"retry-after": "1e300"}, 86_400 * S),
    "a far date": ({"retry-after": "Fri, 31 Dec 9999 12:00:00 GMT", "date": DATE}, 86_400 * S),
    "repeated": ({"retry-after": "7, 9"}, None),
    "a year of 20 digits": ({"retry-after": "Mon, 01 Jan 99999999999999999999 12:00:00 GMT", "date": DATE}, None),
    "a zone of 20 digits": ({"retry-after": "Mon, 01 Jan 2026 12:00:00 +99999999999999999999", "date": DATE}, None),
}


@pytest.mark.parametrize("name", WAITS)
def test_retry_after(name):
    headers, expected = WAITS[name]
    assert retry_after_ns(headers) == expected


def test_a_date_without_the_servers_own_counts_from_the_wall_clock(monkeypatch):
    monkeypatch.setattr("r1perf.clock.wall_ns", lambda: 1_796_040_000 * S)  # 2026-11-30 12:00:00 UTC
    assert retry_after_ns({"retry-after": "Mon, 30 Nov 2026 12:00:05 GMT"}) == 5 * S
