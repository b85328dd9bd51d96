"""What is found out about a target before anything is scheduled, on virtual time."""

import msgspec
import pytest

from r1perf.errors import TargetError, TransportError, UsageError
from r1perf.loop.sim import SimLoop
from r1perf.preflight import Served, api_key, models_path, preflight
from r1perf.providers import says
from r1perf.providers.registry import choose
from r1perf.target import Target, Timeouts
from r1perf.transport.scripted import EOF, HANG, HEAD, RESET, Script, ScriptedTransport
from r1perf.units import Duration

MS, S = 1_000_000, 1_000_000_000
JSON = {"content-type": "application/json"}
TARGET = Target(url="http://h/v1", model="r1", api_key_env="KEY")
UNKNOWN = "the models served are not known beforehand"


def listed(*models):
    return Script([(MS, msgspec.json.encode({"data": [{"id": model, "object": "model"} for model in models]}))], headers=JSON)


def said(status, body=b""):
    return Script([(MS, body or HEAD)], status=status, headers=JSON)


REFUSED, SILENT = Script(refused=True), Script([(0, HANG)])


class Failing(ScriptedTransport):
    """A transport that fails each exchange in the same way."""

    def __init__(self, loop, error):
        super().__init__(loop, [])
        self.error = error

    def exchange(self, request, receiver):
        raise self.error


def asked(scripts, key="secret", **changes):
    """Ask a scripted target; return what it said of itself, the requests, and how long it took in seconds."""
    loop = SimLoop()
    target = msgspec.structs.replace(TARGET, **changes)
    transport = Failing(loop, scripts) if isinstance(scripts, TransportError) else ScriptedTransport(loop, scripts)
    begun_ns, outcome = loop.now_ns(), []

    def main():
        try:
            outcome.append(preflight(loop, target, choose(target), transport, key))
        except TargetError as error:
            outcome.append(str(error))

    loop.run(main)
    return outcome[0], transport.requests, (loop.now_ns() - begun_ns) / S


def test_the_models_are_asked_for_with_the_key():
    served, requests, _ = asked([listed("r1", "v3")], url="http://h/v1/?api-version=2")
    assert served == Served(("r1", "v3"))
    (request,) = requests
    assert (request.method, request.path, request.body) == ("GET", "/v1/models?api-version=2", b"")
    headers = dict(request.headers)
    assert headers["Authorization"] == "Bearer secret"
    assert "Content-Type" not in headers


@pytest.mark.parametrize(
    ("script", "note"),
    [
        pytest.param(
            listed("\x1b[2Jv3"), "http://h/v1 does not list the model `r1`; it lists \ufffd[2Jv3", id="a name that commands"
        ),
        pytest.param(listed("v3"), "http://h/v1 does not list the model `r1`; it lists v3", id="another model"),
        pytest.param(
            listed(*"abcdefghij"),
            "http://h/v1 does not list the model `r1`; it lists a, b, c, d, e, f, g, h, ...",
            id="many models",
        ),
        pytest.param(said(404, b"{}"), f"http://h/v1/models answers HTTP 404: {UNKNOWN}", id="no such path"),
        pytest.param(said(301), f"http://h/v1/models answers HTTP 301: {UNKNOWN}", id="redirect"),
        pytest.param(said(200, b"<html>"), f"http://h/v1/models is not a list of models: {UNKNOWN}", id="no list"),
        pytest.param(
            said(200, b'{"x": ' + b"[" * 5000 + b"]" * 5000 + b"}"),
            f"http://h/v1/models is not a list of models: {UNKNOWN}",
            id="nested deep",
        ),
        pytest.param(
            Script([(0, HEAD), (0, EOF)], headers=JSON),
            f"http://h/v1/models is not a list of models: {UNKNOWN}",
            id="broken list",
        ),
        pytest.param(SILENT, f"http://h/v1/models does not answer within 30 s: {UNKNOWN}", id="silent"),
    ],
)
def test_what_only_deserves_a_warning(script, note):
    served, requests, _ = asked([script])
    assert served.notes == (note,)
    assert len(requests) == 1


def test_an_empty_list_says_nothing():
    assert asked([listed()])[0] == Served()


