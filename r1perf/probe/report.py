"""What a probe found, and how it is shown."""

import json
from typing import Literal

import msgspec

from r1perf.providers.says import printable
from r1perf.result import Usage


class ProbeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a target was seen to do. None is not known; times are ms."""

    url: str
    model: str
    models: tuple[str, ...] = ()  # that it lists
    provider: str  # the dialect that it looks like
    provider_why: str
    reasoning: Literal["field", "tags", "prefilled", "none"]
    reasoning_field: str | None = None
    usage: Usage | None = None  # as the server counted the first answer
    cached_tokens: int | None = None  # of the second request, whose prompt was the same
    chunks: int = 0
    reads: int = 0  # that brought output chunks
    tokens_per_chunk: float | None = None
    ttft_ms: float | None = None
    itl_ms: float | None = None  # median of the gaps between such reads
    comments: int = 0
    reused: bool | None = None  # the second request went over a connection that was open
    buffered: bool = False  # the answer was held back and came in one burst
    finish_reason: str | None = None
    warnings: tuple[str, ...] = ()


def render(report: ProbeReport) -> list[str]:
    """Write a report in lines: what was seen, the `[target]` table that fits, the warnings."""
    rows = [
        ("models", _models(report)),
        ("provider", f"{report.provider} ({report.provider_why})"),
        ("reasoning", _reasoning(report)),
        ("usage", _usage(report)),
        ("cached tokens", _cached(report)),
        ("stream", _stream(report)),
        ("tokens a chunk", "not known" if report.tokens_per_chunk is None else f"{report.tokens_per_chunk:.2f}"),
        ("connection", {None: "not known", True: "reused", False: "a new one for each request"}[report.reused]),
    ]
    width = max(len(name) for name, _ in rows) + 2
    lines = [f"{report.url}, model {report.model}", "", *(f"{name:<{width}}{value}" for name, value in rows)]
    lines += ["", "In a scenario:", "", "[target]", f"url = {json.dumps(report.url)}", f"model = {json.dumps(report.model)}"]
    lines += [f'provider = "{report.provider}"', f'reasoning = "{report.reasoning}"']
    if report.warnings:
        lines += ["", *(f"warning: {warning}" for warning in report.warnings)]
    return [printable(line) for line in lines]  # names of models are the server's


def _models(report: ProbeReport) -> str:
    if not report.models:
        return "not listed"
    return ", ".join(report.models[:8]) + (f" and {len(report.models) - 8} more" if len(report.models) > 8 else "")


def _reasoning(report: ProbeReport) -> str:
    return {
        "field": f"in the field {report.reasoning_field}",
        "tags": "inside the text, between <think> and </think>",
        "prefilled": "inside the text, ended by </think> without an opening tag",
        "none": "none was seen",
    }[report.reasoning]


def _usage(report: ProbeReport) -> str:
    usage = report.usage
    if usage is None or usage.output_tokens is None:
        return "none: the server counts no tokens"
    counts = {"input": usage.input_tokens, "output": usage.output_tokens, "of it reasoning": usage.reasoning_tokens}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)


def _cached(report: ProbeReport) -> str:
    if report.cached_tokens is None:
        return "not told"
    return f"{report.cached_tokens} on the second request with the same prompt"


def _stream(report: ProbeReport) -> str:
    if not report.chunks or report.ttft_ms is None:
        return "no output chunk came"
    gaps = "" if report.itl_ms is None else f", then {report.itl_ms:.1f} ms between reads"
    return f"{report.chunks} chunks in {report.reads} reads, the first after {report.ttft_ms:.0f} ms{gaps}"
