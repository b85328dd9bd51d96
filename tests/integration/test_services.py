"""The servers that other tests stand on do what those tests take for granted."""

import json
import urllib.request

import pytest
from services import Service


def _chat(service: Service, **more: object) -> bytes:
    body = {"model": "m", "messages": [{"role": "user", "content": "Say yes."}], **more}
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{service.url}/v1/chat/completions", json.dumps(body).encode(), head)
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def test_sseserver_streams_what_is_asked_and_keeps_the_truth(start_sseserver):
    server = start_sseserver("--ttft-ms", "1", "--itl-ms", "1")
    assert _chat(server, stream=True, max_tokens=5).count(b'"delta"') == 5
    stats = server.json("/stats")
    assert (stats["requests"], stats["done"], stats["chunks"]) == (1, 1, 5)
    server.json("/reset", post=True)
    assert server.json("/stats")["requests"] == 0


def test_simulator_answers_and_names_its_models(start_simulator):
    server = start_simulator("--model", "r1")
    assert [model["id"] for model in server.json("/v1/models")["data"]] == ["r1"]
    assert json.loads(_chat(server, model="r1", max_tokens=4))["usage"]["completion_tokens"] <= 4


def test_simulator_with_a_wrong_flag_is_an_error_with_its_sentence(start_simulator):
    with pytest.raises(RuntimeError, match="exit code 2"):
        start_simulator("--profile", "no-such-profile")


def test_llama_server_counts_its_tokens(llama_server):
    answer = json.loads(_chat(llama_server, max_tokens=4))
    assert answer["usage"]["completion_tokens"] <= 4
    assert answer["choices"][0]["finish_reason"] in {"stop", "length"}


def test_stopped_server_has_ended(start_sseserver):
    server = start_sseserver()
    server.stop()
    server.stop()
    assert server.process.returncode is not None


def test_server_that_ends_at_once_is_an_error_with_its_output(tmp_path):
    service = Service(["sh", "-c", "echo no such flag; exit 3"], tmp_path / "log")
    with pytest.raises(RuntimeError, match=r"exit code 3\):\nno such flag"):
        service.wait(lambda: None, 10)


def test_skipped_tests_are_named_with_what_they_miss(pytester):
    pytester.makepyfile("""
        import pytest, services
        @pytest.mark.parametrize("n", [1, 2])
        def test_needs_it(n): services.missing("java")
        def test_other(): pytest.skip("another reason")
    """)
    pytester.makeconftest("from services import pytest_terminal_summary")
    result = pytester.runpytest_inprocess()
    result.stdout.fnmatch_lines(["2 tests skipped without java. To get it: apt-get install *"])
    result.assert_outcomes(skipped=3)
