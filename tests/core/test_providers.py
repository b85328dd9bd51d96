"""What each dialect sends, reads of heads and refusals, and how it is chosen."""

import msgspec
import pytest

from r1perf.errors import ScenarioError
from r1perf.providers import Facts, says
from r1perf.providers.registry import Provider, address, check_length, choose, names
from r1perf.target import Call, Message, Sampling, Target, Tokens

CHAT = (Message("system", "Be brief."), Message("user", "6*7?"))


def target(url="http://127.0.0.1:8000/v1", **fields):
    return Target(**({"url": url, "model": "m"} | fields))


def call(**fields):
    return Call(**({"model": "m", "messages": CHAT} | fields))


def body(where, what):
    return choose(where).body(where, what)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.deepseek.com", "deepseek"),
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://res.openai.azure.com/openai/v1/", "azure"),
        ("https://res.services.ai.azure.com/models", "azure"),
        ("https://r1.eastus.models.ai.azure.com", "azure"),
        ("https://api.together.ai/v1", "together"),
        ("https://api.together.xyz/v1", "together"),
        ("https://api.fireworks.ai/inference/v1", "fireworks"),
        ("https://API.DeepSeek.com/v1", "deepseek"),
        ("https://notopenrouter.ai/v1", "openai"),
        ("http://127.0.0.1:8000/v1", "openai"),
        ("simulate:tiny", "vllm"),
        ("simulate:tiny?speed=2&dialect=llama.cpp", "llamacpp"),
        ("simulate:tiny?dialect=vllm-old", "vllm"),
        ("simulate:tiny?dialect=openrouter", "openrouter"),
        ("simulate:tiny?dialect=tags", "openai"),
    ],
)
def test_auto_goes_by_the_host(url, name):
    assert choose(target(url)).name == name


def test_a_name_wins_over_the_host():
    assert choose(target("https://api.deepseek.com", provider="litellm")).name == "litellm"


def test_an_unknown_name_says_what_is_allowed():
    with pytest.raises(ScenarioError, match=r"`target\.provider`: unknown `vlm`; did you mean `vllm`\? .*llamacpp") as caught:
        choose(target(provider="vlm"))
    assert caught.value.path == "target.provider"


@pytest.mark.parametrize("name", names()[1:])
def test_the_union_is_the_registry(name):
    assert msgspec.convert({"provider": name}, Provider) == choose(target(provider=name))
    assert choose(target(provider=name)).name == name


def test_the_common_body():
    sampling = Sampling(temperature=0.6, top_p=0.95, top_k=40, seed=7)
    assert body(
        target(extra_body={"user": "t", "a": 1}), call(max_tokens=Tokens(100), sampling=sampling, extra_body={"a": 2})
    ) == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "6*7?"}],
        "max_tokens": 100,
        "temperature": 0.6,
        "top_p": 0.95,
        "top_k": 40,
        "seed": 7,
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "t",
        "a": 2,
    }


@pytest.mark.parametrize("name", names()[1:])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("endpoint", ["chat/completions", "completions"])
def test_null_is_never_sent(name, stream, endpoint):
    where = target(provider=name, stream=stream, endpoint=endpoint, extra_body={"stream_options": None})
    sent = body(where, call(prompt="6*7?", extra_body={"x": None}))
    assert None not in sent.values()
    assert "stream_options" not in sent
    assert sent.get("stream", False) is stream
    assert ("prompt" in sent) is (endpoint == "completions")
    assert ("messages" in sent) is (endpoint != "completions")


def test_a_prompt_becomes_a_message_of_a_chat_and_messages_a_prompt():
    assert body(target(), call(messages=(), prompt="Hi"))["messages"] == [{"role": "user", "content": "Hi"}]
    assert body(target(endpoint="completions"), call())["prompt"] == "Be brief.\n\n6*7?"
    assert body(target(endpoint="completions"), call(prompt=""))["prompt"] == ""


