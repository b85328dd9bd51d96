"""Speak to any server that says it is OpenAI-compatible; the other dialects are this one and what they do differently."""

from typing import Any, ClassVar
from urllib.parse import urlsplit

import msgspec

from r1perf.providers import Decoder, Facts, says
from r1perf.providers.decode import StreamDecoder, WholeDecoder
from r1perf.providers.hints import marked
from r1perf.result import Outcome
from r1perf.target import BOUNDS, Call, Target

_REQUEST_ID_HEADERS = ("x-request-id", "request-id", "apim-request-id")


class OpenAI(msgspec.Struct, frozen=True, tag_field="provider", tag="openai"):
    """The common ground: tolerant in what it reads, careful in what it sends."""

    orders_length: ClassVar[bool] = False
    takes_cache_control: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """Return the name by which a scenario's `provider` chooses it."""
        return str(type(self).__struct_config__.tag)

    def path(self, target: Target) -> str:
        """Return what is appended to the target's URL."""
        return f"/{target.endpoint}"

    def headers(self, target: Target, key: str | None) -> dict[str, str]:
        """Return the headers of every request; the target's own come last and win."""
        headers = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream" if target.stream else "application/json",
            **(self.key_header(target, key) if key else {}),
        }
        for name, value in target.headers.items():
            for same in [other for other in headers if other.lower() == name.lower()]:
                del headers[same]
            headers[name] = value
        return headers

    def key_header(self, target: Target, key: str) -> dict[str, str]:
        """Return the header that carries the key."""
        return {"Authorization": f"Bearer {key}"}

    def body(self, target: Target, call: Call) -> dict[str, Any]:
        """Build the request body; a value of None in an `extra_body` takes a key away, since null is never sent."""
        if call.body is not None:
            body = call.body | {"model": call.model}
            if not any(body.get(name) for name in BOUNDS):
                body |= self.length_body(target, call)
            own = body.pop("stream_options", None)
            body.pop("stream", None)
            return body | self.stream_body(target, own)
        body = {"model": call.model, **self.question(target, call), **self.length_body(target, call)}
        body |= {name: value for name, value in msgspec.structs.asdict(call.sampling).items() if value is not None}
        body |= self.stream_body(target, None)
        body |= target.extra_body | call.extra_body
        return {name: value for name, value in body.items() if value is not None}

    def question(self, target: Target, call: Call) -> dict[str, Any]:
        """Return the prompt or the messages; a prompt is sent as one user message where the endpoint is a chat."""
        if target.endpoint == "completions":
            prompt = call.prompt if call.prompt is not None else "\n\n".join(message.content for message in call.messages)
            return {"prompt": prompt}
        if call.prompt is not None and not call.messages:
            return {"messages": [{"role": "user", "content": call.prompt}]}
        if call.cache_control and self.takes_cache_control:
            return {"messages": marked(call.messages)}
        return {"messages": [{"role": message.role, "content": message.content} for message in call.messages]}

    def length_body(self, target: Target, call: Call) -> dict[str, Any]:
        """Return the fields that bound or order the length of the answer."""
        if call.output_tokens is not None and self.orders_length:
            return self.exact_length(int(call.output_tokens))
        limit = call.output_tokens if call.max_tokens is None else call.max_tokens
        # OpenAI's own reasoning models refuse max_tokens; the servers of open models know it, and some only it.
        renamed = target.endpoint == "chat/completions" and urlsplit(target.url).hostname == "api.openai.com"
        return {} if limit is None else {"max_completion_tokens" if renamed else "max_tokens": int(limit)}

    def exact_length(self, tokens: int) -> dict[str, Any]:
        """Return the fields that order exactly so many tokens (only asked where `orders_length`)."""
        return {"max_tokens": tokens, "min_tokens": tokens, "ignore_eos": True}

    def stream_body(self, target: Target, own: dict[str, Any] | None) -> dict[str, Any]:
        """Return the fields that order a stream, with usage at its end."""
        if not target.stream:
            return {}
        return {"stream": True, "stream_options": {"include_usage": True, **(own or {})}}

    def decoder(self, target: Target) -> Decoder:
        """Begin to read one response."""
        return StreamDecoder(target.reasoning) if target.stream else WholeDecoder(target.reasoning)

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take the request id from the response's head, where it has one."""
        for name in _REQUEST_ID_HEADERS:
            if name in headers:
                facts.request_id = headers[name]
                return

    def rerouted(self, target: Target, call: Call, facts: Facts) -> str | None:
        """Return None: such a server names no upstream."""
        return None

    def refusal(self, status: int, headers: dict[str, str], body: bytes) -> tuple[Outcome, str | None, str | None]:
        """Read an HTTP status other than 200: outcome, reason word, and the server's message, shortened."""
        return says.refusal(status, headers, body)
