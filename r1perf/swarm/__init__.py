"""Locust's master and workers as collector and worker of one run: the only code that imports Locust.

A locustfile is three lines:

    from r1perf.swarm import R1User, swarm

    swarm("r1-mixed")
"""

from r1perf.swarm.events import master_of, swarm
from r1perf.swarm.user import R1User

__all__ = ["R1User", "master_of", "swarm"]
