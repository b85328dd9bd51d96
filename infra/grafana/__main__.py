"""Write the dashboards' JSON: `python -m infra.grafana [FOLDER]`, by default where Grafana's provisioning looks for it."""

import json
import sys
from pathlib import Path

from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.encoder import JSONEncoder

from infra.grafana.comparison import comparison
from infra.grafana.overview import overview


def encode(board: Dashboard) -> str:
    """Write a dashboard as Grafana reads it, its panels numbered."""
    built = board.build()
    for number, panel in enumerate(built.panels or (), 1):
        panel.id_val = number
    return json.dumps(built, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def main(folder: Path) -> None:
    """Write one file a dashboard."""
    for name, board in (("overview", overview()), ("comparison", comparison())):
        (folder / f"{name}.json").write_text(encode(board))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "dashboards")
