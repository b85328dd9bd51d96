"""Show what goes on in Prometheus' text format, under vLLM's names (vLLM 0.33)."""

from r1perf.simulator.engine import Engine
from r1perf.simulator.stats import BUCKET_NS, Stats, Times

TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0,
    2560.0,
)  # fmt: skip
ITL_BOUNDS = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0)
E2E_BOUNDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
)  # fmt: skip


def exposition(stats: Stats, engine: Engine, model: str) -> str:
    """Write the metrics page."""
    label = f'model_name="{model}",engine="0"'
    lines: list[str] = []
    gauges = {
        "num_requests_running": (engine.running, "Number of requests in model execution batches."),
        "num_requests_waiting": (engine.waiting, "Number of requests waiting to be processed."),
        "kv_cache_usage_perc": (engine.kv_usage, "KV-cache usage. 1 means 100 percent usage."),
    }
    for name, (value, text) in gauges.items():
        lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} gauge", f"vllm:{name}{{{label}}} {float(value)}"]
    counters = {
        "prompt_tokens": (stats.prompt_tokens, "Number of prefill tokens processed."),
        "prompt_tokens_cached": (stats.cached_tokens, "Number of prompt tokens that the prefix cache had."),
        "generation_tokens": (stats.output_tokens, "Number of generation tokens processed."),
        "num_preemptions": (engine.preemptions, "Cumulative number of preemptions."),
        "prefix_cache_queries": (stats.prompt_tokens, "Prefix cache queries, in tokens."),
        "prefix_cache_hits": (stats.cached_tokens, "Prefix cache hits, in tokens."),
    }
    for name, (value, text) in counters.items():
        lines += [f"# HELP vllm:{name} {text}", f"# TYPE vllm:{name} counter", f"vllm:{name}_total{{{label}}} {float(value)}"]
    lines += ["# HELP vllm:request_success Count of successfully processed requests.", "# TYPE vllm:request_success counter"]
    for reason, count in sorted(stats.finishes.items()):
        lines.append(f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {float(count)}')
    lines += _histogram("time_to_first_token_seconds", "time to first token", TTFT_BOUNDS, stats.ttft, label)
    lines += _histogram("inter_token_latency_seconds", "inter-token latency", ITL_BOUNDS, stats.itl, label)
    lines += _histogram("e2e_request_latency_seconds", "e2e request latency", E2E_BOUNDS, stats.e2e, label)
    return "\n".join(lines) + "\n"


def _histogram(name: str, text: str, bounds: tuple[float, ...], times: Times, label: str) -> list[str]:
    """Write one histogram; a bucket of 10 us belongs to the first bound at or above its upper end."""
    lines = [f"# HELP vllm:{name} Histogram of {text} in seconds.", f"# TYPE vllm:{name} histogram"]
    left = sorted(times.buckets.items())
    below = position = 0
    for bound in bounds:
        while position < len(left) and (left[position][0] + 1) * BUCKET_NS <= round(bound * 1e9):
            below += left[position][1]
            position += 1
        lines.append(f'vllm:{name}_bucket{{{label},le="{bound}"}} {float(below)}')
    count = float(times.count)
    lines.append(f'vllm:{name}_bucket{{{label},le="+Inf"}} {count}')
    return [*lines, f"vllm:{name}_count{{{label}}} {count}", f"vllm:{name}_sum{{{label}}} {times.sum_ns / 1e9}"]
