"""What Grafana does with a dashboard between its file and InfluxDB: fills in variables and macros, asks, reads the answer."""

import csv
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence

from influx import InfluxDb
from services import ROOT

DASHBOARDS = ROOT / "infra" / "grafana" / "dashboards"
ALL = ".*"

Rows = list[dict[str, str]]
Value = str | Sequence[str]


def dashboard(name: str) -> dict:
    """Read a committed dashboard."""
    return json.loads((DASHBOARDS / f"{name}.json").read_text())


def queries(board: dict) -> Iterator[tuple[str, str]]:
    """Go through all that a dashboard asks: panels, variables, annotations, by title."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["query"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield f"variable {variable['name']}", variable["query"]["query"]
    for annotation in board["annotations"].get("list", ()):
        yield f"annotation {annotation['name']}", annotation["target"]["query"]


def filled(query: str, variables: Mapping[str, Value], bucket: str, start: str, stop: str) -> str:
    """Fill in `${name}` and `${name:regex}` as Grafana does, and the macros of its InfluxDB data source."""

    def value(match: re.Match[str]) -> str:
        chosen = variables[match[1]]
        if match[2] is None:
            assert isinstance(chosen, str), f"{match[1]} has several values and is not read as a regular expression"
            return chosen
        if chosen == ALL:
            return ALL  # a variable's `allValue` is not escaped
        return "(" + "|".join(re.sub(r"[\\^$*+?.()|[\]{}/]", r"\\\g<0>", each) for each in chosen) + ")"

    query = re.sub(r"\$\{(\w+)(:regex)?\}", value, query)
    macros = {"v.timeRangeStart": start, "v.timeRangeStop": stop, "v.defaultBucket": f'"{bucket}"'}
    for macro, text in macros.items():
        query = query.replace(macro, text)
    assert "${" not in query
    assert "v.windowPeriod" not in query
    return query


def ask(server: InfluxDb, query: str) -> Rows:
    """Ask in Flux; return every row of every table, what is null left out."""
    request = urllib.request.Request(f"{server.url}/api/v2/query?org={server.org}", query.encode(), method="POST")
    request.add_header("Authorization", f"Token {server.token}")
    request.add_header("Content-Type", "application/vnd.flux")
    request.add_header("Accept", "application/csv")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            text = response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"{error.code} {error.read().decode()}\n{query}") from None
    return list(_rows(text))


def _rows(text: str) -> Iterator[dict[str, str]]:
    header: list[str] | None = None
    for cells in csv.reader(text.splitlines()):
        if not cells:
            header = None  # another table follows
        elif cells[0].startswith("#"):
            continue
        elif header is None:
            header = cells
            assert "error" not in header, text
        else:
            named = dict(zip(header, cells, strict=True))
            yield {name: cell for name, cell in named.items() if name not in ("", "result", "table") and cell != ""}
