"""A simulated DeepSeek-R1 endpoint with a continuous-batching engine behind it, and the truth of what it did."""

from r1perf.simulator.cli import command, main
from r1perf.simulator.options import Options
from r1perf.simulator.process import serve

__all__ = ["Options", "command", "main", "serve"]
