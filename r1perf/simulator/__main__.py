"""Run the simulator: `python -m r1perf.simulator --port 0`."""

from r1perf.simulator.cli import main

main()
