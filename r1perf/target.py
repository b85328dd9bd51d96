"""Where the load goes and how to speak to it."""

from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec

from r1perf.units import Duration, Tokens

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
"""A name that becomes a log tag, a database tag, a selector and a test id."""

Positive = Annotated[float, msgspec.Meta(gt=0)]

SIMULATED = "simulate:"
"""A target whose url begins so is the embedded simulated endpoint: `simulate:PROFILE`, or `simulate:PROFILE?speed=10`."""

BOUNDS = ("max_completion_tokens", "max_tokens")
"""Fields of a request body that bound its answer."""

SEVERAL = ("n", "best_of")
"""Fields of a request body that ask for more than one answer, each as long as the bound."""


class Timeouts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long each part of a request may take; `connect` covers DNS, TCP and TLS; `total` counts from `sent_ns`."""

    connect: Duration = Duration.parse("5s")
    first_chunk: Duration = Duration.parse("5m")
    between_chunks: Duration = Duration.parse("60s")
    total: Duration = Duration.parse("10m")


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the target costs, in USD: per million tokens, or per GPU and hour (with `target.system`)."""

    input_per_1m: float | None = None
    cached_per_1m: float | None = None
    output_per_1m: float | None = None
    gpu_hour: float | None = None

    @property
    def input_costs(self) -> bool:
        """Tell whether input tokens, cached or not, have a price."""
        return bool(self.cost(1, 0, 0) or self.cost(1, 1, 0))

    def cost(self, input_tokens: float, cached_tokens: float, output_tokens: float) -> float | None:
        """Price tokens in USD; `cached_tokens` are part of `input_tokens`. None where no price per token is known."""
        if self.input_per_1m is None and self.output_per_1m is None:
            return None
        full = self.input_per_1m or 0.0
        cached = full if self.cached_per_1m is None else self.cached_per_1m
        fresh = input_tokens - cached_tokens
        return (fresh * full + cached_tokens * cached + output_tokens * (self.output_per_1m or 0.0)) / 1e6


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What serves the target; stated, not measured."""

    gpu: str | None = None
    gpus: Annotated[int, msgspec.Meta(gt=0)] | None = None
    nodes: Annotated[int, msgspec.Meta(gt=0)] | None = None
    prefill_gpus: Annotated[int, msgspec.Meta(gt=0)] | None = None
    decode_gpus: Annotated[int, msgspec.Meta(gt=0)] | None = None
    engine: str | None = None
    precision: str | None = None
    region: str | None = None


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One endpoint under load.

    `url` is the base (".../v1"); `endpoint` is appended to it. `provider` names a dialect or "auto"; `reasoning` says how
    thinking arrives: "field" (a field of its own), "tags" (`<think>` in the text), "prefilled" (the same without the
    opening tag), "none", or "auto". `api_key_env` names an environment variable; the key itself is never kept here.
    """

    url: str
    model: str
    name: str | None = None  # default: `title`
    provider: str = "auto"
    reasoning: Literal["auto", "field", "tags", "prefilled", "none"] = "auto"
    endpoint: Literal["chat/completions", "completions"] = "chat/completions"
    stream: bool = True
    engine: Literal["fast", "openai"] = "fast"
    api_key_env: str | None = None
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    verify_tls: bool = True
    timeouts: Timeouts = Timeouts()
    wait_ready: Duration | None = None
    max_in_flight: Annotated[int, msgspec.Meta(gt=0)] = 2000
    price: Price = Price()
    system: System = System()

    @property
    def title(self) -> str:
        """Return the name that people see: its own, else host/model, or what a simulated one simulates."""
        if self.url.startswith(SIMULATED):
            return self.name or f"simulated {self.url.removeprefix(SIMULATED).partition('?')[0]}"
        return self.name or f"{urlsplit(self.url).netloc}/{self.model}"


class Sampling(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Sampling parameters that are sent as they are; absent ones are not sent."""

    temperature: Annotated[float, msgspec.Meta(ge=0)] | None = None
    top_p: Annotated[float, msgspec.Meta(gt=0, le=1)] | None = None
    top_k: int | None = None
    seed: int | None = None


class Message(msgspec.Struct, frozen=True):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str
    shared: int = 0  # characters at its start that other conversations begin with as well, where that is known


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to send, in the tool's own terms; a dialect turns it into bytes.

    `output_tokens` orders an exact length (`ignore_eos` where the server has it); `max_tokens` only bounds it.
    `body`, where given, is a whole request body of the user's own: only model, stream and stream_options are set in it, and the bound
    where it has none.
    `keep_answer` is how many characters of the answer (never of the reasoning) the reply carries; 0 keeps none.
    """

    messages: tuple[Message, ...] = ()
    prompt: str | None = None  # completions
    model: str
    max_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    sampling: Sampling = Sampling()
    headers: dict[str, str] = {}
    extra_body: dict[str, Any] = {}
    body: dict[str, Any] | None = None
    keep_answer: int = 0
    cache_control: bool = False  # mark, where the server takes such hints, what is worth caching
