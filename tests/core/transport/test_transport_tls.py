"""TLS between memory buffers, against the ssl module's own server sockets."""

import datetime
import os
import ssl
import subprocess
import sys
import threading

import pytest
from exchanges import HEAD, LAST, MS, PONG, POST, Taker, fails, pong
from loopback import Loopback

from r1perf.errors import TransportError
from r1perf.transport import HttpRequest, tls

trustme = pytest.importorskip("trustme")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def trusting(authority, monkeypatch, tmp_path):
    """Trust the test's own authority, as a platform's store would."""
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def server_context(certificate, version=None):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    certificate.configure_cert(context)
    return context


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda version: version.name)
def test_a_verified_connection_is_reused(loop, connected, authority, trusting, version):
    with Loopback(pong, tls=server_context(authority.issue_cert("localhost", "127.0.0.1"), version)) as server:
        transport = connected(server.port, scheme="https")
        exchanges = [transport.exchange(POST, Taker(loop)) for _ in range(3)]
        assert [exchange.connect_ns is None for exchange in exchanges] == [False, True, True]
        assert server.connections == 1


def test_the_server_name_is_sent_and_alpn_offers_http_1_1(loop, connected, authority, trusting):
    context, names = server_context(authority.issue_cert("localhost")), []
    context.sni_callback = lambda sock, name, context: names.append(name)
    context.set_alpn_protocols(["h2", "http/1.1"])
    chosen = []

    def handle(peer):
        peer.request()
        chosen.append(server._socks[-1].selected_alpn_protocol())
        peer.send(PONG)

    with Loopback(handle, tls=context) as server:
        connected(server.port, scheme="https", host="localhost").exchange(POST, Taker(loop))
    assert (names, chosen) == (["localhost"], ["http/1.1"])


def test_large_bodies_go_both_ways(loop, connected, authority, trusting):
    body = bytes(range(256)) * 20_000

    def handle(peer):
        request = peer.request()
        peer.send(HEAD + b"%x\r\n" % len(body) + request.partition(b"\r\n\r\n")[2] + b"\r\n" + LAST)
        peer.closed()

    with Loopback(handle, tls=server_context(authority.issue_cert("127.0.0.1"))) as server:
        taker = Taker(loop)
        connected(server.port, scheme="https").exchange(HttpRequest("POST", "/", (), body), taker)
        assert taker.body == body


@pytest.mark.parametrize("polite", [True, False], ids=["close_notify", "bare"])
def test_the_end_of_the_connection_ends_a_body(loop, connected, authority, trusting, polite):
    def handle(peer):
        peer.request()
        peer.send(b"HTTP/1.1 200 OK\r\n\r\nhello")
        if polite:
            server._socks[-1].unwrap()

    with Loopback(handle, tls=server_context(authority.issue_cert("127.0.0.1"))) as server:
        taker = Taker(loop)
        connected(server.port, scheme="https").exchange(POST, taker)
        assert taker.body == b"hello"


def test_a_cut_chunk_is_broken_in_tls_too(loop, connected, authority, trusting):
    def handle(peer):
        peer.request()
        peer.send(HEAD + b"9\r\nhello")

    with Loopback(handle, tls=server_context(authority.issue_cert("127.0.0.1"))) as server:
        assert fails(loop, connected(server.port, scheme="https")) == ("stream_broken", "eof", b"hello")


def expired(authority):
    return authority.issue_cert("127.0.0.1", not_after=datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))


REFUSED = {
    "self-signed": (lambda authority: trustme.CA().issue_cert("127.0.0.1"), "tls_untrusted"),
    "other host": (lambda authority: authority.issue_cert("example.org"), "tls_hostname"),
    "expired": (expired, "tls_expired"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_certificate_that_is_refused_says_why_and_may_be_accepted(loop, connected, authority, trusting, name):
    issue, reason = REFUSED[name]
    with Loopback(pong, tls=server_context(issue(authority))) as server:
        assert fails(loop, connected(server.port, scheme="https")) == ("connect_error", reason, b"")
        taker = Taker(loop)
        connected(server.port, scheme="https", verify_tls=False).exchange(POST, taker)
        assert taker.body == b"pong"


def test_a_self_signed_certificate(loop, connected, trusting):
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "me")])
    day = datetime.timedelta(days=1)
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, now - day, now + 36_500 * day)
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with trustme.Blob(certificate + private).tempfile() as path:
        context.load_cert_chain(path)
    with Loopback(pong, tls=context) as server:
        transport = connected(server.port, scheme="https")
        with pytest.raises(TransportError, match="its certificate is self-signed") as caught:
            transport.exchange(POST, Taker(loop))
        assert (caught.value.outcome, caught.value.reason) == ("connect_error", "tls_self_signed")


