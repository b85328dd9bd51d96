"""Show a run to people (terminal, live block) and to programs (JSON). Everything final is drawn from a `Document`.

The tables at the end of a run and those of `r1perf report RUN` are therefore the same: `load` reads the document from the
run's archive, or rebuilds it where the run never came to its end.
"""

from r1perf.report.json import render_json, render_json_array
from r1perf.report.live import live_block, live_line, window_s
from r1perf.report.terminal import print_report
from r1perf.report.verdicts import print_verdicts
from r1perf.summary import load

__all__ = ["live_block", "live_line", "load", "print_report", "print_verdicts", "render_json", "render_json_array", "window_s"]