def test_the_list_may_not_take_longer_than_an_answer():
    served, _, took_s = asked([SILENT], timeouts=Timeouts(total=Duration.seconds(3)))
    assert (served.notes, took_s) == ((f"http://h/v1/models does not answer within 3 s: {UNKNOWN}",), 3)


def broken(reason, message="why"):
    return TransportError("connect_error", reason, message)


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        (REFUSED, "http://h/v1 cannot be reached: no connection to the script: connection refused"),
        (Script([(0, EOF)]), "http://h/v1 cannot be reached: the script's connection ended before any response (eof)"),
        (Script([(0, RESET)]), "http://h/v1 cannot be reached: the script's connection ended before any response (reset)"),
        (said(401, b'{"error":{"message":"no"}}'), "http://h/v1 refuses the key in KEY: HTTP 401 (no)"),
        (said(403), "http://h/v1 refuses the key in KEY: HTTP 403"),
        (said(503, b'{"error":{"message":"Loading model"}}'), "http://h/v1 is not ready: HTTP 503 (Loading model)"),
    ],
)
def test_what_cannot_be_used(script, sentence):
    got, requests, _ = asked([script])
    assert (got, len(requests)) == (sentence, 1)


@pytest.mark.parametrize("reason", ["protocol", "unreachable", "local_ports"])
def test_a_failed_connection_is_said_in_the_transports_words(reason):
    assert asked(broken(reason, "it is so"))[0] == "http://h/v1 cannot be reached: it is so"


def test_a_target_that_needs_a_key_and_has_none():
    assert asked([said(401)], key=None, api_key_env=None)[0] == (
        "http://h/v1 refuses a request without a key (`target.api_key_env` names none): HTTP 401"
    )


@pytest.mark.parametrize("first", [REFUSED, said(503), Script([(0, EOF)]), Script([(0, RESET)]), SILENT])
def test_a_target_that_is_not_ready_is_waited_for(first):
    served, requests, took_s = asked([first, first, listed("r1")], wait_ready=Duration.seconds(120))
    assert served == Served(("r1",))
    assert len(requests) == 3
    assert 4 <= took_s < 65


def test_waiting_ends_and_the_last_reason_is_told():
    sentence, requests, took_s = asked([said(503), REFUSED], wait_ready=Duration.seconds(9))
    assert sentence == "http://h/v1 cannot be reached: no connection to the script: connection refused"
    assert (len(requests), round(took_s)) == (5, 8)


@pytest.mark.parametrize("reason", ["tls", "tls_self_signed", "dns"])
def test_what_will_not_change_is_not_waited_for(reason):
    sentence, _, took_s = asked(broken(reason), wait_ready=Duration.seconds(60))
    assert (sentence, took_s) == ("http://h/v1 cannot be reached: why", 0)


@pytest.mark.parametrize("script", [said(401), said(404)])
def test_an_answer_is_not_waited_for_either(script):
    assert len(asked([script], wait_ready=Duration.seconds(60))[1]) == 1


def test_the_key_comes_from_the_environment_and_is_shown_nowhere_from_then_on(monkeypatch):
    monkeypatch.setattr(says, "_OURS", set())
    monkeypatch.setenv("KEY", " secret\n")
    assert api_key(TARGET) == "secret"
    assert says.refusal(401, {}, b'{"detail":"secret is no key"}')[2] == "[key] is no key"
    assert api_key(msgspec.structs.replace(TARGET, api_key_env=None)) is None
    for value in ("", "  "):
        monkeypatch.setenv("KEY", value)
        with pytest.raises(UsageError, match="the environment variable KEY is not set"):
            api_key(TARGET)


def test_a_key_that_no_header_may_carry_is_told_and_not_shown(monkeypatch):
    for key in ("sk-se\ncret", "sk-sécret"):
        monkeypatch.setenv("KEY", key)
        with pytest.raises(UsageError, match=r"^the key in the environment variable KEY holds a line break") as caught:
            api_key(TARGET)
        assert "cret" not in str(caught.value)


def test_where_the_models_are():
    assert models_path("https://h/openai/v1/") == "/openai/v1/models"
