"""Speak to Together AI."""

from r1perf.providers.openai import OpenAI


class Together(OpenAI, frozen=True, tag="together"):
    """Its 503 means "at or below your dynamic rate", its 429 "above it": both are read as what they are."""
