"""One response as bytes, in every framing, whole and cut anywhere."""

import gzip
import zlib
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from r1perf.errors import TransportError
from r1perf.transport.response import Response


class Taker:
    """Note what a receiver is told; `stop` is the body text after which the answer is complete."""

    def __init__(self, stop=None):
        self.head = None
        self.body = b""
        self.calls = []
        self.stop = stop

    def on_connection(self, connect_ns, local_port):
        raise AssertionError("the response knows no connection")

    def on_head(self, now_ns, status, headers):
        assert self.head is None
        self.head = (status, dict(headers))

    def on_body(self, now_ns, data):
        assert self.head is not None
        assert data
        self.body += data
        self.calls.append((now_ns, data))
        return self.stop is not None and self.stop in self.body

    def deadline_ns(self):
        raise AssertionError("the response knows no time")


def chunked(*parts, trailer=b""):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n" + trailer + b"\r\n"


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n"
TEXT = b"data: one\n\ndata: two\n\n" * 3
EVENTS = (b"data: one\n\n", b"data: two\n\n")


def sized(data, *headers):
    return OK + b"".join(header + b"\r\n" for header in headers) + b"Content-Length: %d\r\n\r\n" % len(data) + data


# name: (wire, method, status, body, keep_alive)
WHOLE = {
    "content-length": (sized(TEXT), "POST", 200, TEXT, True),
    "content-length 0": (sized(b""), "POST", 200, b"", True),
    "chunked": (CHUNKED + b"\r\n" + chunked(*EVENTS), "POST", 200, b"".join(EVENTS), True),
    "chunk extension": (CHUNKED + b"\r\n5;x=y\r\nhello\r\n0\r\n\r\n", "POST", 200, b"hello", True),
    "trailers": (CHUNKED + b"\r\n" + chunked(b"x", trailer=b"X-Later: 1\r\n"), "POST", 200, b"x", True),
    "connection close": (CHUNKED + b"Connection: close\r\n\r\n" + chunked(b"x"), "POST", 200, b"x", False),
    "http/1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "POST", 200, b"x", False),
    "http/1.0 keep-alive": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx", "POST", 200, b"x", True),
    "interim 100": (b"HTTP/1.1 100 Continue\r\nX-Early: 1\r\n\r\n" + sized(b"x"), "POST", 200, b"x", True),
    "interim 103 twice": (b"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n" * 2 + sized(b"x"), "POST", 200, b"x", True),
    "204": (b"HTTP/1.1 204 No Content\r\n\r\n", "POST", 204, b"", True),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "GET", 304, b"", True),
    "head": (OK + b"Content-Length: 9\r\n\r\n", "HEAD", 200, b"", True),
    "status without reason": (b"HTTP/1.1 429 \r\nContent-Length: 4\r\n\r\nslow", "POST", 429, b"slow", True),
    "empty header": (OK + b"X-Empty:\r\nContent-Length: 1\r\n\r\nx", "POST", 200, b"x", True),
    "gzip": (sized(gzip.compress(TEXT), b"Content-Encoding: gzip"), "POST", 200, TEXT, True),
    "gzip members": (sized(gzip.compress(b"a") + gzip.compress(b"b"), b"Content-Encoding: gzip"), "POST", 200, b"ab", True),
    "gzip chunked": (CHUNKED + b"Content-Encoding: GZIP\r\n\r\n" + chunked(gzip.compress(TEXT)), "POST", 200, TEXT, True),
    "gzip of nothing": (sized(b"", b"Content-Encoding: gzip"), "POST", 200, b"", True),
    "deflate": (sized(zlib.compress(TEXT), b"Content-Encoding: deflate"), "POST", 200, TEXT, True),
    "raw deflate": (sized(raw_deflate(TEXT), b"Content-Encoding: deflate"), "POST", 200, TEXT, True),
    "identity": (sized(TEXT, b"Content-Encoding: identity"), "POST", 200, TEXT, True),
    "second response": (sized(b"x") + sized(b"y"), "POST", 200, b"x", False),
    "garbage behind": (sized(b"x") + b"\x00\x01", "POST", 200, b"x", False),
    "behind close": (OK + b"Connection: close\r\nContent-Length: 1\r\n\r\nxyz", "POST", 200, b"x", False),
}
UNTIL_EOF = {
    "no length": (OK + b"\r\n" + TEXT, TEXT),
    "no length, empty": (OK + b"\r\n", b""),
    "http/1.0": (b"HTTP/1.0 200 OK\r\n\r\n" + TEXT, TEXT),
    "gzip": (OK + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(TEXT), TEXT),
}
# name: (wire, reason, body that is still given)
BROKEN = {
    "not http": (b"SSH-2.0-OpenSSH_9.2\r\n", "protocol", b""),
    "tls alert": (b"\x15\x03\x01\x00\x02\x02\x46", "protocol", b""),
    "http/2": (b"\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03", "protocol", b""),
    "bad chunk size": (CHUNKED + b"\r\n5\r\nhello\r\nzz\r\n", "protocol", b"hello"),
    "chunk too long": (CHUNKED + b"\r\n5\r\nhelloworld\r\n", "protocol", b"hello"),
    "length and chunked": (CHUNKED + b"Content-Length: 3\r\n\r\n", "protocol", b""),
    "two lengths": (OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\n", "protocol", b""),
    "switching": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", "protocol", b""),
    "brotli": (sized(b"x", b"Content-Encoding: br"), "protocol", b""),
    "damaged gzip": (sized(b"not gzip at all", b"Content-Encoding: gzip"), "protocol", b""),
    "cut gzip": (sized(gzip.compress(b"")[:-4], b"Content-Encoding: gzip"), "eof", b""),
    "cut in head": (OK + b"Content-Le", "eof", b""),
    "cut in chunk": (CHUNKED + b"\r\n5\r\nhel", "eof", b"hel"),
    "cut before last chunk": (CHUNKED + b"\r\n5\r\nhello\r\n", "eof", b"hello"),
    "cut before length": (OK + b"Content-Length: 9\r\n\r\nhello", "eof", b"hello"),
    "only interim": (b"HTTP/1.1 100 Continue\r\n\r\n", "eof", b""),
}


def read(pieces, method="POST", eof=False, stop=None):
    """Feed the pieces, one a ns; return the response, what its receiver was told and the reason of the failure."""
    taker = Taker(stop)
    response = Response(taker, method)
    now_ns = 0
    try:
        for now_ns, piece in enumerate(pieces, 1):
            response.feed(now_ns, piece)
        if eof:
            response.end(now_ns + 1)
    except TransportError as error:
        return response, taker, (error.outcome, error.reason)
    finally:
        response.release()
    return response, taker, None


def cut(wire, places):
    edges = [0, *sorted({place % len(wire) for place in places} - {0}), len(wire)]
    return [wire[a:b] for a, b in pairwise(edges)]


cuts = st.lists(st.integers(0, 2000), max_size=12)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_response(name):
    wire, method, status, body, keep_alive = WHOLE[name]
    response, taker, reason = read([wire], method)
    assert (reason, taker.head[0], taker.body, response.complete, response.keep_alive) == (None, status, body, True, keep_alive)
    assert response.done_ns == 1


@pytest.mark.parametrize("name", WHOLE)
@given(places=cuts)
def test_any_split_of_a_whole_response_is_the_same(name, places):
    wire, method, status, body, keep_alive = WHOLE[name]
    response, taker, reason = read(cut(wire, places), method)
    assert (reason, taker.head[0], taker.body, response.complete, response.keep_alive) == (None, status, body, True, keep_alive)
    assert taker.head == read([wire], method)[1].head


@pytest.mark.parametrize("name", WHOLE)
def test_byte_by_byte(name):
    wire, method, _, body, keep_alive = WHOLE[name]
    response, taker, reason = read([wire[i : i + 1] for i in range(len(wire))], method)
    assert (reason, taker.body, response.complete, response.keep_alive) == (None, body, True, keep_alive)


@pytest.mark.parametrize("name", UNTIL_EOF)
@given(places=cuts)
def test_a_body_may_end_with_the_connection(name, places):
    wire, body = UNTIL_EOF[name]
    response, taker, reason = read(cut(wire, places), eof=True)
    assert (reason, taker.body, response.complete, response.keep_alive) == (None, body, True, False)
    assert not read(cut(wire, places))[0].complete


@pytest.mark.parametrize("name", BROKEN)
@given(places=cuts)
def test_what_is_broken_has_its_reason_and_gives_what_came(name, places):
    wire, expected, body = BROKEN[name]
    _, taker, reason = read(cut(wire, places), eof=True)
    assert (reason, taker.body) == (("stream_broken", expected), body)


def test_headers_are_lower_case_and_repeated_ones_joined_and_trailers_ignored():
    wire = CHUNKED + b"X-A: 1\r\nx-a:  2 \r\nX-B: \xe9\r\n\r\n" + chunked(b"x", trailer=b"X-A: 3\r\n")
    _, taker, _ = read([wire])
    assert taker.head == (200, {"transfer-encoding": "chunked", "x-a": "1, 2", "x-b": "é"})


def test_the_headers_of_an_interim_response_are_not_those_of_the_final_one():
    assert read([WHOLE["interim 100"][0]])[1].head == (200, {"content-length": "1"})


def test_chunks_of_one_read_are_given_in_one_call_with_its_stamp():
    _, taker, _ = read([CHUNKED + b"\r\n", b"1\r\na\r\n1\r\nb\r\n", b"1\r\nc\r\n0\r\n\r\n"])
    assert taker.calls == [(2, b"ab"), (3, b"c")]


def test_the_answer_may_end_before_its_framing():
    head = CHUNKED + b"\r\n"
    response, taker, _ = read([head, b"6\r\n[DONE]\r\n"], stop=b"[DONE]")
    assert (response.answered, response.complete, response.done_ns) == (True, False, 2)
    response, taker, _ = read([head, b"6\r\n[DONE]\r\n", b"0\r\n\r\n"], stop=b"[DONE]")
    assert (response.answered, response.complete, response.done_ns, response.keep_alive) == (True, True, 2, True)
    assert taker.body == b"[DONE]"


def test_what_a_receiver_raises_comes_through():
    taker = Taker()
    taker.on_body = None
    with pytest.raises(TypeError):
        Response(taker).feed(1, sized(b"x"))
