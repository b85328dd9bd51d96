"""Speak to OpenRouter, which passes a request on to one of several upstreams and names it in every chunk."""

import re
from typing import Any, ClassVar

from r1perf.providers import Facts
from r1perf.providers.openai import OpenAI
from r1perf.target import Call, Target


class OpenRouter(OpenAI, frozen=True, tag="openrouter"):
    """Checks a pin: `extra_body.provider` with `only`, or with `order` and `allow_fallbacks = false`."""

    takes_cache_control: ClassVar[bool] = True

    def stream_body(self, target: Target, own: dict[str, Any] | None) -> dict[str, Any]:
        """Order a stream; usage comes in any case, and the option for it is deprecated there."""
        if not target.stream:
            return {}
        return {"stream": True, "stream_options": own} if own else {"stream": True}

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take the generation id, under which latency and cost can be asked for later."""
        facts.request_id = headers.get("x-generation-id") or facts.request_id

    def rerouted(self, target: Target, call: Call, facts: Facts) -> str | None:
        """Compare the upstream and the model that answered with those that were pinned."""
        body = target.extra_body | call.extra_body if call.body is None else call.body
        pinned = _pinned(body.get("provider"))
        if not pinned:
            return None
        if facts.upstream is not None and not any(_same(facts.upstream, slug) for slug in pinned):
            return f"answered by {facts.upstream}, not {' or '.join(pinned)}"
        asked = call.model.partition(":")[0]
        if facts.model is not None and not asked.startswith("openrouter/") and not facts.model.startswith(asked):
            return f"answered by {facts.model}, not {call.model}"
        return None


def _pinned(routing: Any) -> list[str]:
    """Return the upstreams that a routing object allows, empty where it pins none."""
    if not isinstance(routing, dict):
        return []
    if isinstance(routing.get("only"), list):
        return [slug for slug in routing["only"] if isinstance(slug, str)]
    if routing.get("allow_fallbacks") is False and isinstance(routing.get("order"), list):
        return [slug for slug in routing["order"] if isinstance(slug, str)]
    return []


def _same(shown: str, slug: str) -> bool:
    """Compare the name that chunks show ("Google AI Studio") with a slug ("google-ai-studio", "deepinfra/fp8")."""
    shown_word = re.sub(r"[^a-z0-9]", "", shown.lower())
    slug_word = re.sub(r"[^a-z0-9]", "", slug.partition("/")[0].lower())
    return shown_word.startswith(slug_word) or slug_word.startswith(shown_word)
