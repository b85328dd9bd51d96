"""Hold an endpoint to its promise from pytest: `pytest --r1-sla`. docs/pytest.md describes it.

`plugin` is what pytest loads; it imports nothing of r1perf until `--r1-sla` asks for it.
"""

from pytest_r1perf.run import Check, R1Run

__all__ = ["Check", "R1Run"]
