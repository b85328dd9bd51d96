"""Make the panels that the dashboards are built of: one way to draw each kind of thing."""

from collections.abc import Mapping, Sequence

from grafana_foundation_sdk.builders import common as build
from grafana_foundation_sdk.builders import dashboard, heatmap, stat, table, timeseries, trend
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.runtime import UnknownDataquery
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models import common, units
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode, HeatmapColorScale

SOURCE = common.DataSourceRef(type_val="influxdb", uid="r1perf")
"""The data source that provisioning/datasources brings."""

WIDTH = 24

VERDICTS = model.ValueMap(
    {
        word: model.ValueMappingResult(text=word, color=color, index=n)
        for n, (word, color) in enumerate(
            {
                "pass": "green",
                "fail": "red",
                "inconclusive": "orange",
                "invalid": "red",
                "failed": "red",
                "running": "blue",
            }.items()
        )
    }
)
"""How states and verdicts are coloured; what is not here is plain."""


class Flux(Builder[Dataquery]):
    """One query; the SDK has no builder of its own for InfluxDB."""

    def __init__(self, query: str, ref: str = "A") -> None:
        self._query, self._ref = query, ref

    def build(self) -> Dataquery:
        """Return the query as Grafana's InfluxDB data source reads it."""
        return UnknownDataquery({"datasource": SOURCE.to_json(), "query": self._query, "refId": self._ref})


def figure(
    title: str, query: str, says: str, *, unit: str = "", decimals: int = 1, name: str = "${__field.labels.name}"
) -> stat.Panel:
    """Show the last value of each series, with its course behind it."""
    return (
        stat.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).unit(unit).decimals(decimals)
        .display_name(name).span(3).height(4).no_value("–").color_mode(common.BigValueColorMode.NONE)
        .graph_mode(common.BigValueGraphMode.AREA).reduce_options(build.ReduceDataOptions().calcs(["lastNotNull"]))
    )  # fmt: skip


def text(title: str, query: str, says: str) -> stat.Panel:
    """Show words, each under its column's name."""
    return (
        stat.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).span(3).height(4).no_value("–")
        .color_mode(common.BigValueColorMode.VALUE).graph_mode(common.BigValueGraphMode.NONE).mappings([VERDICTS])
        .reduce_options(build.ReduceDataOptions().calcs(["lastNotNull"]).fields("/^(?!time$)/"))
    )  # fmt: skip


GAP_MS = 60_000
"""A line over single intervals is not joined over more without a value."""


def lines(title: str, query: str, says: str, *, unit: str = "", width: int = 8, label: str = "name") -> timeseries.Panel:
    """Draw series in time."""
    return (
        timeseries.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).unit(unit).min(0)
        .display_name(f"${{__field.labels.{label}}}").span(width).height(8).line_width(1).fill_opacity(0)
        .show_points(common.VisibilityMode.AUTO).tooltip(build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
        .legend(_legend())
    )  # fmt: skip


def stacked(title: str, query: str, says: str, *, width: int = 8, label: str = "name") -> timeseries.Panel:
    """Draw counts in time as bars that stand on one another."""
    return (
        lines(title, query, says, width=width, label=label).draw_style(common.GraphDrawStyle.BARS).fill_opacity(80)
        .stacking(build.StackingConfig().mode(common.StackingMode.NORMAL).group("A"))
    )  # fmt: skip


def cells(title: str, query: str, order: Sequence[str], says: str, *, width: int = 12) -> heatmap.Panel:
    """Draw counts by size in time. The columns of a Flux row come in any order, so `order` puts them right."""
    return (
        heatmap.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).span(width).height(8)
        .calculate(calculate=False).rows_frame(heatmap.RowsHeatmapOptions().layout(common.HeatmapCellLayout.LE))
        .y_axis(heatmap.YAxisConfig().unit(units.Milliseconds).axis_placement(common.AxisPlacement.LEFT))
        .color(
            heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Oranges").steps(64)
            .scale(HeatmapColorScale.EXPONENTIAL).exponent(0.5).fill("dark-orange")
        )
        .with_transformation(_in_order(["_time", *order]))
    )  # fmt: skip


def rows(
    title: str,
    query: str,
    order: Sequence[str],
    says: str,
    *,
    height: int = 8,
    unit: Mapping[str, str] | None = None,
    open_run: bool = False,
) -> table.Panel:
    """Lay out a table. `unit` is by column; with `open_run` the column `run` leads to that run's overview."""
    panel = (
        table.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).span(WIDTH).height(height)
        .with_transformation(_in_order(order))
    )  # fmt: skip
    if "verdict" in order:
        coloured = [
            model.DynamicConfigValue("mappings", [VERDICTS]),
            model.DynamicConfigValue("custom.cellOptions", {"type": "color-text"}),
        ]
        panel.override_by_name("verdict", coloured)
    for column, each in (unit or {}).items():
        panel.override_by_name(column, [model.DynamicConfigValue("unit", each), model.DynamicConfigValue("decimals", 1)])
    if open_run:
        link = {"title": "Open this run", "url": "/d/r1perf-overview?${__url_time_range}&var-run=${__value.raw}"}
        panel.override_by_name("run", [model.DynamicConfigValue("links", [link])])
    return panel


def overlay(title: str, query: str, says: str, *, unit: str = "", width: int = 12) -> trend.Panel:
    """Draw a line a run over the seconds since it began."""
    return (
        trend.Panel().title(title).description(says).datasource(SOURCE).with_target(Flux(query)).unit(unit).min(0)
        .x_field("seconds").override_by_name("seconds", [model.DynamicConfigValue("unit", units.Seconds)])
        .span(width).height(8).line_width(1).fill_opacity(0).show_points(common.VisibilityMode.AUTO)
        .tooltip(build.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)).legend(_legend())
    )  # fmt: skip


def listed(name: str, label: str, query: str, *, multi: bool = False, everything: bool = False) -> dashboard.QueryVariable:
    """Let people choose from what a query lists."""
    variable = (
        dashboard.QueryVariable(name).label(label).datasource(SOURCE).query({"query": query, "refId": name})
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.DISABLED).multi(multi)
    )  # fmt: skip
    if everything:
        variable.include_all(include_all=True).all_value(".*").current(model.VariableOption(text="All", value="$__all"))
    return variable


def choice(name: str, label: str, values: Sequence[str], first: str) -> dashboard.CustomVariable:
    """Let people choose from a fixed list."""
    return (
        dashboard.CustomVariable(name).label(label).values(",".join(values)).current(model.VariableOption(text=first, value=first))
        .options([model.VariableOption(text=each, value=each, selected=each == first) for each in values])
    )  # fmt: skip


def _legend() -> build.VizLegendOptions:
    return (
        build.VizLegendOptions().display_mode(common.LegendDisplayMode.LIST).placement(common.LegendPlacement.BOTTOM)
        .show_legend(show_legend=True)
    )  # fmt: skip


def _in_order(columns: Sequence[str]) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(
        "organize",
        options={"indexByName": {column: n for n, column in enumerate(columns)}, "excludeByName": {}, "renameByName": {}},
    )
