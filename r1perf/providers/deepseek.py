"""Speak to DeepSeek's own API."""

from r1perf.providers import Facts
from r1perf.providers.openai import OpenAI


class DeepSeek(OpenAI, frozen=True, tag="deepseek"):
    """Cannot order an exact length; in thinking mode it ignores the temperature without a word."""

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take the trace id as request id: it is what their support asks for."""
        facts.request_id = headers.get("x-ds-trace-id") or facts.request_id
