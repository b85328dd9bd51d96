"""The client against the truth, its cost beside the floor, its punctuality and its memory."""

import subprocess
import sys

from bench import servers
from bench.servers import KIT, closed, measured, r1perf

TTFT_P50_MS, TTFT_P99_MS, ITL_P99_MS = 1.0, 3.0, 2.0
COST_RATIO = 1.8
DELAY_P99_MS = 5.0
MEMORY_KB = 100


def say(name: str, text: str, holds: bool | None = None) -> None:
    """Print one figure, and whether its bound holds."""
    mark = {None: "      ", True: "ok    ", False: "BROKEN"}[holds]
    sys.stdout.write(f"{mark} {name:<8} {text}\n")
    sys.stdout.flush()


def truth() -> bool:
    """Hold percentiles against the server's own, at 100 and at 400 sessions."""
    held = True
    for sessions in (100, 400):
        with servers.truth_server():
            ran = r1perf(closed(sessions, sessions * 5, 250))
            true = servers.stats()
        ttft, itl, counts = ran.row("ttft"), ran.row("itl"), ran.document["counts"]
        bounds = (
            ("TTFT p50", ttft["p50"], true["ttft_ms"]["p50"], TTFT_P50_MS),
            ("TTFT p99", ttft["p99"], true["ttft_ms"]["p99"], TTFT_P99_MS),
            ("ITL p99", itl["p99"], true["itl_ms"]["p99"], ITL_P99_MS),
        )
        for name, ours, theirs, bound in bounds:
            holds = abs(ours - theirs) <= bound
            held &= holds
            say(
                "truth",
                f"{sessions} sessions: {name} {ours:.2f} ms, the server's own {theirs:.2f} ms (within {bound:g} ms)",
                holds,
            )
        whole = counts["ok"] == counts["scheduled"] == true["requests"] == true["done"]
        valid = ran.document["validity"]["valid"]
        held &= whole and valid
        say(
            "truth",
            f"{sessions} sessions: {counts['ok']} ok of {counts['scheduled']} scheduled, the server served {true['done']}",
            whole,
        )
        say("truth", f"{sessions} sessions: run valid {valid} {'; '.join(ran.document['validity']['reasons'])}", valid)
    return held


def cost() -> bool:
    """Divide the difference of two sizes: start-up falls out; the floor runs in between."""
    held = True
    for sessions, small, large in ((100, 200, 700), (400, 800, 2000)):
        chunks = (large - small) * 250
        with servers.truth_server():
            sizes = [r1perf(closed(sessions, requests, 250)) for requests in (small, large)]
            floor = [_floor(sessions, requests) for requests in (small, large)]
        whole = (sizes[1].cpu.cpu_s - sizes[0].cpu.cpu_s) / chunks * 1e6
        worker = (sizes[1].worker_cpu_s - sizes[0].worker_cpu_s) / chunks * 1e6
        least = (floor[1] - floor[0]) / chunks * 1e6
        ratio = whole / least
        holds = ratio <= COST_RATIO or sessions != 400
        held &= holds
        say(
            "cost",
            f"{sessions} streams: {whole:.1f} us of CPU a chunk (worker {worker:.1f}), the floor {least:.1f}: {ratio:.2f} times"
            + (f" (at most {COST_RATIO:g})" if sessions == 400 else ""),
            holds if sessions == 400 else None,
        )
    with servers.truth_server():
        sizes = [r1perf(closed(50, requests, 250, "openai")) for requests in (50, 150)]
    whole = (sizes[1].cpu.cpu_s - sizes[0].cpu.cpu_s) / (100 * 250) * 1e6
    say("cost", f"50 streams, engine openai: {whole:.1f} us of CPU a chunk")
    return held


def _floor(sessions: int, requests: int) -> float:
    """Run the floor; return its CPU."""
    done = measured([sys.executable, str(KIT / "floor_gevent_watcher.py"), str(sessions), str(requests), "250"])
    if done.code:
        raise subprocess.CalledProcessError(done.code, "floor", done.output)
    return done.cpu_s


def delay() -> bool:
    """Dispatch 200 requests/s."""
    scenario = closed(1, 1, 4).replace('kind = "closed"\nsessions = 1', 'kind = "poisson"\nrate = "200/s"')
    with servers.truth_server(ttft_ms=20, itl_ms=5):
        ran = r1perf(scenario, "--duration", "15s")
    late = ran.row("schedule_delay")
    holds = late["p99"] < DELAY_P99_MS
    say(
        "delay",
        f"200 requests/s: schedule delay p50 {late['p50']:.2f} ms, p99 {late['p99']:.2f} ms (under {DELAY_P99_MS:g} ms)",
        holds,
    )
    return bool(holds)


def memory() -> bool:
    """Hold 1,000 streams in flight and look at the worker's memory per stream, early and late in their answers.

    What a stream holds between two flips is folded away, so memory follows the chunks of one second, not the answer's length:
    the same streams are held for four times as many tokens. (1,000 answers of 32k tokens are held on virtual time, in a test.)
    """
    with servers.truth_server(ttft_ms=100, itl_ms=100):
        idle = _peak(r1perf(closed(1, 4, 10)))
        short = _peak(r1perf(closed(1000, 1000, 100)))
        long = _peak(r1perf(closed(1000, 1000, 400)))
    per_stream = (long - idle) / 1000 / 1e3
    growth = (long - short) / 1000 / 1e3
    holds = per_stream < MEMORY_KB and growth < MEMORY_KB / 10
    say(
        "memory",
        f"1,000 streams in flight: {per_stream:.1f} KB each at 400 tokens (under {MEMORY_KB} KB), {growth:+.1f} KB against 100 tokens",
        holds,
    )
    return holds


def _peak(ran: servers.Ran) -> int:
    """Return the largest resident memory of the worker, in bytes."""
    return ran.rss_bytes
