"""Write the verdicts as GitHub's step summary: a table, what is not a pass first."""

from collections.abc import Iterable, Sequence

from pytest_r1perf.records import Record, observed

_MARKS = {"pass": "✅ pass", "fail": "❌ fail", "error": "⛔ error", "inconclusive": "❔ inconclusive"}


def summary(records: Sequence[Record]) -> str:
    """Return Markdown; records come with the worst first."""
    rows = [
        "| verdict | clause | target | what was seen | run |",
        "|---|---|---|---|---|",
        *(f"| {' | '.join(map(_cell, _row(made)))} |" for made in records),
    ]
    texts = [part for made in records if made["ruling"] != "pass" for part in _details(made)]
    return "\n".join(["### SLA verdicts", "", *rows, "", *texts]) + "\n"


def _row(made: Record) -> Iterable[str]:
    proven = " (not proven)" if observed(made) else ""
    yield _MARKS[made["ruling"]] + proven
    yield f"`{made['clause']}`"
    yield made["target"] or ""
    yield made["verdict"]["says"]
    yield f"`{made['archive']}`" if made["archive"] else ""


def _details(made: Record) -> list[str]:
    return [
        "<details><summary><code>" + _html(made["clause"]) + "</code></summary>",
        "",
        "```",
        made["text"],
        "```",
        "",
        "</details>",
        "",
    ]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
