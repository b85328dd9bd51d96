"""Speak to a LiteLLM proxy, which may answer from another deployment than the one asked, or from its cache."""

from typing import ClassVar

from r1perf.providers import Facts
from r1perf.providers.openai import OpenAI
from r1perf.target import Call, Target


class LiteLlm(OpenAI, frozen=True, tag="litellm"):
    """Counts a request as rerouted when the proxy fell back to another deployment."""

    takes_cache_control: ClassVar[bool] = True

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take the call id, the deployment and how often the proxy fell back."""
        facts.request_id = headers.get("x-litellm-call-id") or facts.request_id
        facts.upstream = headers.get("x-litellm-upstream-model") or headers.get("x-litellm-model-id") or facts.upstream
        fallbacks = headers.get("x-litellm-attempted-fallbacks", "0")
        facts.fallbacks = int(fallbacks) if fallbacks.isdecimal() else 0

    def rerouted(self, target: Target, call: Call, facts: Facts) -> str | None:
        """Tell whether the proxy fell back."""
        return f"the proxy fell back {facts.fallbacks} times, to {facts.upstream}" if facts.fallbacks else None
