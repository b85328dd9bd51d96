"""Write answers on the wire as each server family does; one class a family, what they share in `Dialect`.

Written from the sources of vLLM 0.33, SGLang 0.5.23 and TensorRT-LLM (main, 2026) and from the public API pages of the
hosted ones. What is not certain there is marked "unverified".
"""

from typing import Any, ClassVar, Literal

import msgspec

THINKING, ANSWER = 1, 2
HOLE = "\x01"
"""Stands for the text in a payload that is cut into the constant parts around it."""

DONE = b"data: [DONE]\n\n"
_encode = msgspec.json.encode


class Counts(msgspec.Struct):
    """Hold the token counts of one answer, so far."""

    prompt: int
    cached: int
    output: int
    reasoning: int


class Wire(msgspec.Struct, frozen=True):
    """Hold what every event of one response repeats.

    `usage` and `continuous` are the request's `stream_options`; `mute` leaves usage out wherever a family would send it
    unasked; `rerouted` means that another upstream than the usual one answers.
    """

    id: str
    created: int
    model: str
    chat: bool = True
    usage: bool = False
    continuous: bool = False
    mute: bool = False
    rerouted: bool = False
    body: dict[str, Any] = {}


class Dialect:
    """vLLM 0.33 with a reasoning parser: `delta.reasoning`, the finish on the last token, usage in a `choices: []` chunk."""

    name: ClassVar[str] = "vllm"
    fields: ClassVar[tuple[str, ...]] = ("reasoning",)
    inline: ClassVar[Literal["", "tags", "prefilled"]] = ""
    thinks: ClassVar[bool] = True
    own_finish: ClassVar[bool] = False  # finish_reason comes in a chunk without text
    counts_reasoning: ClassVar[bool] = True
    holds_bytes: ClassVar[bool] = False  # now and then a token has no text yet, and the next one has both
    request_fields: ClassVar[frozenset[str] | None] = None  # where unknown ones are refused
    keep_alive_s: ClassVar[float | None] = None  # how often a comment is sent while a request waits for its first token

    # What each part of an event holds.

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Return the response headers that this family adds."""
        return []

    def role(self) -> dict[str, Any] | None:
        """Return the delta of the first chunk, or None where there is no such chunk."""
        return {"role": "assistant", "content": ""}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token; an inline family writes its thinking as content."""
        if kind == THINKING and not self.inline:
            return {field: text for field in self.fields}
        return {"content": text}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return choice if finish is None else {**choice, "stop_reason": None}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Wrap choices into a chunk."""
        kind = "chat.completion.chunk" if wire.chat else "text_completion"
        return {"id": wire.id, "object": kind, "created": wire.created, "model": wire.model, "choices": choices, **more}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Return the usage object."""
        usage: dict[str, Any] = {
            "prompt_tokens": counts.prompt,
            "total_tokens": counts.prompt + counts.output,
            "completion_tokens": counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
        }
        if self.counts_reasoning:
            usage["completion_tokens_details"] = {"reasoning_tokens": counts.reasoning}
        return usage

    def continuous(self, wire: Wire) -> bool:
        """Say whether every chunk carries usage."""
        return wire.usage and wire.continuous

    def extra(self, wire: Wire, counts: Counts | None) -> dict[str, Any]:
        """Return what a chunk carries beside its choices."""
        return {"usage": self.usage(counts)} if counts is not None and self.continuous(wire) else {}

    # The events of a stream.

    def event(self, payload: dict[str, Any]) -> bytes:
        """Frame one payload."""
        return b"data: " + _encode(payload) + b"\n\n"

    def at_once(self, wire: Wire) -> bytes:
        """Return what follows the head, before the engine has done anything."""
        return b""

    def keep_alive(self) -> bytes:
        """Return the comment that this family sends while a request waits."""
        return b": keep-alive\n\n"

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """Return what comes with, and before, the first token."""
        role = self.role()
        if role is None or not wire.chat:
            return b""
        return self.event(self.chunk(wire, [self.choice(role, None)], **self.extra(wire, counts)))

    def token(self, wire: Wire, kind: int, text: str, finish: str | None, counts: Counts | None) -> bytes:
        """Write one token; `finish` is given with the last one, where this family lets it carry the finish."""
        if not wire.chat:
            choice = {"index": 0, "text": text, "logprobs": None, "finish_reason": finish, "stop_reason": None}
        else:
            choice = self.choice(self.delta(kind, text), finish)
        return self.event(self.chunk(wire, [choice], **self.extra(wire, counts)))

    def parts(self, wire: Wire, kind: int) -> list[bytes]:
        """Cut a token's event at its text: `text.join(parts)` is the event, for JSON-escaped text."""
        return self.token(wire, kind, HOLE, None, None).split(b"\\u0001")

    def finish(self, wire: Wire, finish: str, counts: Counts) -> bytes:
        """Write the chunk that carries only the finish."""
        if not wire.chat:
            return self.event(self.chunk(wire, [{"index": 0, "text": "", "logprobs": None, "finish_reason": finish}]))
        return self.event(self.chunk(wire, [self.choice(self.finish_delta(), finish)], **self.extra(wire, counts)))

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of a chunk that carries only the finish."""
        return {}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Return what follows the finish, but for [DONE]."""
        return self.event(self.chunk(wire, [], usage=self.usage(counts))) if wire.usage else b""

    # Answers that are not streamed, and errors.

    def whole(self, wire: Wire, reasoning: str, answer: str, finish: str | None, counts: Counts | None) -> dict[str, Any]:
        """Write a response in one piece; `counts` is None where usage is left out."""
        if wire.chat:
            message: dict[str, Any] = {"role": "assistant", "content": answer}
            if self.thinks and not self.inline:
                message |= {field: reasoning for field in self.fields}
            else:
                message["content"] = reasoning + answer
            choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        else:
            choice = {"index": 0, "text": reasoning + answer, "logprobs": None, "finish_reason": finish}
        kind = "chat.completion" if wire.chat else "text_completion"
        body = {"id": wire.id, "object": kind, "created": wire.created, "model": wire.model, "choices": [choice]}
        return body if counts is None else {**body, "usage": self.usage(counts)}

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Write the body of a refusal."""
        return {"error": {"message": message, "type": kind, "param": param, "code": status}}

    def broken(self, wire: Wire, message: str) -> bytes:
        """Write an error in the middle of a stream, as far as the stream then goes on."""
        return self.event(self.error(500, message, "InternalServerError")) + DONE


class VllmOld(Dialect):
    """vLLM before 0.12: `delta.reasoning_content`; errors in the stream without the `error` key around them."""

    name = "vllm-old"
    fields = ("reasoning_content",)

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Write the body of a refusal."""
        return {"object": "error", "message": message, "type": kind, "param": param, "code": status}


