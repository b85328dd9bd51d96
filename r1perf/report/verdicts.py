"""Show what came of an SLA: a section of its own, since whoever gates on it looks for nothing else."""

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from r1perf.sla import Verdict, render
from r1perf.sla.wording import percent

_STYLES = {"pass": "green", "fail": "bold red", "inconclusive": "yellow", "error": "bold red"}


def print_verdicts(verdicts: Sequence[Verdict], console: Console, title: str | None = None) -> None:
    """Print every verdict, what does not pass last, and count them; nothing where there is none."""
    if not verdicts:
        return
    console.print()
    console.print(Text(title or f"SLA at {percent(verdicts[0].confidence)} confidence", style="bold"))
    for verdict in sorted(verdicts, key=lambda one: one.verdict != "pass"):
        head, _, rest = render(verdict).partition("\n")
        console.print(Text(head, style=_STYLES[verdict.verdict]), soft_wrap=True)
        if rest:
            console.print(Text(rest), soft_wrap=True)
    console.print(Text(summed(verdicts), style="bold"))


def summed(verdicts: Sequence[Verdict]) -> str:
    """Count the verdicts: `SLA: 2 of 3 clauses pass, 1 inconclusive`."""
    kinds = [verdict.verdict for verdict in verdicts]
    words = {"fail": "fail", "inconclusive": "inconclusive", "error": "not judged"}
    rest = [f"{kinds.count(kind)} {word}" for kind, word in words.items() if kind in kinds]
    clauses = "clause passes" if len(kinds) == 1 else "clauses pass"
    return ", ".join([f"SLA: {kinds.count('pass')} of {len(kinds)} {clauses}", *rest])
