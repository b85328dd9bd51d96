"""The run overview: one run while it goes on and after it, with the runs around it."""

from grafana_foundation_sdk.builders.dashboard import AnnotationQuery, Dashboard, DashboardLink, Row
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from infra.grafana import flux
from infra.grafana.panels import GAP_MS, SOURCE, Flux, cells, choice, figure, lines, listed, rows, stacked, text
from infra.grafana.rates import rates, rates_now

STEPS = ("10s", "30s", "1m", "5m", "15m")
"""No shorter than `sinks.influxdb.interval`: a step without an interval's beginning would be empty."""

WINDOWED = "Percentiles of each interval (10 s), as they were. They say nothing about the whole run: see the table of workloads."

TOKENS = "Chunks as they came (for input: first chunks), times the tokens that one held over the run so far."

FIGURES = {
    "requests": "requests", "failed": "failed", "requests_per_s": "requests/s", "output_tokens_per_s": "output tokens/s",
    "ttft_p50_ms": "TTFT p50", "ttft_p95_ms": "TTFT p95", "ttft_p99_ms": "TTFT p99", "ttfo_p95_ms": "TTFO p95",
    "itl_p50_ms": "ITL p50", "itl_p99_ms": "ITL p99", "tpot_p95_ms": "TPOT p95", "e2e_p50_ms": "E2E p50", "e2e_p95_ms": "E2E p95",
}  # fmt: skip
UNITS: dict[str, str] = {"requests/s": units.RequestsPerSecond, "output tokens/s": units.NoUnit} | {
    title: units.Milliseconds for field, title in FIGURES.items() if field.endswith("_ms")
}
STATE = {"status": "status", "verdict": "verdict"}

LATENCIES = (
    ("TTFT", "ttft", "from when a request was due to its first output chunk"),
    ("TTFO", "ttfo", "to the first chunk of the answer itself, after the reasoning"),
    ("Thinking", "thinking", "from the first reasoning chunk to the first chunk of the answer"),
    ("ITL", "itl", "gaps between chunks, at the time they happened"),
    ("TPOT", "tpot", "time per output token of a request, its first one apart"),
    ("E2E", "e2e", "from when a request was due to its last output chunk"),
)


def overview() -> Dashboard:
    """Build the dashboard."""
    board = (
        Dashboard("r1perf: a run").uid("r1perf-overview").tags(["r1perf"]).time("now-1h", "now").refresh("10s").editable()
        .timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
        .link(DashboardLink("Compare runs").type(DashboardLinkType.LINK).url("/d/r1perf-comparison").keep_time(keep_time=True))
        .with_variable(listed("scenario", "Scenario", flux.scenarios(), multi=True, everything=True))
        .with_variable(listed("run", "Run", flux.runs()))
        .with_variable(listed("workload", "Workload", flux.workloads(flux.RUN), multi=True, everything=True))
        .with_variable(choice("step", "Step", STEPS, STEPS[0]))
        .annotation(AnnotationQuery().name("Stages and events").datasource(SOURCE).enable(enable=True).icon_color("blue").target(Flux(flux.events(), "Anno")))
    )  # fmt: skip
    _stat_row(board)
    _traffic(board)
    _latency(board)
    _whole_run(board)
    _generator(board)
    return board


