"""The splitter follows the WHATWG rules whatever the reads are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf import sse
from r1perf.errors import TransportError
from r1perf.sse import Splitter


def split(*reads):
    splitter = Splitter()
    events = [event for read in reads for event in splitter.feed(read)]
    return events + splitter.end(), splitter.comments


@pytest.mark.parametrize(
    ("reads", "events", "comments"),
    [
        pytest.param([b'data: {"a":1}\n\n'], [(b'{"a":1}', "")], 0, id="one event"),
        pytest.param([b"data: a\n\n", b'data: {"a":1}\n\n'], [(b"a", ""), (b'{"a":1}', "")], 0, id="the fast way, later"),
        pytest.param([b"data:a\n\n"], [(b"a", "")], 0, id="no space"),
        pytest.param([b"data:  a \n\n"], [(b" a ", "")], 0, id="only one space is syntax"),
        pytest.param([b"data\n\n"], [(b"", "")], 0, id="no colon"),
        pytest.param([b"data: a\ndata: b\n\n"], [(b"a\nb", "")], 0, id="two lines"),
        pytest.param([b"data: a\r\ndata: b\r\n\r\n"], [(b"a\nb", "")], 0, id="crlf"),
        pytest.param([b"data: a\r\rdata: b\r\r"], [(b"a", ""), (b"b", "")], 0, id="cr"),
        pytest.param([b"data: a\r", b"\n\r", b"\ndata: b\r", b"\n\r\n"], [(b"a", ""), (b"b", "")], 0, id="crlf cut in two"),
        pytest.param([b"data: a\r", b"\ndata: b\r\n\r\n"], [(b"a\nb", "")], 0, id="crlf cut in two within an event"),
        pytest.param([b"", b'data: {"a":1}\n\n', b"\xef\xbb\xbfdata: b\n\n"], [(b'{"a":1}', "")], 0, id="an empty read first"),
        pytest.param([b"data: a\r", b"\r", b"\n"], [(b"a", "")], 0, id="cr, then crlf"),
        pytest.param([b"data: a\n\r\n"], [(b"a", "")], 0, id="lf, then crlf"),
        pytest.param([b"\n\n\ndata: a\n\n\n\ndata: b\n\n"], [(b"a", ""), (b"b", "")], 0, id="blank lines"),
        pytest.param([b"\xef\xbb", b"\xbfdata: a\n\n"], [(b"a", "")], 0, id="bom cut in two"),
        pytest.param([b"data: a\n\n\xef\xbb\xbfdata: b\n\n"], [(b"a", "")], 0, id="a later bom is no bom"),
        pytest.param([b": x\n\n:\n\n:y\ndata: a\n\n"], [(b"a", "")], 3, id="comments"),
        pytest.param([b"event: e\ndata: a\n\ndata: b\n\n"], [(b"a", "e"), (b"b", "")], 0, id="a name is for one event"),
        pytest.param([b"event: ping\n\n"], [], 0, id="no data, no event"),
        pytest.param([b"event: error\n: why\n: really\n\n"], [(b"why\nreally", "error")], 2, id="an error is its comment"),
        pytest.param([b"id: 1\nretry: 5\nfoo: bar\ndata: a\n\n"], [(b"a", "")], 0, id="other fields"),
        pytest.param([b"Data: a\n data: b\n\n"], [], 0, id="field names are exact"),
        pytest.param([b"data: \xf0\x9f", b"\x99\x82\n\n"], [("🙂".encode(), "")], 0, id="utf-8 cut in two"),
        pytest.param([b"data: a\n\ndata: b"], [(b"a", ""), (b"b", "")], 0, id="no last blank line"),
        pytest.param([b"data: a\n"], [(b"a", "")], 0, id="half a blank line"),
        pytest.param([b"", b"data: a\n", b"", b"\n"], [(b"a", "")], 0, id="empty reads"),
        pytest.param([b"data: {\n\n", b"data: {}\rdata: x\n\n"], [(b"{", ""), (b"{}\nx", "")], 0, id="cr inside the fast way"),
    ],
)
def test_reads_give_events(reads, events, comments):
    assert split(*reads) == (events, comments)


def by_the_book(stream):
    """Follow the standard's own steps, line by line."""
    text = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    lines = text.split(b"\n")
    events, data, name, comments, words = [], [], "", 0, []
    for line in [*lines, b""]:
        if not line:
            if data:
                events.append((b"\n".join(data), name))
            elif name == "error":
                events.append((b"\n".join(words), name))
            data, name, words = [], "", []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode()
        elif field == b"":
            comments += 1
            words.append(value)
    return events, comments


PIECES = [
    b"data", b"data: ", b"data:", b'data: {"a":"b"}\n\n', b"event: ", b"error", b": ", b":", b" ", b"x", b"{", b"\n", b"\n\n", b"\r", b"\r\n",
    b"\xef\xbb\xbf", "é".encode(), b"data: a\r\n", b"data: b\n", b": c\r", b'data: {"a":1}\n\n',
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.data())
def test_any_split_of_any_stream_is_what_the_standard_says(stream, data):
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    reads = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert split(*reads) == by_the_book(stream)


def test_an_endless_event_is_an_error_and_not_memory(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    splitter = Splitter()
    splitter.feed(b"data: " + b"x" * 994)
    with pytest.raises(TransportError, match="longer than") as caught:
        splitter.feed(b"x")
    assert (caught.value.outcome, caught.value.reason) == ("stream_broken", "event_too_large")


def test_many_events_may_be_longer_than_one(monkeypatch):
    monkeypatch.setattr(sse, "MAX_EVENT_BYTES", 1000)
    events, _ = split(*[b"data: " + b"x" * 900 + b"\n\n"] * 10)
    assert len(events) == 10