EXACT = {"max_tokens": 128, "min_tokens": 128, "ignore_eos": True}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("vllm", EXACT),
        ("sglang", EXACT),
        ("trtllm", EXACT),
        ("dynamo", EXACT),
        ("llamacpp", {"max_tokens": 128, "ignore_eos": True}),
        *((name, None) for name in ("openai", "deepseek", "openrouter", "azure", "together", "fireworks", "litellm")),
    ],
)
def test_an_exact_length_is_ordered_where_the_server_can_or_refused_before_the_run(name, fields):
    where = target(provider=name)
    sent = body(where, call(output_tokens=Tokens(128)))
    assert choose(where).orders_length is (fields is not None)
    if fields is None:
        with pytest.raises(ScenarioError, match=f"`{name}` cannot be ordered to an exact length of 128 tokens.* vllm, sglang"):
            check_length(where, 128)
        if name == "openai":
            guessed = r"`openai` \(`auto` takes it for that by its URL; `r1perf probe` tells what it is\) cannot be ordered"
            with pytest.raises(ScenarioError, match=guessed):
                check_length(target(provider="auto"), 128)
        fields = {"max_tokens": 128}
    else:
        check_length(where, 128)
    check_length(where, None)
    assert {key: sent[key] for key in ("max_tokens", "min_tokens", "ignore_eos") if key in sent} == fields


def test_openais_own_models_have_another_name_for_the_limit():
    sent = body(target("https://api.openai.com/v1"), call(max_tokens=Tokens(5)))
    assert (sent.get("max_completion_tokens"), "max_tokens" in sent) == (5, False)
    assert body(target("https://api.openai.com/v1", endpoint="completions"), call(max_tokens=Tokens(5)))["max_tokens"] == 5


def test_a_body_of_the_users_own_is_passed_through():
    own = {
        "model": "theirs",
        "messages": [],
        "n": 2,
        "temperature": None,
        "stream": False,
        "stream_options": {"continuous_usage_stats": True},
    }
    assert body(target(extra_body={"x": 1}), call(body=own)) == {
        "model": "m", "messages": [], "n": 2, "temperature": None, "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
    }  # fmt: skip
    assert body(target(stream=False), call(body=own)) == {"model": "m", "messages": [], "n": 2, "temperature": None}
    assert own["model"] == "theirs"


@pytest.mark.parametrize(
    ("url", "own", "bounds"),
    [
        pytest.param("http://h/v1", {}, {"max_tokens": 5}, id="none"),
        pytest.param("http://h/v1", {"max_tokens": None}, {"max_tokens": 5}, id="null"),
        pytest.param("http://h/v1", {"min_tokens": 50_000, "ignore_eos": True}, {"max_tokens": 5}, id="a least length"),
        pytest.param("http://h/v1", {"max_tokens": 7}, {"max_tokens": 7}, id="its own"),
        pytest.param("http://h/v1", {"max_completion_tokens": 7}, {"max_completion_tokens": 7}, id="its own, by the other name"),
        pytest.param("https://api.openai.com/v1", {}, {"max_completion_tokens": 5}, id="none, to OpenAI"),
    ],
)
def test_a_body_without_a_bound_is_given_the_workloads(url, own, bounds):
    sent = body(target(url), call(body={"messages": [], **own}, max_tokens=Tokens(5)))
    assert {name: sent[name] for name in ("max_tokens", "max_completion_tokens") if name in sent} == bounds


def test_openrouter_is_not_asked_for_usage_that_it_sends_anyway():
    assert "stream_options" not in body(target("https://openrouter.ai/api/v1"), call())


@pytest.mark.parametrize(
    ("url", "endpoint", "whole"),
    [
        ("http://h:8000/v1", "chat/completions", "http://h:8000/v1/chat/completions"),
        ("http://h:8000/v1/", "completions", "http://h:8000/v1/completions"),
        ("http://h", "chat/completions", "http://h/chat/completions"),
        ("http://h/v1/chat/completions", "chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1?team=a%26b", "chat/completions", "http://h/v1/chat/completions?team=a%26b"),
        ("https://r.openai.azure.com/openai/v1/", "chat/completions", "https://r.openai.azure.com/openai/v1/chat/completions"),
        ("https://r.services.ai.azure.com", "chat/completions", "https://r.services.ai.azure.com/openai/v1/chat/completions"),
        (
            "https://r.services.ai.azure.com/models",
            "chat/completions",
            "https://r.services.ai.azure.com/models/chat/completions?api-version=2024-05-01-preview",
        ),
        (
            "https://r.services.ai.azure.com/models/chat/completions?api-version=2025-01-01",
            "chat/completions",
            "https://r.services.ai.azure.com/models/chat/completions?api-version=2025-01-01",
        ),
        (
            "https://r.openai.azure.com/openai/deployments/r1",
            "chat/completions",
            "https://r.openai.azure.com/openai/deployments/r1/chat/completions?api-version=2024-10-21",
        ),
        ("https://r1.eastus.models.ai.azure.com", "chat/completions", "https://r1.eastus.models.ai.azure.com/chat/completions"),
    ],
)
def test_the_whole_address(url, endpoint, whole):
    where = target(url, endpoint=endpoint)
    assert address(choose(where), where) == whole