def _stat_row(board: Dashboard) -> None:
    for panel in (
        text("State", flux.table((flux.RUN, flux.WHOLE), {}, STATE), "How the run stands; the verdict comes with its end."),
        figure("Requests/s, now", rates_now({"completed": "completed"}), "Requests that ended well, in the last interval.", unit=units.RequestsPerSecond, decimals=2),
        figure("Errors so far", flux.failed_share(), "Share of the ended requests that failed, over the run so far.", unit=units.PercentUnit, decimals=2, name="failed"),
        figure("In flight, now", flux.generator({"in_flight_total": "in flight"}), "At the end of the last interval.", decimals=0),
        figure("Output tokens/s, now", rates_now({"window_output_tokens": "output tokens"}), f"In the last interval. {TOKENS}", decimals=0),
        figure("p95 TTFT, now", flux.percentile_now("ttft", "p95"), "Of the last interval alone, each workload apart; nothing where it had no first chunk.", unit=units.Milliseconds),
        figure("p95 TTFT, whole run", flux.table((flux.RUN, flux.WHOLE), {}, {"ttft_p95_ms": "TTFT"}), "Of the judged stages, from the run's own histogram; comes with its end.", unit=units.Milliseconds, name="p95 TTFT"),
        figure("Schedule delay, now", flux.generator({"schedule_delay_max_ms": "longest"}), "The longest of the last interval: how late this generator itself was.", unit=units.Milliseconds),
    ):  # fmt: skip
        board.with_panel(panel)


def _traffic(board: Dashboard) -> None:
    board.with_row(Row("Traffic"))
    for panel in (
        lines("Requests/s", rates({"scheduled": "scheduled", "sent": "sent", "completed": "completed"}), "Where sent lies below scheduled, the generator is late.", unit=units.RequestsPerSecond),
        lines("In flight", flux.generator({"in_flight_total": "in flight", "waiting": "waiting for max_in_flight"}), "At the end of each interval. A steady stage in which it still grows is not stationary."),
        lines("Tokens/s", rates({"window_output_tokens": "output", "window_input_tokens": "input"}), TOKENS),
        stacked("Outcomes", flux.outcomes(), "How many requests ended in which way, step by step.", width=24, label="outcome"),
    ):  # fmt: skip
        board.with_panel(panel)
    board.with_panel(
        rows(
            "Outcomes and reasons so far",
            flux.outcome_totals(),
            ["workload", "what", "requests"],
            "Reasons are part of their outcome.",
        )
    )


def _latency(board: Dashboard) -> None:
    board.with_row(Row("Latency of ${workload}").repeat("workload"))
    for title, metric, says in LATENCIES:
        query = flux.percentiles(metric, "p50", "p90", "p95", "p99")
        board.with_panel(lines(title, query, f"{title}: {says}. {WINDOWED}", unit=units.Milliseconds).insert_nulls(GAP_MS))
    for title, metric in (("TTFT", "ttft"), ("ITL", "itl")):
        says = f"How many values of {title} lay in which range, step by step: counts up to fixed limits, which add up exactly."
        board.with_panel(cells(f"{title} heatmap", flux.heatmap(metric), flux.cells(metric), says))


def _whole_run(board: Dashboard) -> None:
    board.with_row(Row("Whole runs"))
    own = "From each run's own histogram over its judged stages, once it has ended; never from those of the intervals."
    workloads = flux.table((flux.RUN, "exists r.workload"), {"workload": "workload"}, FIGURES)
    board.with_panel(rows("Workloads of this run", workloads, ["workload", *FIGURES.values()], own, height=6, unit=UNITS))
    tags = {"target": "target", "model": "model", "scenario": "scenario", "run_id": "run"}
    targets = flux.table((flux.SCENARIOS, flux.WHOLE), tags, STATE | FIGURES, flux.SHOWN)
    order = [*tags.values(), "time", *STATE, *FIGURES.values()]
    board.with_panel(rows("Targets: the runs in this range", targets, order, own, height=10, unit=UNITS, open_run=True))


def _generator(board: Dashboard) -> None:
    board.with_row(Row("Generator"))
    late = {"schedule_delay_max_ms": "schedule delay", "loop_lag_max_ms": "loop lag"}
    for panel in (
        lines("Late", flux.generator(late), "The longest of each interval. A run whose generator was the bottleneck is invalid.", unit=units.Milliseconds),
        lines("CPU", flux.generator({"cpu_share": "busiest worker"}), "Share of one core.", unit=units.PercentUnit),
        lines("Memory and spool", flux.generator({"rss_bytes": "memory of all workers", "spool_bytes": "waiting for InfluxDB"}), "", unit=units.BytesIEC),
    ):  # fmt: skip
        board.with_panel(panel)
