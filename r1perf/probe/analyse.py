"""Draw conclusions from what a few small requests brought: no network, no clock."""

import re
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Literal

import msgspec

from r1perf.probe.report import ProbeReport
from r1perf.providers import Facts
from r1perf.providers.registry import choose
from r1perf.result import Outcome, Result
from r1perf.target import Target

BURST = 8
"""So many chunks at least are needed before anything is said about how they arrive."""

_OWNERS = {
    "vllm": "vllm", "sglang": "sglang", "llamacpp": "llamacpp", "tensorrt_llm": "trtllm", "tensorrt-llm": "trtllm", "nvidia": "dynamo",
}  # fmt: skip
"""`owned_by` in the list of models, as each server fills it in unless told otherwise."""

_HEADERS = (
    ("x-litellm-", "litellm"),
    ("x-generation-id", "openrouter"),
    ("fireworks-", "fireworks"),
    ("apim-request-id", "azure"),
)

_FIELDS = (
    (rb'"native_finish_reason"', "openrouter"),
    (rb'"matched_stop"|"sglext"', "sglang"),
    (rb'"timings":\{', "llamacpp"),
    (rb'"avg_decoded_tokens_per_iter"|\} \n\n', "trtllm"),
    (rb'"prompt_filter_results"', "azure"),
    (rb'"stop_reason"|"prompt_token_ids"', "vllm"),
    (rb'"prompt_cache_hit_tokens"', "deepseek"),
)

_REASONER = re.compile(r"(^|[^a-z0-9])(r1|qwq|reasoner|reasoning|thinking)([^a-z0-9]|$)", re.IGNORECASE)


class Answer(msgspec.Struct, frozen=True):
    """What one small request brought: its result, every read of its body with its stamp, the head."""

    result: Result
    reads: list[tuple[int, bytes]]
    headers: dict[str, str] = {}


class Pages(msgspec.Struct, frozen=True):
    """What the target's own pages say."""

    models: tuple[str, ...] = ()
    owners: tuple[str, ...] = ()  # `owned_by` of its models
    version: str | None = None  # of GET /version beside the API's root


def analyse(target: Target, pages: Pages, answers: Sequence[Answer]) -> ProbeReport:
    """Make the report of two answers to the same prompt, the first one the longer."""
    first = answers[0]
    facts, stamps = _replayed(target, first)
    reads = sorted(set(stamps))
    provider, why = _provider(target, pages, first)
    sent_ns = first.result.sent_ns or first.result.scheduled_ns
    tokens = facts.usage.output_tokens if facts.usage is not None else None
    second = answers[1] if len(answers) > 1 and answers[1].result.status == 200 else None
    again = None if second is None else _replayed(target, second)[0].usage
    report = ProbeReport(
        url=target.url,
        model=target.model,
        models=pages.models,
        provider=provider,
        provider_why=why,
        reasoning=_reasoning(facts),
        reasoning_field=facts.reasoning_field,
        usage=facts.usage,
        cached_tokens=None if again is None else again.cached_tokens,
        chunks=len(stamps),
        reads=len(reads),
        tokens_per_chunk=tokens / len(stamps) if tokens and stamps else None,
        ttft_ms=(stamps[0] - sent_ns) / 1e6 if stamps else None,
        itl_ms=median(b - a for a, b in pairwise(reads)) / 1e6 if len(reads) > 1 else None,
        comments=facts.comments,
        reused=None if second is None else second.result.connect_ns is None,
        buffered=_buffered(stamps, sent_ns),
        finish_reason=facts.finish_reason,
    )
    return msgspec.structs.replace(report, warnings=tuple(_warnings(target, report, facts, first.result)))


def _replayed(target: Target, answer: Answer) -> tuple[Facts, list[int]]:
    """Decode an answer anew: its facts, and the stamp of each output chunk."""
    decoder = choose(target).decoder(target)
    stamps = [now_ns for now_ns, data in answer.reads for _ in decoder.feed(data)]
    stamps += [answer.reads[-1][0] for _ in decoder.end()] if answer.reads else []
    return decoder.facts, stamps


