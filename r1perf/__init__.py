"""Load tests for DeepSeek-R1-class endpoints whose numbers are right."""

__version__ = "0.1.0"

__all__ = ["__version__"]
