"""Speak to Fireworks AI, whose validation errors have FastAPI's shape."""

from r1perf.providers import Facts
from r1perf.providers.openai import OpenAI
from r1perf.providers.wire import told_usage


class Fireworks(OpenAI, frozen=True, tag="fireworks"):
    """Buffers chunks on the server where `stream_options` say so; nothing of that is sent unless asked."""

    def note_head(self, headers: dict[str, str], facts: Facts) -> None:
        """Take the request id, and the prompt's tokens and cached tokens where the head tells them; `usage` has the last word."""
        super().note_head(headers, facts)
        found = {name.removeprefix("fireworks-"): value for name, value in headers.items() if name.startswith("fireworks-")}
        facts.usage = told_usage(found, facts.usage)
