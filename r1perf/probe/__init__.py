"""Find out with a few tokens what a target is: `r1perf probe URL`."""

from r1perf.probe.analyse import Answer, Pages, analyse
from r1perf.probe.ask import probe
from r1perf.probe.report import ProbeReport, render

__all__ = ["Answer", "Pages", "ProbeReport", "analyse", "probe", "render"]