class Sglang(Dialect):
    """SGLang: every delta has the key `reasoning_content`, null or text; a finish chunk; `sglext` when asked for."""

    name = "sglang"
    fields = ("reasoning_content",)
    own_finish = True

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": "", "reasoning_content": None, "tool_calls": None}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token."""
        thinking = kind == THINKING
        return {
            "role": None,
            "content": None if thinking else text,
            "reasoning_content": text if thinking else None,
            "tool_calls": None,
        }

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        matched = 1 if finish == "stop" else None  # the id of the end-of-sentence token
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "matched_stop": matched}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"role": None, "content": None, "reasoning_content": None, "tool_calls": None}

    def extra(self, wire: Wire, counts: Counts | None) -> dict[str, Any]:
        """Carry usage on every chunk, null where it was not asked for."""
        return super().extra(wire, counts) or {"usage": None}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Count reasoning twice, as it does: at the top and in the details."""
        return {**super().usage(counts), "reasoning_tokens": counts.reasoning}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Put an `sglext` chunk before usage where the request asks for cache details."""
        ext = b""
        if wire.body.get("return_cached_tokens_details"):
            details = {"cached_tokens_details": {"device": counts.cached, "host": 0}}
            ext = self.event(self.chunk(wire, [], usage=None, sglext=details))
        return ext + super().closing(wire, counts)

    def broken(self, wire: Wire, message: str) -> bytes:
        """Write an error in the middle of a stream."""
        error = {"object": "error", "message": message, "type": "InternalServerError", "param": None, "code": 500}
        return self.event({"error": error}) + DONE


