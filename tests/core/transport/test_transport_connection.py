"""One connection, read by read, on virtual time: what ends an exchange, and whether another may follow."""

import pytest
from exchanges import HEAD, LAST, MS, PONG, Taker

from r1perf.errors import TransportError
from r1perf.loop.sim import SimLoop
from r1perf.transport.connection import Connection
from r1perf.transport.response import Response

FD = 7
ANSWER, MORE = HEAD + b"4\r\ndone\r\n", b"2\r\n: \r\n"
RESET = ConnectionResetError("reset")


class Sock:
    """A socket whose every read a test decides."""

    def __init__(self):
        self.reads, self.closed = [], False

    def fileno(self):
        return FD

    def getsockname(self):
        return "127.0.0.1", 40_000

    def send(self, data):
        return len(data)

    def recv(self, size):
        if not self.reads:
            raise BlockingIOError
        read = self.reads.pop(0)
        if isinstance(read, Exception):
            raise read
        return read

    def close(self):
        self.closed = True


def exchanged(turns):
    """Carry out one exchange; each of `turns` holds the reads of one turn of the loop, 10 ms after the turn before."""
    loop, sock = SimLoop(start_ns=0), Sock()
    taker = Taker(loop, stop=b"done")

    def serve():
        for reads in turns:
            loop.sleep_until(loop.now_ns() + 10 * MS)
            sock.reads += reads
            for _ in reads:
                loop.ready(FD)

    def main():
        loop.spawn(serve)
        reusable = Connection(loop, sock).exchange(b"POST", Response(taker), taker)
        return reusable, taker.body, loop.now_ns() // MS

    return loop.run(main)


@pytest.mark.parametrize(
    ("turns", "ends"),
    [
        pytest.param([[PONG]], (True, b"pong", 10), id="framing ends"),
        pytest.param([[ANSWER, LAST]], (True, b"done", 10), id="answer and framing end"),
        pytest.param([[ANSWER], [LAST]], (True, b"done", 20), id="framing ends behind the answer"),
        pytest.param([[ANSWER], [MORE], [MORE], [LAST]], (True, b"done: : ", 40), id="more comes between the two"),
        pytest.param([[ANSWER], [MORE]], (False, b"done: ", 260), id="framing never ends"),
        pytest.param([[ANSWER], [RESET]], (False, b"done", 20), id="reset behind the answer"),
        pytest.param([[PONG, RESET]], (False, b"pong", 10), id="reset behind the framing, in the same turn"),
        pytest.param([[ANSWER, LAST, RESET]], (False, b"done", 10), id="reset behind both, in the same turn"),
        pytest.param([[PONG, b""]], (False, b"pong", 10), id="closed behind the framing, in the same turn"),
    ],
)
def test_what_ends_an_exchange_and_whether_another_may_follow(turns, ends):
    assert exchanged(turns) == ends


def test_a_reset_before_the_end_is_raised():
    with pytest.raises(TransportError, match="reset within the response"):
        exchanged([[HEAD + b"2\r\ndo\r\n", RESET]])
