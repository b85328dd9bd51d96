"""Read the body of a completions request, and refuse what the servers refuse."""

from typing import Any

import msgspec

from r1perf.simulator.answers import Limits
from r1perf.simulator.dialects import Dialect
from r1perf.simulator.prompts import chat_text, tokens_of


class Refused(Exception):
    """Say why a request is refused: an HTTP status, the server's sentence, its type and parameter."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.param = param


class Call(msgspec.Struct, frozen=True):
    """Hold what a request asks for."""

    chat: bool
    model: str
    text: str  # the prompt, rendered
    asked: str  # the part that says what kind of question it is: system messages and the last one
    data: bytes  # the prompt as tokens of four bytes
    prompt_tokens: int
    stream: bool
    usage: bool
    continuous: bool
    limits: Limits
    seed: str
    salt: str
    body: dict[str, Any]


def read_call(raw: bytes, *, chat: bool, models: tuple[str, ...], context: int, dialect: Dialect) -> Call:
    """Decode and check a body; raises Refused as the servers would."""
    try:
        body = msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise _bad(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise _bad("the body is not a JSON object")
    if dialect.request_fields is not None and (unknown := sorted(set(body) - dialect.request_fields)):
        raise _bad(f"Extra inputs are not permitted: {', '.join(unknown)}", unknown[0])
    model = body.get("model", models[0])
    if model not in models:
        raise Refused(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
    text, asked, data = _chat(body) if chat else _prompt(body)
    prompt_tokens = tokens_of(data)
    stream = body.get("stream") or False
    options = body.get("stream_options") or {}
    if options and not stream:
        raise _bad("Stream options can only be defined when `stream=True`.", "stream_options")
    if not isinstance(options, dict):
        raise _bad("stream_options is not an object", "stream_options")
    if body.get("n") not in (None, 1):
        raise _bad("n must be 1: this simulator gives one choice", "n")
    max_tokens = _integer(body, "max_completion_tokens", 1)
    if max_tokens is None:
        max_tokens = _integer(body, "max_tokens", 1)
    longest = context - prompt_tokens
    if longest < 1 or (max_tokens is not None and max_tokens > longest):
        raise _bad(
            f"This model's maximum context length is {context} tokens. However, you requested {max_tokens or 1} output tokens "
            f"and your prompt contains {prompt_tokens} input tokens.",
            "max_tokens",
        )
    limits = Limits(longest, max_tokens, _integer(body, "min_tokens", 0) or 0, body.get("ignore_eos") is True)
    return Call(
        chat=chat, model=model, text=text, asked=asked, data=data, prompt_tokens=prompt_tokens, stream=bool(stream),
        usage=options.get("include_usage") is True, continuous=options.get("continuous_usage_stats") is True, limits=limits,
        seed=str(body.get("seed", "")), salt=str(body.get("cache_salt", "")), body=body,
    )  # fmt: skip


def _bad(message: str, param: str | None = None) -> Refused:
    return Refused(400, message, "BadRequestError", param)


def _integer(body: dict[str, Any], name: str, least: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise _bad(f"{name} must be an integer of at least {least}, not {value!r}", name)
    return value


def _chat(body: dict[str, Any]) -> tuple[str, str, bytes]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages or not all(isinstance(message, dict) for message in messages):
        raise _bad("messages must be a list of at least one message", "messages")
    text = chat_text(messages)
    system = [message for message in messages[:-1] if message.get("role") in ("system", "developer")]
    return text, chat_text([*system, messages[-1]]), text.encode()


def _prompt(body: dict[str, Any]) -> tuple[str, str, bytes]:
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt, prompt, prompt.encode()
    if isinstance(prompt, list) and prompt and all(isinstance(token, int) and 0 <= token < 2**32 for token in prompt):
        return str(prompt), "", b"".join(token.to_bytes(4, "little") for token in prompt)
    raise _bad("prompt must be one text or one list of token ids", "prompt")
