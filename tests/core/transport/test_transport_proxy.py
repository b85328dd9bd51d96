"""Proxies from the environment: which one, how it is spoken to, and that its password is never shown."""

import base64
import socket
import ssl
import threading

import pytest
from exchanges import MS, PONG, POST, Taker, fails, pong
from loopback import Loopback

from r1perf.errors import TargetError, TransportError
from r1perf.transport.http import HttpTransport
from r1perf.transport.origin import Proxy, parse_origin, proxy_for

BASIC = "Basic " + base64.b64encode(b"user:p@ss").decode()

CHOICES = {
    "none": ({}, "http://h/v1", None),
    "http": ({"HTTP_PROXY": "http://proxy:3128"}, "http://h/v1", Proxy("proxy", 3128)),
    "lower case": ({"http_proxy": "http://proxy:3128"}, "http://h/v1", Proxy("proxy", 3128)),
    "without scheme": ({"HTTP_PROXY": "proxy:3128"}, "http://h/v1", Proxy("proxy", 3128)),
    "without port": ({"HTTP_PROXY": "http://proxy"}, "http://h/v1", Proxy("proxy", 80)),
    "other scheme": ({"HTTP_PROXY": "http://proxy:3128"}, "https://h/v1", None),
    "https": ({"HTTPS_PROXY": "http://proxy:3128"}, "https://h/v1", Proxy("proxy", 3128)),
    "all": ({"ALL_PROXY": "http://proxy:3128"}, "https://h/v1", Proxy("proxy", 3128)),
    "credentials": ({"HTTP_PROXY": "http://user:p%40ss@proxy:3128"}, "http://h/v1", Proxy("proxy", 3128, BASIC)),
    "excluded": ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "x,.example.org"}, "http://a.example.org/v1", None),
    "excluded by port": ({"HTTP_PROXY": "http://proxy:3128", "no_proxy": "h:8000"}, "http://h:8000/v1", None),
    "localhost": ({"HTTP_PROXY": "http://proxy:3128"}, "http://localhost:8000/v1", None),
    "localhost over TLS": ({"ALL_PROXY": "http://proxy:3128"}, "https://LocalHost/v1", None),
    "loopback": ({"HTTP_PROXY": "http://proxy:3128"}, "http://127.0.0.1:8000/v1", None),
    "loopback, another": ({"HTTP_PROXY": "http://proxy:3128"}, "http://127.9.8.7/v1", None),
    "loopback of IPv6": ({"HTTP_PROXY": "http://proxy:3128"}, "http://[::1]:8000/v1", None),
    "a private address": ({"HTTP_PROXY": "http://proxy:3128"}, "http://10.0.0.1/v1", Proxy("proxy", 3128)),
    "a name like it": ({"HTTP_PROXY": "http://proxy:3128"}, "http://localhost.example/v1", Proxy("proxy", 3128)),
    "excluded other": ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "x"}, "http://h/v1", Proxy("proxy", 3128)),
    "excluded all": ({"HTTP_PROXY": "http://proxy:3128", "NO_PROXY": "*"}, "http://h/v1", None),
}


@pytest.fixture
def environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)

    def put(values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    return put


@pytest.mark.parametrize("name", CHOICES)
def test_which_proxy(environment, name):
    values, url, proxy = CHOICES[name]
    environment(values)
    assert proxy_for(parse_origin(url)) == proxy


def test_the_name_of_a_host_may_have_any_letters():
    assert parse_origin("http://bücher.example/v1").authority == "xn--bcher-kva.example"
    with pytest.raises(TargetError, match="is not the name of a host"):
        parse_origin(f"http://{'ü' * 64}.example/v1")


@pytest.mark.parametrize("url", ["socks5://user:secret@proxy:1080", "https://user:secret@proxy:3128", "http://[", "http://:80"])
def test_a_proxy_that_cannot_be_used_is_one_clear_error(loop, environment, url):
    environment({"HTTP_PROXY": url})
    with pytest.raises(TargetError, match="proxy") as caught:
        HttpTransport(loop, "http://h/v1", connect_timeout_ns=MS)
    assert "secret" not in str(caught.value)


def test_credentials_are_not_shown():
    assert repr(Proxy("proxy", 3128, BASIC)) == "Proxy(proxy:3128)"


def test_http_goes_to_the_proxy_with_the_whole_url(loop, connected, environment):
    with Loopback(pong) as proxy:
        environment({"HTTP_PROXY": f"http://user:p%40ss@127.0.0.1:{proxy.port}"})
        transport = connected(8123, host="far.invalid")
        for _ in range(2):
            transport.exchange(POST, Taker(loop))
        assert proxy.connections == 1
        assert proxy.requests[0].decode().split("\r\n")[:4] == [
            "POST http://far.invalid:8123/v1/x HTTP/1.1",
            "Host: far.invalid:8123",
            "Accept: */*",
            f"Proxy-Authorization: {BASIC}",
        ]


def tunnel(peer):
    """Be a proxy that connects to 127.0.0.1, whatever the name is."""
    head = peer.request()
    port = int(head.split()[1].rpartition(b":")[2])
    with socket.create_connection(("127.0.0.1", port)) as far:
        peer.send(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        back = threading.Thread(target=pump, args=(far, peer.sock))
        back.start()
        pump(peer.sock, far)
        back.join(10)


def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


def test_https_goes_through_a_tunnel(loop, connected, environment, monkeypatch, tmp_path):
    trustme = pytest.importorskip("trustme")
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("far.invalid").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    with Loopback(pong, tls=context) as server, Loopback(tunnel) as proxy:
        environment({"HTTPS_PROXY": f"http://user:p%40ss@127.0.0.1:{proxy.port}"})
        transport = connected(server.port, host="far.invalid", scheme="https")
        exchanges = [transport.exchange(POST, Taker(loop)) for _ in range(2)]
        assert [exchange.connect_ns is None for exchange in exchanges] == [False, True]
        assert proxy.requests[0].decode().split("\r\n") == [
            f"CONNECT far.invalid:{server.port} HTTP/1.1", f"Host: far.invalid:{server.port}", f"Proxy-Authorization: {BASIC}", "", "",
        ]  # fmt: skip
        assert b"Proxy-Authorization" not in server.requests[0]
        assert server.requests[0].startswith(b"POST /v1/x HTTP/1.1\r\n")
        transport.close()


REFUSALS = {
    "407": (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy Authentication Required"),
    "garbage": (b"what?\r\n\r\n", "nothing that is HTTP"),
    "closed": (b"HTTP/1.1 200", "did not answer"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_proxy_that_refuses_the_tunnel(loop, connected, environment, name):
    answer, says = REFUSALS[name]

    def handle(peer):
        peer.request()
        peer.send(answer)

    with Loopback(handle) as proxy:
        environment({"HTTPS_PROXY": f"http://user:secret@127.0.0.1:{proxy.port}"})
        transport = connected(443, host="far.invalid", scheme="https")
        with pytest.raises(TransportError, match=says) as caught:
            transport.exchange(POST, Taker(loop))
        assert (caught.value.outcome, caught.value.reason) == ("connect_error", "proxy")
        assert "secret" not in str(caught.value)
        assert PONG not in str(caught.value).encode()


def test_a_proxy_that_is_not_there(loop, connected, environment):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        environment({"HTTP_PROXY": f"http://127.0.0.1:{taken.getsockname()[1]}"})
        assert fails(loop, connected(80, host="far.invalid")) == ("connect_error", "refused", b"")
