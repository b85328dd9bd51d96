"""docs/scale.md: what swarms need follows from the measured figures that stand above it."""

import re

import pytest
from services import ROOT

from bench.scale import Figures, figures_table, shown, streams_a_worker, swarm_table

TEXT = (ROOT / "docs/scale.md").read_text()


def figures():
    """Read them from the first table."""
    table = TEXT.partition("| figure |")[2].partition("\n\n")[0]
    found = re.findall(r"^\| [^|\n]+ \| ([\d.]+)(?:[^|\d]+([\d.]+))?[^|\n]*\|$", table, re.MULTILINE)
    (chunk, _), (request, _), (worker, stream), (report, size), (beat, _) = found
    return Figures(
        chunk_us=float(chunk), request_us=float(request), stream_kb=float(stream), worker_mb=float(worker), beat_share=float(beat) / 100,
        report_ms=float(report), report_kb=float(size),
    )  # fmt: skip


def test_the_second_table_follows_from_the_first():
    assert figures_table(figures()) in TEXT
    assert swarm_table(figures()) in TEXT
    assert f"= {streams_a_worker(figures()):,} streams" in TEXT


def test_what_is_printed_is_what_is_reckoned_with():
    exact = Figures(
        chunk_us=17.46, request_us=237.6, stream_kb=19.7, worker_mb=57.4, beat_share=0.1173, report_ms=1.0744, report_kb=28.9
    )
    assert shown(exact) == Figures(
        chunk_us=17.5, request_us=238, stream_kb=20, worker_mb=57, beat_share=0.12, report_ms=1.07, report_kb=29
    )
    assert figures_table(shown(exact)) == figures_table(exact)


def test_the_master_breaks_where_it_is_said_to():
    told = figures()
    beats = 3 * told.beat_share
    assert beats == pytest.approx(0.36)
    assert beats + 100 * told.report_ms / 1e3 == pytest.approx(0.5, abs=0.05)
    assert 3000 * streams_a_worker(told) / 1e6 == pytest.approx(3.9, abs=0.05)
    assert "3,000 workers, 3.9 million streams" in TEXT