class Trtllm(Dialect):
    """TensorRT-LLM: a role line with a trailing space, usage on every chunk, tokens with empty text, strict requests."""

    name = "trtllm"
    fields = ("reasoning_content",)
    counts_reasoning = False  # unverified
    holds_bytes = True
    request_fields = frozenset({
        "add_generation_prompt", "chat_template_kwargs", "echo", "frequency_penalty", "ignore_eos", "logit_bias", "logprobs",
        "max_completion_tokens", "max_tokens", "messages", "min_p", "min_tokens", "model", "n", "presence_penalty", "prompt",
        "reasoning_effort", "repetition_penalty", "response_format", "seed", "stop", "stop_token_ids", "stream",
        "stream_options", "suffix", "temperature", "tool_choice", "tools", "top_k", "top_logprobs", "top_p", "user",
    })  # fmt: skip

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk: no content key."""
        return {"role": "assistant"}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice; None is left out."""
        choice = {"index": 0, "delta": delta}
        return choice if finish is None else {**choice, "finish_reason": finish, "avg_decoded_tokens_per_iter": 1.0}

    def continuous(self, wire: Wire) -> bool:
        """Default `continuous_usage_stats` to true."""
        stream_options = wire.body.get("stream_options") or {}
        return wire.usage and stream_options.get("continuous_usage_stats", True) is True

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """End the first line in a space."""
        opening = super().opening(wire, counts)
        return opening[:-2] + b" \n\n" if opening else opening


class Deepseek(Dialect):
    """DeepSeek's API: keep-alive comments, both fields in every delta, usage with cache hits on the finish chunk."""

    name = "deepseek"
    fields = ("reasoning_content",)
    own_finish = True
    keep_alive_s = 10.0  # unverified

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": None, "reasoning_content": ""}

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token."""
        return {"content": None, "reasoning_content": text} if kind == THINKING else {"content": text, "reasoning_content": None}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Add the fingerprint."""
        return super().chunk(wire, choices, system_fingerprint="fp_r1sim", **more)

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Add cache hits and misses."""
        miss = counts.prompt - counts.cached
        return {**super().usage(counts), "prompt_cache_hit_tokens": counts.cached, "prompt_cache_miss_tokens": miss}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"content": "", "reasoning_content": None}

    def finish(self, wire: Wire, finish: str, counts: Counts) -> bytes:
        """Let usage ride on the finish chunk, asked for or not."""
        choice = self.choice(self.finish_delta(), finish)
        if not wire.chat:
            choice = {"index": 0, "text": "", "logprobs": None, "finish_reason": finish}
        return self.event(self.chunk(wire, [choice], **({} if wire.mute else {"usage": self.usage(counts)})))

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Add nothing after the finish chunk."""
        return b""

    def error(self, status: int, message: str, kind: str, param: str | None = None) -> dict[str, Any]:
        """Give the code as a word."""
        return {"error": {"message": message, "type": kind, "param": param, "code": "invalid_request_error"}}


class Openrouter(Dialect):
    """OpenRouter: `: OPENROUTER PROCESSING`, `provider` in every chunk, `reasoning` and `reasoning_details`, cost."""

    name = "openrouter"
    own_finish = True
    keep_alive_s = 10.0  # unverified

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Name the generation."""
        return [("x-generation-id", wire.id)]

    def at_once(self, wire: Wire) -> bytes:
        """Say that the request is being processed."""
        return self.keep_alive()

    def keep_alive(self) -> bytes:
        """Return its own words."""
        return b": OPENROUTER PROCESSING\n\n"

    def role(self) -> None:
        """Have no role chunk."""

    def delta(self, kind: int, text: str) -> dict[str, Any]:
        """Return the delta of one token: thinking twice, in two shapes."""
        if kind != THINKING:
            return {"role": "assistant", "content": text}
        detail = {"type": "reasoning.text", "text": text, "format": "unknown", "index": 0}
        return {"role": "assistant", "content": "", "reasoning": text, "reasoning_details": [detail]}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Wrap a delta into a choice."""
        return {"index": 0, "delta": delta, "finish_reason": finish, "native_finish_reason": finish, "logprobs": None}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Name the upstream."""
        return {"id": wire.id, "provider": "Elsewhere" if wire.rerouted else "R1Sim", **super().chunk(wire, choices, **more)}

    def finish_delta(self) -> dict[str, Any]:
        """Return the delta of the finish chunk."""
        return {"role": "assistant", "content": ""}

    def usage(self, counts: Counts) -> dict[str, Any]:
        """Add the cost, at 0.70 and 2.50 USD per million tokens (its R1 price of July 2026)."""
        cost = round((counts.prompt * 0.70 + counts.output * 2.50) / 1e6, 9)
        return {**super().usage(counts), "cost": cost}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Give usage always, in a chunk with an empty delta."""
        if wire.mute:
            return b""
        choice = self.choice(self.finish_delta(), None) if wire.chat else {"index": 0, "text": "", "finish_reason": None}
        return self.event(self.chunk(wire, [choice], usage=self.usage(counts)))

    def broken(self, wire: Wire, message: str) -> bytes:
        """Put the error into a chunk, with finish_reason "error"."""
        error = {"code": 502, "message": message}
        return self.event(self.chunk(wire, [self.choice({"content": ""}, "error")], error=error)) + DONE