def hangs_up(peer):
    peer.sock.recv(1000)


def speaks_http(peer):
    peer.sock.recv(1000)
    peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    peer.closed()


@pytest.mark.parametrize(("handle", "says"), [(hangs_up, "closed the connection"), (speaks_http, "http://")])
def test_a_server_without_tls(loop, connected, handle, says):
    with Loopback(handle) as server:
        transport = connected(server.port, scheme="https")
        with pytest.raises(TransportError, match=says) as caught:
            transport.exchange(POST, Taker(loop))
        assert (caught.value.outcome, caught.value.reason) == ("connect_error", "tls")


def test_a_handshake_that_never_ends_is_a_connect_timeout(loop, connected):
    with Loopback(lambda peer: peer.closed()) as server:
        assert fails(loop, connected(server.port, scheme="https", connect_ms=30)) == ("timeout", "connect", b"")


def test_a_client_certificate_that_is_missed_is_a_tls_failure(loop, connected, authority, trusting):
    context = server_context(authority.issue_cert("127.0.0.1"))
    context.verify_mode = ssl.CERT_REQUIRED
    with Loopback(pong, tls=context) as server:
        outcome, reason, _ = fails(loop, connected(server.port, scheme="https"))
        assert (outcome, reason) == ("connect_error", "tls")


def test_a_connection_that_was_closed_while_idle_is_not_used_again(loop, connected, authority, trusting):
    answered = threading.Event()

    def handle(peer):
        peer.request()
        peer.send(PONG)
        answered.wait(10)

    with Loopback(handle, tls=server_context(authority.issue_cert("127.0.0.1"))) as server:
        transport = connected(server.port, scheme="https")
        transport.exchange(POST, Taker(loop))
        answered.set()
        readable = loop.event()
        watch = loop.watch(transport._pool._idle[0]._sock.fileno(), readable.set)
        watch.start()
        assert readable.wait(loop.now_ns() + 10_000 * MS)
        watch.close()
        assert transport.exchange(POST, Taker(loop)).connect_ns is not None
        assert server.connections == 2


def test_an_empty_store_is_filled_from_certifi(monkeypatch, tmp_path):
    empty = ssl.DefaultVerifyPaths(None, str(tmp_path), "", "", "", "")
    monkeypatch.setattr(ssl, "get_default_verify_paths", lambda: empty)
    monkeypatch.setattr(ssl.SSLContext, "set_default_verify_paths", lambda self: None)
    monkeypatch.setattr(ssl.SSLContext, "load_default_certs", lambda self, purpose: None)
    assert tls.context().cert_store_stats()["x509_ca"] > 50
    assert tls.context(verify=False).cert_store_stats()["x509_ca"] == 0
    (tmp_path / "some.pem").touch()
    assert tls.context().cert_store_stats()["x509_ca"] == 0


PATCHED = """
import sys
from gevent import monkey
monkey.patch_all()
from exchanges import POST, Taker
from r1perf.loop.gevent import GeventLoop
from r1perf.transport.http import HttpTransport
loop = GeventLoop()
transport = HttpTransport(loop, f"https://localhost:{sys.argv[1]}/v1", connect_timeout_ns=5_000_000_000)
takers = [Taker(loop), Taker(loop)]
print([transport.exchange(POST, taker).connect_ns is None for taker in takers], takers[1].body)
transport.close()
"""


def test_a_process_whose_sockets_are_patched_fares_the_same(authority, trusting):
    with Loopback(pong, tls=server_context(authority.issue_cert("localhost"))) as server:
        command = [sys.executable, "-W", "error::ResourceWarning", "-c", PATCHED, str(server.port)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NO_PROXY": "*", "no_proxy": "*"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("[False, True] b'pong'\n", "", 0)
