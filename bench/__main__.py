"""Run the benches: `python -m bench [truth] [cost] [delay] ...`; all of them where none is named."""

import sys
from collections.abc import Callable

from bench import client, master, scale, servers

BENCHES: dict[str, Callable[[], bool]] = {
    "truth": client.truth,
    "cost": client.cost,
    "delay": client.delay,
    "memory": client.memory,
    "workers": master.workers,
    "master": master.master,
    "scale": scale.scale,
}


def main() -> int:
    """Run what is named; return 1 where a bound did not hold."""
    missing = servers.available()
    if missing:
        sys.stdout.write(f"bench: nothing is measured: {missing}\n")
        return 0
    names = sys.argv[1:] or [name for name in BENCHES if name != "scale"]  # its figures are the others', as tables
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        sys.stderr.write(f"bench: there is no bench {', '.join(unknown)}; allowed: {', '.join(BENCHES)}\n")
        return 2
    held = [BENCHES[name]() for name in names]  # all are run, whatever came of the first
    return 0 if all(held) else 1


raise SystemExit(main())
