"""Choose a dialect: the union of all of them is the registry."""

import difflib
from typing import get_args
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from r1perf.errors import ScenarioError
from r1perf.providers import Dialect
from r1perf.providers.azure import Azure
from r1perf.providers.deepseek import DeepSeek
from r1perf.providers.dynamo import Dynamo
from r1perf.providers.fireworks import Fireworks
from r1perf.providers.litellm import LiteLlm
from r1perf.providers.llamacpp import LlamaCpp
from r1perf.providers.openai import OpenAI
from r1perf.providers.openrouter import OpenRouter
from r1perf.providers.sglang import Sglang
from r1perf.providers.together import Together
from r1perf.providers.trtllm import Trtllm
from r1perf.providers.vllm import Vllm
from r1perf.target import Target

Provider = (
    OpenAI | Vllm | Sglang | Trtllm | Dynamo | DeepSeek | OpenRouter | Azure | Together | Fireworks | LiteLlm | LlamaCpp
)  # fmt: skip

_BY_NAME: dict[str, Dialect] = {dialect.name: dialect for dialect in (kind() for kind in get_args(Provider))}

_BY_HOST = {
    "api.deepseek.com": "deepseek",
    "openrouter.ai": "openrouter",
    "azure.com": "azure",
    "api.together.ai": "together",
    "api.together.xyz": "together",
    "api.fireworks.ai": "fireworks",
}

_SIMULATED = {"vllm-old": "vllm", "llama.cpp": "llamacpp"}
"""Dialects of the simulated endpoint that go by another name here; `tags`, `prefilled` and `none` are servers without a parser."""


def names() -> tuple[str, ...]:
    """Return every name that a target's `provider` may have."""
    return ("auto", *_BY_NAME)


def choose(target: Target) -> Dialect:
    """Return the target's dialect; raises ScenarioError for an unknown name.

    "auto" goes by the URL's host, or by what a simulated endpoint is told to speak; a host that is nobody's gets `openai`, which reads
    all dialects and sends only what all know.
    """
    if target.provider != "auto":
        if target.provider in _BY_NAME:
            return _BY_NAME[target.provider]
        close = difflib.get_close_matches(target.provider, names(), 1)
        hint = f"; did you mean `{close[0]}`?" if close else ""
        raise ScenarioError("target.provider", f"unknown `{target.provider}`{hint} Allowed: {', '.join(names())}")
    url = urlsplit(target.url)
    if url.scheme == "simulate":
        told = dict(parse_qsl(url.query)).get("dialect", "vllm")
        return _BY_NAME.get(_SIMULATED.get(told, told), _BY_NAME["openai"])
    host = url.hostname or ""
    for suffix, name in _BY_HOST.items():
        if host == suffix or host.endswith(f".{suffix}"):
            return _BY_NAME[name]
    return _BY_NAME["openai"]


def check_length(target: Target, output_tokens: int | None) -> None:
    """Raise ScenarioError where an exact length is ordered from a server that cannot be ordered to one."""
    dialect = choose(target)
    if output_tokens is None or dialect.orders_length:
        return
    able = ", ".join(name for name, other in _BY_NAME.items() if other.orders_length)
    guess = " (`auto` takes it for that by its URL; `r1perf probe` tells what it is)" if target.provider == "auto" else ""
    raise ScenarioError(
        "target.provider",
        f"`{dialect.name}`{guess} cannot be ordered to an exact length of {output_tokens} tokens; "
        f"bound it with max_tokens, or name the server where it is one of {able}",
    )


def check_cache_control(target: Target, path: str) -> None:
    """Raise ScenarioError where hints for the cache are asked of a server that takes none; `path` is the dataset's key."""
    dialect = choose(target)
    if dialect.takes_cache_control and target.endpoint == "chat/completions":
        return
    able = ", ".join(name for name, other in _BY_NAME.items() if other.takes_cache_control)
    what = f"`{dialect.name}`" if not dialect.takes_cache_control else "the completions endpoint"
    raise ScenarioError(path, f"{what} takes no hints for its cache (`target.provider`); allowed: {able}, in chats")


def address(dialect: Dialect, target: Target) -> str:
    """Return the whole URL of the requests: the target's URL and the dialect's path, queries joined, the target's own winning.

    A URL that already ends with the endpoint, as people copy it from a provider's page, is taken as it is.
    """
    base = urlsplit(target.url)
    path = base.path.rstrip("/")
    if path.endswith(f"/{target.endpoint}"):
        path = path[: -len(target.endpoint) - 1]
    bare = urlunsplit((base.scheme, base.netloc, path, "", ""))
    added = urlsplit(dialect.path(Target(url=bare, model=target.model, endpoint=target.endpoint)))
    query = dict(parse_qsl(added.query)) | dict(parse_qsl(base.query))
    return urlunsplit((base.scheme, base.netloc, path + added.path, urlencode(query), ""))
