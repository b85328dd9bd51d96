"""The committed dashboards are what their code makes, and hang together: panels, variables, data source, links."""

import re
import subprocess
import sys
from itertools import combinations

import pytest
import yaml
from grafana_reads import DASHBOARDS, dashboard, queries
from services import ROOT

from r1perf.metrics import METRICS
from r1perf.sinks.influxdb.coarse import LIMITS_MS

BOARDS = ("overview", "comparison")
(SOURCE,) = yaml.safe_load((ROOT / "infra/grafana/provisioning/datasources/influxdb.yaml").read_text())["datasources"]


def test_committed_files_are_what_the_code_makes(tmp_path):
    pytest.importorskip("grafana_foundation_sdk")
    subprocess.run([sys.executable, "-m", "infra.grafana", tmp_path], cwd=ROOT, check=True)
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in DASHBOARDS.iterdir()}
    for path in tmp_path.iterdir():
        assert path.read_text() == (DASHBOARDS / path.name).read_text(), "run `make dashboards`"


@pytest.fixture(params=BOARDS)
def board(request):
    return dashboard(request.param)


def panels(board: dict) -> list[dict]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_every_panel_asks_the_provisioned_data_source_and_says_what_it_shows(board):
    for panel in panels(board):
        wanted = {"type": SOURCE["type"], "uid": SOURCE["uid"]}
        assert [target["datasource"] for target in panel["targets"]] == [wanted]
        assert panel["datasource"] == wanted
        assert panel["title"]


def test_numbers_and_titles_are_unique(board):
    ids = [panel["id"] for panel in board["panels"]]
    titles = [title for title, _ in queries(board)]
    assert len(ids) == len(set(ids))
    assert len(titles) == len(set(titles))


def test_panels_lie_beside_each_other(board):
    def cells(panel: dict) -> set[tuple[int, int]]:
        at = panel["gridPos"]
        return {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}

    taken = [(panel["title"], cells(panel)) for panel in board["panels"]]
    assert [(a, b) for (a, here), (b, there) in combinations(taken, 2) if here & there] == []
    assert max(x for _, each in taken for x, _ in each) == 23


def test_every_variable_is_defined_and_used(board):
    used = {name for _, query in queries(board) for name in re.findall(r"\$\{(\w+)", query)}
    assert used == {variable["name"] for variable in board["templating"]["list"]}


def test_several_values_are_only_read_as_a_regular_expression(board):
    several = {variable["name"] for variable in board["templating"]["list"] if variable.get("multi")}
    plain = {name for _, query in queries(board) for name in re.findall(r"\$\{(\w+)\}", query)}
    assert several & plain == set()


def test_percentiles_are_never_put_together(board):
    for title, query in queries(board):
        if re.search(r"_p\d+_ms|\$\{percentile\}", query):
            assert not re.search(r"\b(sum|mean|max|min|median|quantile|aggregateWindow|reduce)\(", query), title
        assert not re.search(r"\b(mean|max|median|quantile|histogramQuantile)\(", query), title


def test_figures_of_a_whole_run_come_from_the_run_itself(board):
    for panel in panels(board):
        if panel["type"] == "table" and "Outcomes" not in panel["title"]:
            assert 'r._measurement == "r1_run"' in panel["targets"][0]["query"]


def test_metrics_are_those_of_the_product(board):
    named = {name for _, query in queries(board) for name in re.findall(r"(\w+)_(?:p\d+|le_\d+)_ms", query)}
    assert named
    assert {name.removeprefix("r.") for name in named} <= set(METRICS)


def test_heatmaps_put_their_cells_in_order():
    found = {panel["title"]: panel for panel in panels(dashboard("overview")) if panel["type"] == "heatmap"}
    for metric, limits in LIMITS_MS.items():
        panel = found[f"{metric.upper()} heatmap"]
        (order,) = [each["options"]["indexByName"] for each in panel["transformations"]]
        assert sorted(order, key=order.get) == ["_time", *map(str, limits), "+Inf"]
        assert panel["options"]["rowsFrame"]["layout"] == "le"
        assert panel["options"]["calculate"] is False


def test_links_lead_to_dashboards_that_there_are(board):
    there = {dashboard(name)["uid"] for name in BOARDS}
    text = str(board)
    assert set() < set(re.findall(r"/d/([\w-]+)", text)) <= there
    assert {variable for variable in re.findall(r"var-(\w+)=", text)} <= {"run"}
