"""Lists of runs, and parts of runs, as people read them on a terminal."""

import io

import msgspec
import pytest
from rich.console import Console
from virtual_run import a_run

from r1perf.report import print_report
from r1perf.report.runs import print_runs
from r1perf.summary import Summary, document
from r1perf.summary.document import Covered
from r1perf.summary.listed import Listed

LONGEST = Listed(
    run_id="20261130T155805Z-r1-mixed-8853e5", started_ns=0, scenario="r1", model="m", status="interrupted", verdict="inconclusive",
    target="staging [of] a cluster in another country, tensor parallel 16", elapsed_s=4000.0, requests=1_234_567, failed=12_345,
)  # fmt: skip
FIGURES = ["1:06:40", "1,234,567", "12,345"]


def listed(width, *found):
    out = io.StringIO()
    print_runs(found, Console(file=out, width=width))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_at_80_columns_a_run_has_two_lines_and_its_verdict():
    _, _, first, second, *rest = listed(80, LONGEST)
    assert first.split() == [LONGEST.run_id, *FIGURES, "interrupted,"]
    assert second.split() == ["staging", "[of]", "a", "cluster", "in", "inconclusive"]
    assert rest == ["another country, tensor parallel", "16"]


def test_a_wide_terminal_has_a_line_for_each():
    _, _, line = listed(160, LONGEST)
    assert line.split() == [LONGEST.run_id, *LONGEST.target.split(), *FIGURES, "interrupted,", "inconclusive"]


@pytest.mark.parametrize("width", [52, 60, 80, 119, 120, 200])
def test_no_figure_and_no_verdict_is_ever_cut(width):
    found = msgspec.structs.replace(LONGEST, where="/mnt/somewhere/measurements/of/the/cluster/runs/20261130T155805Z-r1-mixed")
    text = "\n".join(listed(width, found))
    assert "…" not in text
    for word in (*FIGURES, "interrupted,", "inconclusive"):
        assert word in text.split()


@pytest.mark.parametrize(
    ("part", "length", "says"),
    [
        (
            Covered(4.0, 8.0, 14.2),
            ", 14 s, ",
            "part of the run: 4 s to 8 s of 14 s; not judged; answers to earlier requests are in it",
        ),
        (Covered(0.0, 65.0), ", goes on, ", "part of the run: 0 s to 1:05; not judged"),
    ],
)
def test_a_part_says_that_it_is_one(part, length, says):
    out = io.StringIO()
    print_report(msgspec.structs.replace(document(Summary(a_run())), part=part), Console(file=out, width=100))
    head = out.getvalue().split("\n\n")[0].splitlines()
    assert length in head[2]
    assert head[3] == says
