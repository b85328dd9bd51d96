"""Messages over a way that loses, repeats and reorders: each arrives once, and in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.swarm.numbered import RESEND_NS, Numbered
from r1perf.swarm.wire import Frame, decode_frame, encode

S = 10**9


class Pair:
    """Two ends and what is under way between them."""

    def __init__(self):
        self.now_ns = 0
        self.to_b, self.to_a = [], []
        self.a = Numbered("r", self.to_b.append, lambda: self.now_ns)
        self.b = Numbered("r", self.to_a.append, lambda: self.now_ns)

    def calm(self):
        """Let everything that is sent from now on arrive, until nothing is repeated any more."""
        got_a, got_b = [], []
        for _ in range(8):
            while self.to_a or self.to_b:
                if self.to_b:
                    got_b += self.b.take(self.to_b.pop(0))
                if self.to_a:
                    got_a += self.a.take(self.to_a.pop(0))
            self.now_ns += RESEND_NS
            self.a.tick()
            self.b.tick()
        return got_a, got_b


def test_a_frame_on_the_wire():
    assert encode(Frame("r", 1, 0, b"x")).hex() == "94a1720100c40178"
    assert decode_frame(bytes.fromhex("94a1720100c40178")) == Frame("r", 1, 0, b"x")


def test_messages_arrive_in_order_and_are_acknowledged_by_what_comes_back():
    pair = Pair()
    pair.a.send(b"1")
    pair.a.send(b"2")
    first, second = pair.to_b
    assert pair.b.take(second) == []
    assert pair.b.take(first) == [b"1", b"2"]
    assert pair.b.take(first) == []
    pair.b.send(b"answer")
    assert not pair.a.settled
    assert pair.a.take(pair.to_a.pop()) == [b"answer"]
    assert pair.a.settled
    assert not pair.b.settled


def test_what_is_not_acknowledged_is_repeated_and_nothing_else():
    pair = Pair()
    pair.a.send(b"1")
    pair.to_b.clear()
    pair.now_ns = RESEND_NS - 1
    pair.a.tick()
    assert pair.to_b == []
    pair.now_ns = RESEND_NS
    pair.a.tick()
    assert pair.to_b == [Frame("r", 1, 0, b"1")]
    pair.now_ns += RESEND_NS - 1
    pair.a.tick()
    assert len(pair.to_b) == 1, "once in so long"
    pair.b.take(pair.to_b.pop())
    pair.b.tick()
    assert pair.to_a == [Frame("r", 0, 1, b"")]
    pair.b.tick()
    assert len(pair.to_a) == 1, "an acknowledgement is said once"
    pair.a.take(pair.to_a.pop())
    pair.now_ns += 2 * RESEND_NS
    pair.a.tick()
    assert pair.to_b == []


def test_what_has_its_own_acknowledgement_is_neither_numbered_nor_repeated():
    pair = Pair()
    pair.a.post(b"report")
    assert pair.a.settled
    (frame,) = pair.to_b
    assert frame.number == 0
    assert pair.b.take(frame) == [b"report"]
    assert pair.b.take(frame) == [b"report"]
    pair.b.tick()
    assert pair.to_a == []


STEP = st.one_of(
    st.tuples(st.just("send"), st.booleans()),  # from a?
    st.tuples(st.just("arrive"), st.booleans(), st.integers(0, 20), st.booleans()),  # at a? which one? does it stay under way?
    st.tuples(st.just("lose"), st.booleans(), st.integers(0, 20)),
    st.tuples(st.just("tick"), st.integers(0, 4)),
)


@given(st.lists(STEP, max_size=60))
def test_whatever_the_way_does_each_message_arrives_once_and_in_order(steps):
    pair = Pair()
    sent = {True: [], False: []}  # by who sent it: a?
    got = {True: [], False: []}  # by who sent it
    for step in steps:
        if step[0] == "send":
            body = f"{len(sent[step[1]])}".encode()
            sent[step[1]].append(body)
            (pair.a if step[1] else pair.b).send(body)
        elif step[0] == "tick":
            pair.now_ns += step[1] * S
            pair.a.tick()
            pair.b.tick()
        else:
            under_way = pair.to_a if step[1] else pair.to_b
            if not under_way:
                continue
            at = step[2] % len(under_way)
            frame = under_way[at]
            if step[0] == "lose" or not step[3]:
                del under_way[at]
            if step[0] == "arrive":
                got[not step[1]] += (pair.a if step[1] else pair.b).take(frame)
        assert all(got[who] == sent[who][: len(got[who])] for who in got)
    rest_a, rest_b = pair.calm()
    assert got[False] + rest_a == sent[False]
    assert got[True] + rest_b == sent[True]
    assert pair.a.settled
    assert pair.b.settled
    assert not pair.a._early | pair.b._early, "what came twice is not kept"


@pytest.mark.parametrize("number", [0, 1])
def test_an_empty_message_only_acknowledges(number):
    pair = Pair()
    assert pair.b.take(Frame("r", number, 0, b"")) == ([b""] if number else [])