class Azure(Dialect):
    """Azure AI Foundry: `prompt_filter_results` first with `choices: []`, filter results on every choice."""

    name = "azure"
    fields = ("reasoning_content",)
    own_finish = True

    def opening(self, wire: Wire, counts: Counts) -> bytes:
        """Say first what the prompt filter found."""
        safe = {"filtered": False, "severity": "safe"}
        found = [
            {"prompt_index": 0, "content_filter_results": {"hate": safe, "self_harm": safe, "sexual": safe, "violence": safe}}
        ]
        first = {"choices": [], "created": 0, "id": "", "model": "", "object": "", "prompt_filter_results": found}
        return self.event(first) + super().opening(wire, counts)

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Add the filter's results."""
        return {"index": 0, "delta": delta, "finish_reason": finish, "logprobs": None, "content_filter_results": {}}


class Dynamo(Dialect):
    """NVIDIA Dynamo: as older vLLM, but errors are an `event: error` whose text is only a comment (dynamo#8674)."""

    name = "dynamo"
    fields = ("reasoning_content",)
    own_finish = True

    def broken(self, wire: Wire, message: str) -> bytes:
        """Name the event and put the message in a comment; nothing follows."""
        return b"event: error\n: " + message.encode() + b"\n\n"


class Tags(Dialect):
    """A server without a reasoning parser whose output opens with `<think>`."""

    name = "tags"
    fields = ()
    inline: ClassVar[Literal["", "tags", "prefilled"]] = "tags"
    counts_reasoning = False


class Prefilled(Tags):
    """A server without a reasoning parser whose template opens `<think>` itself: only `</think>` is streamed."""

    name = "prefilled"
    inline = "prefilled"


class Plain(Dialect):
    """A model that does not reason."""

    name = "none"
    fields = ()
    thinks = False
    counts_reasoning = False


class Litellm(Dialect):
    """LiteLLM's proxy: `reasoning_content`, the role on the first token, `x-litellm-` headers."""

    name = "litellm"
    fields = ("reasoning_content",)
    own_finish = True

    def headers(self, wire: Wire) -> list[tuple[str, str]]:
        """Say which deployment answered, and how often the proxy tried."""
        return [
            ("x-litellm-call-id", wire.id),
            ("x-litellm-model-id", "r1sim-deployment-1"),
            ("x-litellm-upstream-model", wire.model),
            ("x-litellm-attempted-retries", "0"),
            ("x-litellm-attempted-fallbacks", "1" if wire.rerouted else "0"),
        ]

    def role(self) -> None:
        """Have no role chunk of its own."""

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Leave out what is None."""
        return {"index": 0, "delta": delta} if finish is None else {"finish_reason": finish, "index": 0, "delta": delta}


class LlamaCpp(Dialect):
    """llama.cpp's server: choices first, `reasoning_content`, an empty finish delta, `timings` beside usage."""

    name = "llama.cpp"
    fields = ("reasoning_content",)
    own_finish = True
    counts_reasoning = False

    def role(self) -> dict[str, Any]:
        """Return the delta of the first chunk."""
        return {"role": "assistant", "content": None}

    def choice(self, delta: dict[str, Any], finish: str | None) -> dict[str, Any]:
        """Put the finish first."""
        return {"finish_reason": finish, "index": 0, "delta": delta}

    def chunk(self, wire: Wire, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        """Order the keys as it does."""
        kind = "chat.completion.chunk" if wire.chat else "text_completion"
        head = {"choices": choices, "created": wire.created, "id": wire.id, "model": wire.model}
        return {**head, "system_fingerprint": "r1sim", "object": kind, **more}

    def closing(self, wire: Wire, counts: Counts) -> bytes:
        """Give timings with usage."""
        if not wire.usage:
            return b""
        timings = {"cache_n": counts.cached, "prompt_n": counts.prompt - counts.cached, "predicted_n": counts.output}
        return self.event(self.chunk(wire, [], usage=self.usage(counts), timings=timings))


DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect
    for dialect in (
        Dialect(), VllmOld(), Sglang(), Trtllm(), Deepseek(), Openrouter(), Azure(), Dynamo(), Tags(), Prefilled(), Plain(),
        Litellm(), LlamaCpp(),
    )
}  # fmt: skip
