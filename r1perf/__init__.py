"""Load tests for DeepSeek-R1-class endpoints."""