def _provider(target: Target, pages: Pages, answer: Answer) -> tuple[str, str]:
    """Tell the dialect by the surest sign there is, and which sign that was."""
    by_host = choose(msgspec.structs.replace(target, provider="auto")).name
    if by_host != "openai":
        return by_host, "by its host"
    for name in sorted(answer.headers):
        for beginning, provider in _HEADERS:
            if name.startswith(beginning):
                return provider, f"by the response header {name}"
    if "llama.cpp" in answer.headers.get("server", ""):
        return "llamacpp", "by the response header server"
    for owner in pages.owners:
        if owner.lower() in _OWNERS:
            return _OWNERS[owner.lower()], f"its models are owned_by {owner}"
    body = b"".join(data for _, data in answer.reads)
    for pattern, provider in _FIELDS:
        if (sign := re.search(pattern, body)) is not None:
            shown = sign[0].decode().strip(':{"')
            return provider, f"by the field {shown} of its chunks" if shown.isidentifier() else "by how its first event ends"
    if pages.version is not None:
        return "vllm", f"it has a page /version, {pages.version}"
    return "openai", "nothing tells it from any other OpenAI-compatible server"


def _reasoning(facts: Facts) -> Literal["field", "tags", "prefilled", "none"]:
    if facts.reasoning_field is None:
        return "none"
    if facts.reasoning_field != "content":
        return "field"
    return "prefilled" if facts.prefilled else "tags"


def _buffered(stamps: list[int], sent_ns: int) -> bool:
    """Tell whether an answer that took time came in a burst: its chunks span under a tenth of the wait for the first of them."""
    if len(stamps) < BURST or 4 * len(set(stamps)) > len(stamps):
        return False
    return 10 * (stamps[-1] - stamps[0]) < stamps[0] - sent_ns


def _warnings(target: Target, report: ProbeReport, facts: Facts, result: Result) -> list[str]:
    """Say what would spoil numbers or surprise somebody."""
    says: list[str] = []
    if result.outcome not in (Outcome.OK, Outcome.TRUNCATED):
        says.append(f"the first request ended as {result.outcome}: {result.message or result.reason or 'no reason given'}")
    if facts.whole:
        says.append("a stream was ordered and one JSON object came: there are no TTFT and ITL to measure")
    elif report.buffered:
        says.append(
            f"something buffers the stream: {report.chunks} chunks came in {report.reads} reads after {report.ttft_ms:.0f} ms; "
            "look for a proxy that buffers responses (nginx: proxy_buffering off) or compresses them"
        )
    elif report.chunks >= BURST and 3 * report.reads <= report.chunks:
        says.append(f"chunks come in bursts of {report.chunks / report.reads:.0f}: ITL shows the bursts, not the tokens")
    says += _reasoning_warnings(report, facts)
    if report.usage is None or report.usage.output_tokens is None:
        says.append("without usage each chunk is taken for one token")
    elif report.tokens_per_chunk is not None and report.tokens_per_chunk > 1.5:
        says.append(f"a chunk carries {report.tokens_per_chunk:.1f} tokens: ITL is per chunk; TPOT is per token")
    if report.reused is False:
        says.append("the server closes the connection after each request: every request pays for a new one")
    if facts.model is not None and facts.model != target.model:
        says.append(f"the answer names the model {facts.model}, not {target.model}")
    if facts.stray:
        says.append(f"{facts.stray} events carried no JSON and were ignored, the last of them {facts.stray_text!r}")
    if target.provider not in ("auto", report.provider):
        says.append(f"the target says provider = {target.provider!r}, and looks like {report.provider}")
    return says


def _reasoning_warnings(report: ProbeReport, facts: Facts) -> list[str]:
    if report.reasoning in ("tags", "prefilled"):
        how = "with its opening tag" if report.reasoning == "tags" else "without its opening tag"
        return [
            f"the reasoning comes inside the text {how}: the server has no reasoning parser (vLLM: --reasoning-parser deepseek_r1)"
        ]
    if report.reasoning == "field":
        return []
    if report.usage is not None and report.usage.reasoning_tokens:
        return [
            f"{report.usage.reasoning_tokens} reasoning tokens were counted and none was streamed: TTFT holds the whole thinking"
        ]
    if _REASONER.search(report.model):
        cut = " before the answer was cut" if facts.finish_reason == "length" else ""
        seen = f"no reasoning was seen{cut}, though the model's name promises it"
        return [
            f'{seen}: without a reasoning parser, behind a pre-filled tag, it looks like answer; reasoning = "prefilled" reads that'
        ]
    return []
