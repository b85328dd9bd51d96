"""Speak to Fireworks AI, whose validation errors have FastAPI's shape."""

from r1perf.providers.openai import OpenAI


class Fireworks(OpenAI, frozen=True, tag="fireworks"):
    """Buffers chunks on the server where `stream_options` say so; nothing of that is sent unless asked."""