@pytest.mark.parametrize(
    ("url", "key", "sent"),
    [
        ("http://h/v1", "k", {"Authorization": "Bearer k"}),
        ("http://h/v1", None, {}),
        ("https://r.openai.azure.com/openai/v1", "k", {"api-key": "k"}),
        ("https://r.openai.azure.com/openai/v1", "eyJhbGciOi.J9", {"Authorization": "Bearer eyJhbGciOi.J9"}),
        ("https://r.services.ai.azure.com/models", "k", {"api-key": "k", "extra-parameters": "pass-through"}),
        ("https://r1.eastus.models.ai.azure.com", "k", {"Authorization": "Bearer k"}),
    ],
)
def test_headers(url, key, sent):
    where = target(url)
    assert choose(where).headers(where, key) == {"Content-Type": "application/json", "Accept": "text/event-stream", **sent}


def test_the_targets_own_headers_win_however_they_are_written():
    where = target(headers={"authorization": "Basic x", "X-Team": "t"}, stream=False)
    assert choose(where).headers(where, "k") == {
        "Content-Type": "application/json", "Accept": "application/json", "authorization": "Basic x", "X-Team": "t",
    }  # fmt: skip
    where = target("https://r.services.ai.azure.com/models", headers={"Extra-Parameters": "drop"})
    assert "extra-parameters" not in choose(where).headers(where, "k")


@pytest.mark.parametrize(
    ("name", "headers", "facts"),
    [
        ("vllm", {"x-request-id": "r"}, Facts(request_id="r")),
        ("azure", {"apim-request-id": "a"}, Facts(request_id="a")),
        ("deepseek", {"x-ds-trace-id": "t"}, Facts(request_id="t")),
        ("openrouter", {"x-generation-id": "gen-1"}, Facts(request_id="gen-1")),
        (
            "litellm",
            {"x-litellm-call-id": "c", "x-litellm-model-id": "d1", "x-litellm-attempted-fallbacks": "2"},
            Facts(request_id="c", upstream="d1", fallbacks=2),
        ),
        ("litellm", {"x-litellm-attempted-fallbacks": "many"}, Facts()),
        ("openai", {}, Facts()),
    ],
)
def test_what_a_head_says(name, headers, facts):
    seen = Facts()
    choose(target(provider=name)).note_head(headers, seen)
    assert seen == facts


PIN = {"provider": {"order": ["deepinfra/fp8", "google-ai-studio"], "allow_fallbacks": False}}


