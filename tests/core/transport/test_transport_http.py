"""The transport over real sockets on 127.0.0.1: reuse, endings, deadlines, descriptors."""

import gc
import os
import resource
import socket
import threading

import pytest
from exchanges import HEAD, LAST, MS, PONG, POST, Taker, fails, pong
from loopback import Loopback

from r1perf.errors import TargetError, TransportError
from r1perf.loop import Cancelled
from r1perf.transport import HttpRequest
from r1perf.transport.http import HttpTransport
from r1perf.transport.pool import REST_NS, Pool


def test_a_request_as_it_is_written_and_its_response(loop, connected):
    with Loopback(pong) as server:
        taker = Taker(loop)
        exchange = connected(server.port).exchange(POST, taker)
        assert server.requests == [
            b"POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAccept: */*\r\nContent-Length: 4\r\n\r\nping" % server.port
        ]
        assert (taker.status, taker.body, taker.local_port) == (200, b"pong", exchange.local_port)
        assert exchange.connect_ns == taker.connect_ns > 0
        assert taker.stamps == [exchange.done_ns]


def test_a_connection_is_used_again_and_says_so(loop, connected):
    with Loopback(pong) as server:
        transport = connected(server.port)
        exchanges = [transport.exchange(POST, Taker(loop)) for _ in range(5)]
        assert server.connections == 1
        assert [exchange.connect_ns is None for exchange in exchanges] == [False, True, True, True, True]
        assert len({exchange.local_port for exchange in exchanges}) == 1
        assert transport._pool._idle[0]._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


def test_the_last_used_connection_is_taken_first_and_there_is_no_cap(loop, connected):
    with Loopback(pong) as server:
        transport = connected(server.port)
        ports = []
        tasks = [loop.spawn(lambda: ports.append(transport.exchange(POST, Taker(loop)).local_port)) for _ in range(150)]
        assert all(task.join(loop.now_ns() + 10_000 * MS) for task in tasks)
        assert server.connections == len(set(ports)) == 150
        assert transport.exchange(POST, Taker(loop)).local_port == ports[-1]
        assert transport.exchange(POST, Taker(loop)).local_port == ports[-1]


class Idle:
    """A connection as the pool sees it."""

    def __init__(self, open=True, chunked=False):
        self.open, self.closed, self.idle_since_ns, self.chunked = open, False, 0, chunked

    def alive(self):
        return self.open

    def close(self):
        self.closed = True


def test_connections_are_idle_for_4_s_at_most():
    idle, kept, old, dead = Pool(), Idle(), Idle(), Idle(open=False)
    idle.put(old, 0)
    idle.put(kept, 1)
    idle.put(dead, 2)
    assert idle.take(4_000_000_001) is kept
    assert (old.closed, dead.closed, kept.closed, len(idle)) == (True, True, False, 0)
    assert idle.take(4_000_000_001) is None


def test_old_connections_are_closed_when_others_are_put_back():
    idle, old, new = Pool(), Idle(), Idle()
    idle.put(old, 0)
    idle.put(new, 4_000_000_001)
    assert (old.closed, len(idle)) == (True, 1)
    idle.close()
    assert (new.closed, len(idle)) == (True, 0)


def test_connections_rest_behind_chunks_until_one_has_been_used_again():
    """Some servers close each behind a stream, and a moment later than its last chunk."""
    idle, plain, streamed = Pool(), Idle(), Idle(chunked=True)
    idle.put(plain, 0)
    idle.put(streamed, 1)
    assert [idle.take(50 * MS), idle.take(50 * MS), idle.take(50 * MS + 1)] == [plain, None, streamed]
    idle.put(streamed, 60 * MS)
    assert idle.take(60 * MS) is None
    idle.prove()
    assert idle.take(60 * MS) is streamed


@pytest.mark.parametrize("closes", [True, False])
def test_a_server_that_closes_behind_a_stream_is_no_fault_of_a_request(loop, connected, closes):
    """It says nothing of it, and the end of the connection comes after the last chunk: by then another request may have been sent."""
    sent = threading.Event()

    def handle(peer):
        while peer.request():
            peer.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\npong\r\n0\r\n\r\n")
            if closes:
                sent.wait(10)
                return

    with Loopback(handle) as server:
        transport = connected(server.port)
        transport.exchange(POST, Taker(loop))
        assert transport.exchange(POST, Taker(loop)).connect_ns is not None  # not on the first one, however early it comes
        sent.set()
        loop.sleep_until(loop.now_ns() + REST_NS)
        connections = {transport.exchange(POST, Taker(loop)).local_port for _ in range(3)}
        assert (len(connections), server.connections) == ((3, 5) if closes else (1, 2))


