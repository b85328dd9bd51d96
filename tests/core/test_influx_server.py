"""What the client of InfluxDB makes of a server that does not behave: a sentence, in time, and never the token."""

import contextlib
import json
import threading
import warnings

import pytest
from loopback import Loopback

from r1perf.errors import DatabaseError
from r1perf.sinks.influxdb.server import Server
from r1perf.sinks.influxdb.settings import Access, Settings, Token

PATIENT, SHORT = 60 * 10**9, 300 * 10**6


@contextlib.contextmanager
def asked(handle, *, timeout_ns=PATIENT, token="s3cret"):
    """Give a server's client."""
    with Loopback(handle) as there:
        url = f"http://127.0.0.1:{there.port}"
        made = Server(Settings(url=url, bucket="b", access=Access(Token(token)), timeout_ns=timeout_ns))
        with contextlib.closing(made):
            yield made


def refused(handle, act=lambda server: server.write(b"m f=1i 1\n"), **settings):
    """Return what a client says of such a server."""
    with asked(handle, **settings) as server, pytest.raises(DatabaseError) as error:
        act(server)
    assert "s3cret" not in str(error.value)
    return error.value


def answering(answer):
    """Give every request the same answer."""

    def handle(peer):
        while peer.request() is not None:
            peer.send(answer)

    return handle


def test_a_server_that_trickles_holds_a_write_no_longer_than_the_timeout():
    def handle(peer):
        peer.request()
        peer.send(b"HTTP/1.1 204 No Content\r\nX-Long: ")
        with contextlib.suppress(OSError):
            while True:  # no read of the client's ever times out; a header's end comes when it is too long
                peer.sock.sendall(b"x" * 2_000)
                threading.Event().wait(0.05)

    error = refused(handle, timeout_ns=SHORT)
    assert str(error).endswith(" did not answer in time")
    assert "cannot be reached" not in str(error)


def test_a_server_that_was_cut_off_is_written_to_again():
    def handle(peer):
        peer.request()
        if peer.number == 1:
            peer.closed()
        else:
            peer.send(b"HTTP/1.1 204 No Content\r\n\r\n")

    with asked(handle, timeout_ns=SHORT) as server:
        with pytest.raises(DatabaseError, match=r" did not answer in time$"):
            server.write(b"m f=1i 1\n")
        server.write(b"m f=1i 1\n")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20", 20.0), ("0.5", 0.5), ("-3", 0.0), ("inf", None), ("nan", None), ("soon", None), ("1e300", 86_400.0)],
)
def test_retry_after_is_a_number_that_one_can_wait_for(text, seconds):
    answer = f"HTTP/1.1 503 Busy\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
    error = refused(answering(answer))
    assert (error.status, error.retry_after_s) == (503, seconds)


@pytest.mark.parametrize("token", ["bad\ns3cret", "€s3cret"], ids=["line break", "no latin-1"])
def test_a_token_that_no_header_can_carry_does_not_show_itself(token):
    """Settings refuse it; this is what is left where they did not."""
    assert "cannot be asked" in str(refused(answering(b""), token=token))


@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda server: list(server.influxql("SELECT 1")), id="influxql"),
        pytest.param(lambda server: list(server.flux("from()")), id="flux"),
    ],
)
def test_an_answer_that_is_no_influxdbs_is_a_sentence(act):
    page = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<html>hi\n"
    assert "its answer not be read" in str(refused(answering(page), act))


def test_without_verification_nothing_is_printed_at_every_request():
    with warnings.catch_warnings():
        made = Server(Settings(url="https://127.0.0.1:1", bucket="b", access=Access(Token("t"), verify_tls=False)))
        with contextlib.closing(made):
            from urllib3.exceptions import InsecureRequestWarning

            warnings.warn("at every request", InsecureRequestWarning, stacklevel=1)


QUOTED = 'bad header "Token me:s3cret-pass"; user me has not the password s3cret-pass'
HIDDEN = 'bad header "Token [key]"; user me has not the password [key]'


@pytest.mark.parametrize("status", [400, 401, 500])
@pytest.mark.parametrize("shape", ['{"message":%s}', '{"error":%s}', "%s"], ids=["2", "1", "a proxy's"])
def test_a_token_that_is_quoted_is_shown_nowhere(status, shape):
    body = (shape % (json.dumps(QUOTED) if "{" in shape else QUOTED)).encode()
    answer = b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)
    error = refused(answering(answer), token="me:s3cret-pass")
    assert error.says == HIDDEN
    assert str(error).endswith(f" answered HTTP {status}: {HIDDEN}")


def test_a_quoted_token_is_hidden_before_the_text_is_cut():
    body = b"x" * 290 + b" s3cret-token"
    error = refused(answering(b"HTTP/1.1 500 No\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)), token="s3cret-token")
    assert error.says == "x" * 290 + " [key]"


def test_what_refuses_a_query_shows_neither_the_token_nor_control_characters():
    body = json.dumps({"results": [{"error": f"{QUOTED}\x1b[2J"}]}).encode()
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    error = refused(answering(answer), lambda server: list(server.influxql("SELECT 1")), token="me:s3cret-pass")
    assert error.says == f"{HIDDEN}\ufffd[2J"
    assert str(error).endswith(f" refused a query: {HIDDEN}\ufffd[2J")
