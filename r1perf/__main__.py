"""Run the command line: `python -m r1perf`."""

from r1perf.cli import main

main()