@pytest.mark.parametrize("farewell", ["close", "reset", "bytes"])
def test_a_connection_that_was_closed_or_talks_is_not_used_again(loop, connected, farewell):
    answered = threading.Event()

    def handle(peer):
        peer.request()
        peer.send(PONG)
        if peer.number == 1:
            answered.wait(10)
            if farewell == "bytes":
                peer.send(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
                peer.closed()
            elif farewell == "reset":
                peer.reset()
        else:
            peer.closed()

    with Loopback(handle) as server:
        transport = connected(server.port)
        transport.exchange(POST, Taker(loop))
        answered.set()
        idle = transport._pool._idle[0]._sock
        readable = loop.event()
        watch = loop.watch(idle.fileno(), readable.set)
        watch.start()
        assert readable.wait(loop.now_ns() + 10_000 * MS)  # the farewell is here
        watch.close()
        assert transport.exchange(POST, Taker(loop)).connect_ns is not None
        assert server.connections == 2
        assert len(server.requests) == 2


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_reused_connection_that_dies_unanswered_is_stale_and_nothing_is_sent_twice(loop, connected, how):
    def handle(peer):
        peer.request()
        peer.send(PONG)
        peer.request()
        if how == "reset":
            peer.reset()

    with Loopback(handle) as server:
        transport = connected(server.port)
        transport.exchange(POST, Taker(loop))
        assert fails(loop, transport) == ("connect_error", "stale_connection", b"")
        assert (server.connections, len(server.requests)) == (1, 2)


def closes(peer):
    peer.request()


def resets(peer):
    peer.request()
    peer.reset()


def closes_in_head(peer):
    peer.request()
    peer.send(b"HTTP/1.1 200 OK\r\nContent-")


def closes_in_chunk(peer):
    peer.request()
    peer.send(HEAD + b"5\r\nhello\r\n5\r\nwo")


def no_http(peer):
    peer.request()
    peer.send(b"220 smtp.example ESMTP\r\n")
    peer.closed()


ENDINGS = {
    "closes": (closes, ("connect_error", "eof", b"")),
    "resets": (resets, ("connect_error", "reset", b"")),
    "closes in head": (closes_in_head, ("stream_broken", "eof", b"")),
    "closes in chunk": (closes_in_chunk, ("stream_broken", "eof", b"hellowo")),
    "no http": (no_http, ("stream_broken", "protocol", b"")),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_new_connection_that_ends_wrongly(loop, connected, name):
    handle, expected = ENDINGS[name]
    with Loopback(handle) as server:
        transport = connected(server.port)
        assert fails(loop, transport) == expected
        assert (server.connections, len(server.requests), len(transport._pool)) == (1, 1, 0)


def test_a_reset_within_the_body_gives_what_came(loop, connected):
    got = threading.Event()

    def handle(peer):
        peer.request()
        peer.send(HEAD + b"5\r\nhello\r\n")
        got.wait(10)
        peer.reset()

    class Noting(Taker):
        def on_body(self, now_ns, data):
            got.set()
            return super().on_body(now_ns, data)

    with Loopback(handle) as server:
        taker = Noting(loop)
        with pytest.raises(TransportError) as caught:
            connected(server.port).exchange(POST, taker)
        assert (caught.value.outcome, caught.value.reason, taker.body) == ("stream_broken", "reset", b"hello")


def test_a_body_until_the_end_of_the_connection(loop, connected):
    def handle(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello")

    with Loopback(handle) as server:
        transport, taker = connected(server.port), Taker(loop)
        transport.exchange(POST, taker)
        assert (taker.body, len(transport._pool)) == (b"hello", 0)


def test_connection_close_is_obeyed(loop, connected):
    def handle(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\npong")
        peer.closed()

    with Loopback(handle) as server:
        transport = connected(server.port)
        for _ in range(2):
            transport.exchange(POST, Taker(loop))
        assert server.connections == 2


def test_an_answer_before_its_framing_ends_is_kept_for_reuse_when_the_framing_follows(loop, connected):
    def handle(peer):
        while peer.request():
            peer.send(HEAD + b"6\r\n[DONE]\r\n")
            answered.wait(10)
            peer.send(LAST)

    answered = threading.Event()

    class Noting(Taker):
        def on_body(self, now_ns, data):
            answered.set()
            return super().on_body(now_ns, data)

    with Loopback(handle) as server:
        transport = connected(server.port)
        first = Noting(loop, stop=b"[DONE]")
        exchange = transport.exchange(POST, first)
        assert exchange.done_ns == first.stamps[0]
        loop.sleep_until(loop.now_ns() + REST_NS)
        assert transport.exchange(POST, Noting(loop, stop=b"[DONE]")).connect_ns is None
        assert server.connections == 1


def test_an_answer_whose_framing_never_ends_costs_the_connection_only(loop, connected):
    def handle(peer):
        peer.request()
        peer.send(HEAD + b"6\r\n[DONE]\r\n")
        peer.closed()

    with Loopback(handle) as server:
        transport, taker = connected(server.port), Taker(loop, stop=b"[DONE]")
        exchange = transport.exchange(POST, taker)
        assert (taker.body, exchange.done_ns, len(transport._pool)) == (b"[DONE]", taker.stamps[0], 0)


def test_a_reset_behind_the_answer_costs_the_connection_only(loop, connected):
    answered = threading.Event()

    def handle(peer):
        peer.request()
        peer.send(HEAD + b"6\r\n[DONE]\r\n")
        answered.wait(10)
        peer.reset()

    class Noting(Taker):
        def on_body(self, now_ns, data):
            answered.set()
            return super().on_body(now_ns, data)

    with Loopback(handle) as server:
        transport, taker = connected(server.port), Noting(loop, stop=b"[DONE]")
        exchange = transport.exchange(POST, taker)
        assert (taker.body, exchange.done_ns, len(transport._pool)) == (b"[DONE]", taker.stamps[0], 0)


def test_a_large_request_is_sent_in_parts_and_an_early_refusal_is_read(loop, connected):
    big = HttpRequest("POST", "/v1/x", (), b"x" * 8_000_000)

    def refuse(peer):
        peer.sock.recv(1000)
        peer.send(b"HTTP/1.1 413 Payload Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
        peer.closed()

    with Loopback(pong) as server:
        taker = Taker(loop)
        connected(server.port).exchange(big, taker)
        assert (taker.body, len(server.requests[0].partition(b"\r\n\r\n")[2])) == (b"pong", 8_000_000)
    with Loopback(refuse) as server:
        taker = Taker(loop)
        connected(server.port).exchange(big, taker)
        assert (taker.status, taker.body) == (413, b"big")


def test_a_deadline_is_asked_again_when_it_has_passed_and_only_then(loop, connected):
    def handle(peer):
        peer.request()
        peer.send(HEAD + b"5\r\nhello\r\n")
        peer.closed()

    class Later(Taker):
        asked = 0

        def deadline_ns(self):
            self.asked += 1
            return (loop.now_ns() + 5 * MS, "first_chunk") if self.asked < 4 else (loop.now_ns() - 1, "between_chunks")

    with Loopback(handle) as server:
        transport, taker = connected(server.port), Later(loop)
        with pytest.raises(TransportError) as caught:
            transport.exchange(POST, taker)
        assert (caught.value.outcome, caught.value.reason, taker.asked) == ("timeout", "between_chunks", 4)
        assert taker.body == b"hello"
        assert len(transport._pool) == 0


def test_a_cancelled_exchange_closes_its_connection(loop, connected):
    gone = []

    def handle(peer):
        peer.request()
        peer.send(HEAD)
        peer.closed()
        gone.append(True)

    with Loopback(handle) as server:
        transport, seen = connected(server.port), []

        def main():
            try:
                transport.exchange(POST, Taker(loop))
            except Cancelled:
                seen.append("cancelled")
                raise

        task = loop.spawn(main)
        while not transport._active or not server.requests:
            loop.sleep_until(loop.now_ns() + MS)
        task.cancel()
        assert task.join(loop.now_ns() + 10_000 * MS)
        assert (seen, transport._active) == (["cancelled"], set())
    assert gone == [True]


def test_closing_the_transport_ends_what_is_running(loop, connected):
    def handle(peer):
        peer.request()
        peer.closed()

    with Loopback(handle) as server:
        transport, seen = connected(server.port), []
        task = loop.spawn(lambda: seen.append(fails(loop, transport)))
        while not server.requests:
            loop.sleep_until(loop.now_ns() + MS)
        transport.close()
        assert task.join(loop.now_ns() + 10_000 * MS)
        assert seen == [("stream_broken", "closed", b"")]


def test_an_error_of_the_receiver_comes_out_where_the_task_waits(loop, connected):
    class Broken(Taker):
        def on_body(self, now_ns, data):
            raise LookupError("broken")

    with Loopback(pong) as server:
        transport = connected(server.port)
        with pytest.raises(LookupError, match="broken"):
            transport.exchange(POST, Broken(loop))
        assert len(transport._pool) == 0


def test_a_refused_connection(loop, connected):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: refused
        assert fails(loop, connected(taken.getsockname()[1])) == ("connect_error", "refused", b"")


def test_a_name_that_does_not_exist(loop, connected, monkeypatch):
    def nobody(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(loop, "resolve", nobody, raising=False)
    assert fails(loop, connected(80, host="no.such.host.invalid")) == ("connect_error", "dns", b"")


def test_a_resolver_that_hangs_ends_with_the_connect_timeout(loop, connected, monkeypatch):
    ended = loop.event()

    def hang(host, port):
        try:
            loop.sleep_until(loop.now_ns() + 60_000 * MS)
        finally:
            ended.set()

    monkeypatch.setattr(loop, "resolve", hang, raising=False)
    assert fails(loop, connected(80, host="slow.invalid", connect_ms=20)) == ("timeout", "connect", b"")
    assert ended.wait(loop.now_ns() + 10_000 * MS)


def test_a_host_that_never_answers_ends_with_the_connect_timeout(loop, connected):
    with socket.socket() as full:  # a listener whose queue is full drops what comes
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        fillers = []
        try:
            for _ in range(4):
                filler = socket.socket()
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
                fillers.append(filler)
            assert fails(loop, connected(port, connect_ms=30)) == ("timeout", "connect", b"")
        finally:
            for filler in fillers:
                filler.close()


def test_addresses_are_tried_in_turn_within_the_connect_time(loop, connected, monkeypatch):
    with Loopback(pong) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        addresses = [(socket.AF_INET, ("127.0.0.1", taken.getsockname()[1])), (socket.AF_INET, ("127.0.0.1", server.port))]
        monkeypatch.setattr(loop, "resolve", lambda host, port: addresses, raising=False)
        taker = Taker(loop)
        connected(80, host="two.invalid").exchange(POST, taker)
        assert taker.body == b"pong"
        addresses.pop()
        assert fails(loop, connected(80, host="one.invalid")) == ("connect_error", "refused", b"")


def test_ipv6(loop, connected):
    try:
        server = Loopback(pong, family=socket.AF_INET6)
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    with server:
        taker = Taker(loop)
        connected(server.port, host="[::1]").exchange(POST, taker)
        assert taker.body == b"pong"
        assert b"\r\nHost: [::1]:%d\r\n" % server.port in server.requests[0]


@pytest.fixture
def file_limits():
    """Put the limit of open files back."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield limits
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_descriptors_over_1024_work_and_are_used_again(loop, connected, file_limits):
    with Loopback(pong) as server:
        transport = connected(server.port)
        if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2000:
            pytest.skip("this machine allows fewer than 2000 open files")
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        try:
            transport.exchange(POST, Taker(loop))
            assert transport._pool._idle[0]._sock.fileno() > 1024
            assert transport.exchange(POST, Taker(loop)).connect_ns is None
        finally:
            for fd in held:
                os.close(fd)


def test_no_more_descriptors_is_one_clear_error(loop, connected, file_limits):
    transport = connected(1)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        with pytest.raises(TransportError, match=r"ulimit -n") as caught:
            transport.exchange(POST, Taker(loop))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (caught.value.outcome, caught.value.reason) == ("connect_error", "open_files")


@pytest.mark.parametrize("last", [b"", b"Connection: close\r\n"], ids=["kept", "closed"])
def test_nothing_of_an_exchange_waits_for_the_cycle_collector(loop, connected, last):
    def handle(peer):
        while peer.request():
            peer.send(PONG.replace(b"Content", last + b"Content"))

    with Loopback(handle) as server:
        transport = connected(server.port)
        transport.exchange(POST, Taker(loop))
        gc.collect()
        gc.disable()
        try:
            gc.set_debug(gc.DEBUG_SAVEALL)
            for _ in range(3):
                transport.exchange(POST, Taker(loop))
            gc.collect()
            left = [thing for thing in gc.garbage if type(thing).__module__.startswith(("r1perf", "httptools"))]
            assert left == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


@pytest.mark.parametrize(
    "url", ["ftp://h/v1", "h:80/v1", "http://", "http://h:99999/v1", "http://user:secret@h/v1", "http://[::1/v1"], ids=str
)
def test_a_url_that_is_no_target(loop, url):
    with pytest.raises(TargetError) as caught:
        HttpTransport(loop, url, connect_timeout_ns=MS)
    assert "secret" not in str(caught.value)
