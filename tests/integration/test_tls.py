"""TLS and keys, over real sockets: who is trusted, what is said where nobody is, and that a key goes nowhere but into its header."""

import contextlib
from pathlib import Path

import pytest
import runs
from runs import Ran

from r1perf.clock import monotonic_ns, sleep

trustme = pytest.importorskip("trustme")

SHORT = ("--model", "deepseek-r1", "--requests", "4", "--rate", "20/s")
KEY = "sk-very-secret-0123456789"
ENGINES = ("fast", "openai")


@pytest.fixture(scope="module")
def authority():
    return trustme.CA(organization_name="r1perf tests")


@pytest.fixture
def served(authority, tmp_path, start_simulator):
    """Give the URL of a simulated endpoint over TLS, and the file of the authority that its certificate comes from."""
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "server.pem"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    pem = str(tmp_path / "server.pem")
    return start_simulator("--tls-cert", pem, "--tls-key", pem, "--speed", "5").url, tmp_path / "ca.pem"


@pytest.fixture
def self_signed(authority, tmp_path, start_simulator):
    """Give the URL of one whose certificate nobody has signed but itself."""
    authority.cert_pem.write_to_path(str(tmp_path / "own.pem"))
    authority.private_key_pem.write_to_path(str(tmp_path / "own.key"))
    return start_simulator("--tls-cert", str(tmp_path / "own.pem"), "--tls-key", str(tmp_path / "own.key"), "--speed", "5").url


def test_a_self_signed_certificate_is_refused_in_one_sentence(self_signed, tmp_path):
    ran = runs.run(tmp_path / "runs", "smoke", "--url", self_signed, *SHORT)
    runs.refused(ran, r"no TLS connection to 127\.0\.0\.1:\d+: its certificate is self-signed$")


def test_an_unknown_authority_is_refused_in_one_sentence(served, tmp_path):
    ran = runs.run(tmp_path / "runs", "smoke", "--url", served[0], *SHORT)
    runs.refused(ran, r"no TLS connection to 127\.0\.0\.1:\d+: its certificate's issuer is not trusted here$")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_trusted_authority_is_accepted(served, tmp_path, engine):
    url, authority = served
    ran = runs.run(
        tmp_path / "runs",
        "smoke",
        "--url",
        url,
        *SHORT,
        "--set",
        f"target.engine={engine}",
        env={"SSL_CERT_FILE": str(authority)},
    )
    runs.ended(ran)
    assert {result.outcome for result in ran.results} == {"ok"}


@pytest.mark.parametrize("engine", ENGINES)
def test_verification_can_be_left_out(self_signed, tmp_path, engine):
    ran = runs.run(
        tmp_path / "runs", "smoke", "--url", self_signed, *SHORT,
        "--set", f"target.engine={engine}", "--set", "target.verify_tls=false",
    )  # fmt: skip
    runs.ended(ran)
    assert {result.outcome for result in ran.results} == {"ok"}


def test_plain_http_where_tls_is_asked_for_is_one_sentence(tmp_path, simulator):
    ran = runs.run(tmp_path / "runs", "smoke", "--url", simulator.url.replace("http:", "https:"), *SHORT)
    runs.refused(ran, r"it does not speak TLS there; is the target's URL http://\?$")


def test_tls_where_plain_http_is_asked_for_is_one_sentence(tmp_path, served):
    ran = runs.run(tmp_path / "runs", "smoke", "--url", served[0].replace("https:", "http:"), *SHORT)
    runs.refused(ran, "cannot be reached: ")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_key_is_only_in_its_header(monkeypatch, tmp_path, start_simulator, engine):
    monkeypatch.setenv("R1SIM_API_KEY", KEY)  # without the right key everything is a 401
    monkeypatch.setenv("TEST_KEY", KEY)
    server = start_simulator("--truth", str(tmp_path / "truth"))
    words = ("--set", "target.api_key_env=TEST_KEY", "--set", f"target.engine={engine}", "--set", "record_chunks=true")
    before = {path.name for path in Path("/proc").glob("[0-9]*")}
    process = runs.start(tmp_path / "runs", "smoke", "--url", server.url, *SHORT[:2], *words, "--duration", "1500ms", "--json")
    seen: set[bytes] = set()
    until_ns = monotonic_ns() + 30_000_000_000
    while process.poll() is None and monotonic_ns() < until_ns:
        seen |= commands(before)
        sleep(0.05)
    ran = Ran(process, tmp_path / "runs", 30)
    runs.ended(ran)
    assert {result.outcome for result in ran.results} == {"ok"}
    assert any(b"r1perf.launch.child" in command for command in seen)
    assert not [command for command in seen if KEY.encode() in command]
    assert KEY not in ran.stdout + ran.stderr + ran.written() + server.text() + (tmp_path / "truth").read_text()
    assert "TEST_KEY" in ran.written()  # the variable's name is what the archive keeps


def commands(before: set[str]) -> set[bytes]:
    """Read the command lines of processes that were started since."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        if path.name not in before:
            with contextlib.suppress(OSError):  # it has ended
                found.add((path / "cmdline").read_bytes())
    return found
