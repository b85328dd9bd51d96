"""The fields of the servers' JSON that matter here, typed for msgspec; everything else is skipped unread."""

import json
import re
from typing import Any

import msgspec

from r1perf.result import Usage


class Delta(msgspec.Struct):
    """What one event adds to the message; a whole message has the same fields."""

    content: str | None = None
    reasoning: str | None = None  # vLLM since 0.16, OpenRouter, Together
    reasoning_content: str | None = None  # DeepSeek, SGLang, TensorRT-LLM, older vLLM, LiteLLM, llama.cpp
    reasoning_details: Any = None  # OpenRouter: [{"type": "reasoning.text", "text"}, ...], the same text once more
    tool_calls: Any = None


class Choice(msgspec.Struct):
    """One of the `n` answers; only one is ever ordered here."""

    delta: Delta | None = None
    text: str | None = None  # completions
    message: Delta | None = None  # not streamed
    finish_reason: str | None = None
    error: Any = None  # OpenRouter


class Event(msgspec.Struct):
    """One event of a stream, or the whole answer where it is not streamed."""

    choices: list[Choice] | None = None
    usage: Any = None
    error: Any = None
    id: str | None = None
    model: str | None = None
    provider: str | None = None  # OpenRouter: the upstream
    timings: Any = None  # llama.cpp
    perf_metrics: Any = None  # Fireworks, where the body asked for `perf_metrics_in_response`


_HALF_PAIR = re.compile("[\ud800-\udfff]")

_decoder = msgspec.json.Decoder(Event)
decode = _decoder.decode
"""Decode the JSON of an event strictly; raises msgspec.MsgspecError where a field that matters has another type."""


def tolerant(data: bytes) -> Any:
    """Decode JSON as browsers do: lone surrogates and broken UTF-8 become U+FFFD, NaN is allowed; raises ValueError."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def event_of(raw: dict[str, Any]) -> Event:
    """Read what can be read of an event whose fields are missing, null or of another type than they should be."""
    choices = raw.get("choices")
    return Event(
        choices=[_choice(choice) for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else None,
        usage=raw.get("usage"),
        error=raw.get("error"),
        id=_text(raw.get("id")),
        model=_text(raw.get("model")),
        provider=_text(raw.get("provider")),
        timings=raw.get("timings"),
        perf_metrics=raw.get("perf_metrics"),
    )


def _choice(raw: dict[str, Any]) -> Choice:
    return Choice(
        delta=_delta(raw.get("delta")),
        text=_text(raw.get("text")),
        message=_delta(raw.get("message")),
        finish_reason=_text(raw.get("finish_reason")),
        error=raw.get("error"),
    )


def _delta(raw: Any) -> Delta | None:
    if not isinstance(raw, dict):
        return None
    return Delta(
        content=_text(raw.get("content")),
        reasoning=_text(raw.get("reasoning")),
        reasoning_content=_text(raw.get("reasoning_content")),
        reasoning_details=raw.get("reasoning_details"),
        tool_calls=raw.get("tool_calls"),
    )


def _text(raw: Any) -> str | None:
    """Return a text, also where it comes as a list of parts ({"type": "text", "text": ...})."""
    if isinstance(raw, str):
        # Half a surrogate pair comes from servers that cut an emoji in two; nothing could write it out again.
        return _HALF_PAIR.sub("\ufffd", raw)
    if isinstance(raw, list):
        return "".join(_text(part.get("text")) or "" for part in raw if isinstance(part, dict)) or None
    return None


def details_text(details: Any) -> str:
    """Return the text of `reasoning_details`; encrypted ones have none."""
    if not isinstance(details, list):
        return ""
    parts = (part.get("text") or part.get("summary") for part in details if isinstance(part, dict))
    return "".join(part for part in parts if isinstance(part, str))


def tool_text(calls: Any) -> str:
    """Return what the model wrote of tool calls: names and arguments, not ids."""
    if not isinstance(calls, list):
        return ""
    functions = (call.get("function") for call in calls if isinstance(call, dict))
    parts = (function.get(key) for function in functions if isinstance(function, dict) for key in ("name", "arguments"))
    return "".join(part for part in parts if isinstance(part, str))


def usage_of(raw: Any, before: Usage | None) -> Usage | None:
    """Read a `usage` object under any of its names and join it with an earlier one.

    The larger output count is the later word (some servers send usage on every chunk, and an empty one at the end); a count
    that is absent in one is taken from the other.
    """
    if not isinstance(raw, dict):
        return before
    usage = Usage(
        input_tokens=_count(raw, "prompt_tokens", "input_tokens"),
        output_tokens=_count(raw, "completion_tokens", "output_tokens"),
        reasoning_tokens=_detail(raw, "reasoning_tokens", "completion_tokens_details", "output_tokens_details"),
        cached_tokens=_detail(raw, "cached_tokens", "prompt_tokens_details", "input_tokens_details"),
    )
    if usage.cached_tokens is None:
        # DeepSeek's name, then Anthropic's, which gateways pass on.
        usage = msgspec.structs.replace(usage, cached_tokens=_count(raw, "prompt_cache_hit_tokens", "cache_read_input_tokens"))
    return usage if before is None else _joined(before, usage)


def timings_usage(raw: Any, usage: Usage | None) -> Usage | None:
    """Read llama.cpp's `timings` where `usage` says nothing: `prompt_n` were computed, `cache_n` came from the cache."""
    if not isinstance(raw, dict):
        return usage
    computed, cached = _count(raw, "prompt_n"), _count(raw, "cache_n")
    timed = Usage(
        input_tokens=None if computed is None else computed + (cached or 0),
        output_tokens=_count(raw, "predicted_n"),
        cached_tokens=cached,
    )
    return timed if usage is None else _joined(timed, usage)


def told_usage(raw: Any, usage: Usage | None) -> Usage | None:
    """Read what Fireworks tells of a prompt in headers or `perf_metrics`, as texts, where `usage` says nothing."""
    if not isinstance(raw, dict):
        return usage
    given, cached = _text_count(raw.get("prompt-tokens")), _text_count(raw.get("cached-prompt-tokens"))
    if given is None and cached is None:
        return usage
    told = Usage(input_tokens=given, cached_tokens=cached)
    return told if usage is None else _joined(told, usage)


def _text_count(value: Any) -> int | None:
    text = str(value).strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _joined(before: Usage, after: Usage) -> Usage:
    if (after.output_tokens or 0) < (before.output_tokens or 0):
        before, after = after, before
    return Usage(*(old if new is None else new for old, new in zip(_values(before), _values(after), strict=True)))


def _values(usage: Usage) -> tuple[int | None, ...]:
    return usage.input_tokens, usage.output_tokens, usage.reasoning_tokens, usage.cached_tokens


def _count(raw: dict[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = raw.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def _detail(raw: dict[str, Any], key: str, *places: str) -> int | None:
    """Return a count from one of the detail objects, else from the top level (SGLang's `reasoning_tokens`)."""
    for place in places:
        details = raw.get(place)
        if isinstance(details, dict) and (value := _count(details, key)) is not None:
            return value
    return _count(raw, key)
