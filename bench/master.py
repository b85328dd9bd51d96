"""What a master costs, and what a second worker brings."""

import json
import os
import socket
import subprocess
import sys
from typing import Any

from bench import servers
from bench.servers import closed, r1perf

WORKERS, INTERVALS, IDLE_S = 1000, 3, 10
SHARE = 0.5
SPEEDUP = 1.8


def say(name: str, text: str, holds: bool | None = None) -> None:
    """Print one figure, and whether its bound holds."""
    mark = {None: "      ", True: "ok    ", False: "BROKEN"}[holds]
    sys.stdout.write(f"{mark} {name:<8} {text}\n")
    sys.stdout.flush()


def master() -> bool:
    """Let 1,000 simulated workers report to a real master, through real sockets, at the interval that it sets for so many."""
    told, crowd = conducted(WORKERS, INTERVALS, IDLE_S)
    # All CPU from the announcement of t0 to the end of the run, over the intervals alone: never less than the true share.
    share = told["cpu_s"] / (told["interval_s"] * INTERVALS)
    locust_s = told["idle"] * told["wall_s"]
    whole = (
        told["sentence"] is None
        and crowd["reports"] == WORKERS * INTERVALS
        and told["counts"]["scheduled"] == told["counts"]["ok"]
    )
    say(
        "master",
        f"{WORKERS:,} workers, {crowd['series']} series of {crowd['bytes'] / crowd['reports'] / 1000:.1f} kB a report, "
        f"every {told['interval_s']:g} s: {share:.0%} of a core (under {SHARE:.0%})",
        share < SHARE and whole,
    )
    say(
        "master",
        f"of it, Locust's own heartbeats and statistics (before the run, at their full frequency): {told['idle']:.0%} of a core",
    )
    say(
        "master",
        f"{(told['cpu_s'] - locust_s) / crowd['reports'] * 1e3:.2f} ms of CPU a report beside them, its acknowledgement included",
    )
    peak = max(told["rss"]) / 1e6
    say("master", f"{peak:.0f} MB resident at most, {peak - told['rss_before'] / 1e6:.0f} MB of them since the run began")
    return bool(share < SHARE and whole)


def conducted(workers: int, intervals: int, idle_s: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run a master and a crowd; return what each tells."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    numbers = [str(port), str(workers)]
    commands = (["bench.conductor", *numbers, str(idle_s)], ["bench.crowd", *numbers, str(intervals)])
    conductor, crowd = (subprocess.Popen([sys.executable, "-m", *words], stdout=subprocess.PIPE, text=True) for words in commands)
    try:
        told = json.loads(conductor.communicate(timeout=600)[0])
        if not told["counts"]:  # the crowd waits for a run that does not come
            raise RuntimeError(f"the master carried no run out: {told['sentence']}")
        return told, json.loads(crowd.communicate(timeout=60)[0])
    finally:
        for process in (conductor, crowd):
            process.kill()
            process.communicate()


def workers() -> bool:
    """Hold two workers with twice the streams against one: the same CPU a chunk, twice the chunks, the same truth.

    Where there are too few cores for both and the server, wall time says nothing, and CPU a chunk is what counts.
    """
    ran = []
    for count in (1, 2):
        with servers.truth_server():
            made = r1perf(closed(200 * count, 1000 * count, 250), "--workers", str(count))
            ran.append((made, servers.stats()))
    (one, _), (two, _) = ran
    costs = [made.worker_cpu_s / (1000 * count * 250) * 1e6 for count, (made, _) in enumerate(ran, 1)]
    rates = [made.document["counters"]["chunks"] / made.document["elapsed_s"] for made, _ in ran]
    speedup = 2 * costs[0] / costs[1]
    say("workers", f"{costs[0]:.1f} us of CPU a chunk with one worker of 200 streams, {costs[1]:.1f} with two of 200 each")
    say(
        "workers",
        f"at the same CPU two workers carry {speedup:.2f} times the chunks of one (at least {SPEEDUP:g})",
        speedup >= SPEEDUP,
    )
    say(
        "workers",
        f"{rates[0]:,.0f} chunks/s with one, {rates[1]:,.0f} with two: {rates[1] / rates[0]:.2f} times, on {os.cpu_count()} cores",
    )
    for name, (made, true) in zip(("one", "two"), ran, strict=True):
        row, valid = made.row("ttft"), made.document["validity"]["valid"]
        say("workers", f"{name}: TTFT p50 {row['p50']:.2f} ms, the server's own {true['ttft_ms']['p50']:.2f} ms; valid {valid}")
    whole = one.document["counts"]["ok"] == 1000 and two.document["counts"]["ok"] == 2000
    return bool(whole and speedup >= SPEEDUP)
