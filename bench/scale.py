"""The tables of docs/scale.md, from figures that are measured now: `python -m bench scale`."""

import math
import sys

import msgspec

from bench import servers
from bench.master import conducted
from bench.servers import closed, r1perf

SHARE = 0.7
"""Of a core that a worker is planned to use: at 0.9 its run is invalid, and Poisson arrivals need room."""

CHUNKS_PER_S, ANSWER_CHUNKS, CHUNK_BYTES = 30, 1000, 280
"""An R1-class stream: its pace, its length, and what a chunk is on the wire."""

PORTS = 60_999 - 32_768 + 1
"""Connections from one address to one address and port, with Linux's own range of local ports."""


class Figures(msgspec.Struct, frozen=True):
    """What was measured."""

    chunk_us: float  # CPU of a worker
    request_us: float
    stream_kb: float
    worker_mb: float  # of an idle worker
    beat_share: float  # of a core, of the master, for 1,000 workers without a run
    report_ms: float  # CPU of the master
    report_kb: float


def scale() -> bool:
    """Measure, and print both tables as Markdown; the second follows from the first as it is printed."""
    figures = shown(measured())
    sys.stdout.write(f"\n{figures_table(figures)}\n\n{swarm_table(figures)}\n")
    return True


def measured() -> Figures:
    """Take differences of two sizes, so that start-up falls out."""
    with servers.truth_server():
        small, large = (r1perf(closed(400, requests, 250)) for requests in (800, 2000))
        chunk_us = (large.worker_cpu_s - small.worker_cpu_s) / ((2000 - 800) * 250) * 1e6
    with servers.truth_server(ttft_ms=20, itl_ms=1):
        few, many = (r1perf(closed(50, requests, 2)) for requests in (2000, 8000))
        request_us = (many.worker_cpu_s - few.worker_cpu_s) / 6000 * 1e6 - 2 * chunk_us
    with servers.truth_server(ttft_ms=100, itl_ms=100):
        idle, full = r1perf(closed(1, 4, 10)), r1perf(closed(1000, 1000, 100))
    told, crowd = conducted(1000, 3, 10)
    return Figures(
        chunk_us=chunk_us,
        request_us=request_us,
        stream_kb=(full.rss_bytes - idle.rss_bytes) / 1e6,
        worker_mb=idle.rss_bytes / 1e6,
        beat_share=told["idle"],
        report_ms=(told["cpu_s"] - told["idle"] * told["wall_s"]) / crowd["reports"] * 1e3,
        report_kb=crowd["bytes"] / crowd["reports"] / 1e3,
    )


def shown(figures: Figures) -> Figures:
    """Round the figures to what the table shows, so that whoever reckons with them comes to the same."""
    return Figures(
        chunk_us=round(figures.chunk_us, 1),
        request_us=round(figures.request_us),
        stream_kb=round(figures.stream_kb),
        worker_mb=round(figures.worker_mb),
        beat_share=round(figures.beat_share, 2),
        report_ms=round(figures.report_ms, 2),
        report_kb=round(figures.report_kb),
    )


def streams_a_worker(figures: Figures) -> int:
    """Return how many streams a worker carries on its share of a core."""
    us_per_s = CHUNKS_PER_S * figures.chunk_us + CHUNKS_PER_S / ANSWER_CHUNKS * figures.request_us
    return int(SHARE * 1e6 / us_per_s)


def figures_table(figures: Figures) -> str:
    """Write what was measured."""
    rows = [
        ("CPU of a worker, a streamed chunk", f"{figures.chunk_us:.1f} us"),
        ("CPU of a worker, a request", f"{figures.request_us:.0f} us"),
        ("memory of a worker", f"{figures.worker_mb:.0f} MB, and {figures.stream_kb:.0f} kB a stream"),
        ("CPU of the master, a worker's report", f"{figures.report_ms:.2f} ms ({figures.report_kb:.0f} kB)"),
        ("CPU of the master, 1,000 workers' heartbeats and statistics", f"{figures.beat_share:.0%} of a core"),
    ]
    return "| figure | measured |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows)


def swarm_table(figures: Figures) -> str:
    """Write what swarms of three sizes need."""
    lines = ["| streams | 10,000 | 100,000 | 1,000,000 |", "|---|---|---|---|"]
    sizes = [_size(figures, streams) for streams in (10_000, 100_000, 1_000_000)]
    lines += [f"| {name} | {' | '.join(size[name] for size in sizes)} |" for name in sizes[0]]
    return "\n".join(lines)


def _size(figures: Figures, streams: int) -> dict[str, str]:
    workers = math.ceil(streams / streams_a_worker(figures))
    interval_s = max(1.0, workers / 100)
    master = workers / interval_s * figures.report_ms / 1e3 + workers / 1000 * figures.beat_share
    return {
        "workers (cores)": f"{workers:,}",
        "chunks/s": f"{streams * CHUNKS_PER_S:,}",
        "requests/s": f"{streams * CHUNKS_PER_S / ANSWER_CHUNKS:,.0f}",
        "network, to the workers": f"{streams * CHUNKS_PER_S * CHUNK_BYTES * 8 / 1e9:,.1f} Gbit/s",
        "file descriptors": f"{streams + 64 * workers:,}",
        "source addresses, for one target address": f"{math.ceil(streams / PORTS):,}",
        "memory of all workers": f"{(workers * figures.worker_mb + streams * figures.stream_kb / 1e3) / 1e3:,.1f} GB",
        "interval": f"{interval_s:.3g} s",
        "master": f"{master:.0%} of a core",
        "network, to the master": f"{workers / interval_s * figures.report_kb * 8 / 1e3:,.1f} Mbit/s",
    }
