"""HdrHistogram's own Java tool reads a run's log, and finds the counts that the run has."""

import csv
import re
import shutil
import subprocess
from bisect import bisect_right
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

import pytest
from services import missing
from virtual_run import a_run, play, traffic

from r1perf.histogram import Counts, index
from r1perf.sinks.archive import ArchiveSink
from r1perf.summary import Interval, Summary, document

TAGS = ["itl.chat.steady", "ttft.aime.ramp", "output_tokens.chat.steady", "schedule_delay.chat.warmup"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Write the log of a virtual run; give its path and the run's summary."""
    folder, summary = tmp_path_factory.mktemp("hlog"), Summary(a_run())
    sink = ArchiveSink(folder)
    sink.open(summary.run)
    for snapshot in play(traffic(), seconds=50):
        summary.merge(snapshot)
        sink.write(Interval.of(snapshot))
    sink.close(document(summary))
    return folder / "intervals.hlog", summary


@pytest.fixture(scope="module")
def processor():
    """Give HdrHistogram's log processor as a function of its arguments."""
    jar, java = Path("/usr/share/java/hdrhistogram.jar"), shutil.which("java")
    if java is None or not jar.exists():
        missing("java")

    def run(*words: object) -> str:
        command = [java, "-cp", jar, "org.HdrHistogram.HistogramLogProcessor", *words]
        return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True, timeout=60).stdout

    return run


def counts_of(summary: Summary, tag: str) -> Counts:
    metric, workload, stage = tag.split(".")
    return summary.counts(metric, workload, next(known.index for known in summary.stages if known.name == stage))


def rows(said: str) -> list[tuple[int, str, int]]:
    """Return value, percentile and count up to the value, of each line."""
    lines = [line for line in said.splitlines() if line and not line.startswith("#")]
    return [(int(float(value)), share, int(total)) for value, share, total, *_ in list(csv.reader(lines))[1:]]


def test_it_finds_all_tags(log, processor):
    path, summary = log
    names = {stage.index: stage.name for stage in summary.stages}
    wanted = sorted(f"{metric}.{workload}.{names[stage]}" for metric, workload, stage in summary.series)
    assert processor("-i", path, "-listtags").split("\n", 1)[1].split() == wanted


@pytest.mark.parametrize("tag", TAGS)
def test_its_counts_and_percentiles_are_those_of_the_run(log, processor, tag):
    path, summary = log
    counts = counts_of(summary, tag)
    found = rows(processor("-i", path, "-tag", tag, "-outputValueUnitRatio", 1, "-csv"))
    at, numbers = counts.sparse()
    below = [0, *accumulate(numbers)]
    assert found[-1][2] == counts.count > 0
    for value, share, total in found:
        assert below[bisect_right(at, index(value))] == total, "as many values are no larger"
        assert counts.percentile(100 * Fraction(share)) == value, "where both take the same rank"
    last = processor("-i", path, "-tag", tag, "-outputValueUnitRatio", 1)
    assert int(re.search(r"Total count +=\s+(\d+)", last)[1]) == counts.count


def test_its_times_count_from_the_runs_start(log, processor):
    path, _ = log
    both = [
        rows(processor("-i", path, "-tag", "itl.chat.steady", "-start", begin, "-end", end, "-csv"))
        for begin, end in ((0, 29), (30, 99))
    ]
    whole = rows(processor("-i", path, "-tag", "itl.chat.steady", "-csv"))
    parts = Summary(a_run())
    for snapshot in play(traffic(), seconds=50):
        if snapshot.k < 30:
            parts.merge(snapshot)
    assert both[0][-1][2] == counts_of(parts, "itl.chat.steady").count
    assert both[0][-1][2] + both[1][-1][2] == whole[-1][2]
    assert "1767323045.000" in processor("-i", path, "-tag", "itl.chat.steady", "-csv")
