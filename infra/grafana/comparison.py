"""The comparison: two runs or more, laid over one another from the moment each began."""

from grafana_foundation_sdk.builders.dashboard import Dashboard, DashboardLink, Row
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import DashboardCursorSync, DashboardLinkType

from infra.grafana import flux, laid
from infra.grafana.overview import FIGURES, LATENCIES, STATE, STEPS, TOKENS, UNITS
from infra.grafana.panels import choice, listed, overlay, rows

PERCENTILES = ("p50", "p75", "p90", "p95", "p99", "p999")


def comparison() -> Dashboard:
    """Build the dashboard."""
    board = (
        Dashboard("r1perf: runs compared").uid("r1perf-comparison").tags(["r1perf"]).time("now-7d", "now").editable()
        .timezone("browser").tooltip(DashboardCursorSync.CROSSHAIR)
        .link(DashboardLink("A run").type(DashboardLinkType.LINK).url("/d/r1perf-overview").keep_time(keep_time=True))
        .with_variable(listed("scenario", "Scenario", flux.scenarios(), multi=True, everything=True))
        .with_variable(listed("runs", "Runs", flux.runs(), multi=True))
        .with_variable(listed("workload", "Workload", flux.workloads(flux.RUNS)))
        .with_variable(choice("percentile", "Percentile", PERCENTILES, "p95"))
        .with_variable(choice("step", "Step", STEPS, STEPS[0]))
    )  # fmt: skip
    _whole_runs(board)
    _overlays(board)
    return board


def _whole_runs(board: Dashboard) -> None:
    own = "From each run's own histogram over its judged stages; a difference between two runs proves nothing by itself."
    tags = {"run_id": "run", "target": "target", "model": "model"}
    order = [*tags.values(), "time", *STATE, *FIGURES.values()]
    whole = flux.table((flux.RUNS, flux.WHOLE), tags, STATE | FIGURES)
    board.with_panel(rows("Runs", whole, order, own, height=7, unit=UNITS, open_run=True))
    one = flux.table((flux.RUNS, 'r.workload == "${workload}"'), {"run_id": "run"}, FIGURES)
    board.with_panel(
        rows("Workload ${workload}", one, ["run", "time", *FIGURES.values()], own, height=7, unit=UNITS, open_run=True)
    )


def _overlays(board: Dashboard) -> None:
    board.with_row(Row("${percentile} of ${workload}, from each run's beginning"))
    for title, metric, says in LATENCIES:
        note = f"{title}: {says}. One point an interval (10 s), as it was."
        board.with_panel(overlay(title, laid.percentile(metric), note, unit=units.Milliseconds, width=8))
    board.with_row(Row("Traffic, from each run's beginning"))
    done = laid.rate("completed")
    tokens = laid.rate("window_output_tokens")
    for panel in (
        overlay("Requests/s of ${workload}", done, "Requests that ended well.", unit=units.RequestsPerSecond, width=8),
        overlay("Output tokens/s of ${workload}", tokens, TOKENS, width=8),
        overlay("In flight", laid.level("in_flight_total"), "All workloads, at the end of each interval.", width=8),
    ):
        board.with_panel(panel)
