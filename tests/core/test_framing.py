"""Framing gives back the same messages for every split of the bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.framing import Unframer, frame


@given(st.lists(st.binary(max_size=300)), st.lists(st.integers(min_value=1, max_value=50)))
def test_any_split_gives_the_same_messages(messages, cuts):
    stream, unframer, got = b"".join(map(frame, messages)), Unframer(), []
    for cut in cuts:
        got += unframer.feed(stream[:cut])
        stream = stream[cut:]
    got += unframer.feed(stream)
    assert got == messages
    assert unframer.rest == 0


def test_a_cut_off_message_stays_in_the_rest():
    unframer = Unframer()
    assert unframer.feed(frame(b"abc") + frame(b"defg")[:-1]) == [b"abc"]
    assert unframer.rest == 7


def test_a_length_that_cannot_be_is_refused():
    with pytest.raises(ValueError, match="2147483647 bytes was announced"):
        Unframer().feed(b"\x7f\xff\xff\xff")