@pytest.mark.parametrize(
    ("name", "extra", "facts", "says"),
    [
        ("openrouter", PIN, Facts(upstream="DeepInfra", model="m"), None),
        ("openrouter", PIN, Facts(upstream="Google AI Studio", model="m-0528:free"), None),
        ("openrouter", PIN, Facts(upstream="Novita"), "answered by Novita, not deepinfra/fp8 or google-ai-studio"),
        ("openrouter", PIN, Facts(upstream="DeepInfra", model="other"), "answered by other, not m"),
        ("openrouter", PIN, Facts(), None),
        ("openrouter", {"provider": {"only": ["Together"]}}, Facts(upstream="Novita"), "answered by Novita, not Together"),
        ("openrouter", {"provider": {"order": ["together"]}}, Facts(upstream="Novita"), None),
        ("openrouter", {}, Facts(upstream="Novita", model="other"), None),
        ("litellm", {}, Facts(fallbacks=1, upstream="d2"), "the proxy fell back 1 times, to d2"),
        ("litellm", {}, Facts(), None),
        ("vllm", PIN, Facts(upstream="Novita"), None),
    ],
)
def test_an_answer_from_elsewhere_is_told(name, extra, facts, says):
    where = target(provider=name)
    assert choose(where).rerouted(where, call(extra_body=extra), facts) == says


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (204, "server_error"), (307, "client_error"), (400, "client_error"), (401, "client_error"), (402, "client_error"),
        (404, "client_error"), (408, "client_error"), (422, "client_error"), (429, "rate_limited"), (500, "server_error"),
        (502, "server_error"), (503, "overloaded"), (504, "server_error"), (524, "server_error"), (529, "overloaded"),
    ],
)  # fmt: skip
def test_every_refusing_status_has_its_outcome(status, outcome):
    got, reason, message = choose(target()).refusal(status, {}, b'{"error":{"message":"no"}}')
    assert (got, reason) == (outcome, f"http_{status}")
    assert message == ("redirected to nowhere, which is not followed" if status == 307 else "no")


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (b"", None),
        (b"null", None),
        (b'{"error":{"message":"too many","type":"x","code":429}}', "too many"),
        (b'{"error":"too many"}', "too many"),
        (b'{"object":"error","message":"too many","code":40001}', "too many"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (
            b'{"detail":[{"loc":["body","max_tokens"],"msg":"must be positive"},{"msg":"odd"}]}',
            "body.max_tokens: must be positive; odd",
        ),
        (b'{"error":{"message":{"detail":"nested"}}}', "nested"),
        (
            b'{"error":{"code":502,"message":"Provider returned error","metadata":{"raw":"{\\"why\\":1}"}}}',
            'Provider returned error: {"why":1}',
        ),
        (b'{"message":"no route"}', "no route"),
        (b'{"errors":["a","b"]}', "a; b"),
        (b'{"foo":1}', '{"foo": 1}'),
        (
            b"<html><head><style>p{}</style><title>502 Bad Gateway</title></head><body>\n<h1>nginx</h1></body></html>",
            "502 Bad Gateway nginx",
        ),
        (b"upstream  connect\nerror", "upstream connect error"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'{"error":{"message":"Incorrect API key provided: abcdef123. Get one"}}', "Incorrect API key provided: [key] Get one"),
        (b'{"error":"bad sk-proj-abcDEF123456 and Bearer eyJhb.x"}', "bad [key] and [key]"),
        (b'{"error":"\\u001b[31mred\\u202e\\u009b, a\\nb"}', "\ufffd[31mred\ufffd\ufffd, a b"),
        (b"x" * 1000, "x" * 299 + "…"),
        (b"[" * 100_000, "[" * 299 + "…"),
    ],
)
def test_the_message_of_every_shape_of_error(sent, message):
    assert choose(target()).refusal(400, {}, sent)[2] == message


@pytest.mark.parametrize(
    ("key", "sent", "message"),
    [
        ("my.own+key/1", b'{"error":{"message":"no user has my.own+key/1, code my.own+key/1"}}', "no user has [key], code [key]"),
        ("my.own+key/1", b"<html><body>got Authorization=my.own+key/1</body></html>", "got Authorization=[key]"),
        ("my.own+key/1", b"x" * 290 + b" my.own+key/1", "x" * 290 + " [key]"),
        ("team", b"team team-a steamed: who is team?", "[key] [key]-a steamed: who is [key]?"),
        ("my.own+key/1", b"my_own_key/1", "my_own_key/1"),
    ],
    ids=["JSON", "a page", "before it is cut", "a short one as a word", "another"],
)
def test_a_key_of_ours_is_not_shown_whatever_it_looks_like(monkeypatch, key, sent, message):
    monkeypatch.setattr(says, "_OURS", set())
    says.conceal(key)
    assert choose(target()).refusal(401, {}, sent)[2] == message
    assert says.error_of({"message": "no", "code": f"bad {key}"})[1] == "bad [key]"
    assert says.printable(f"header {key!r} is odd") == "header '[key]' is odd"
