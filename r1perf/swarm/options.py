"""What Locust's command line and the web UI's form say of a run."""

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from locust.argument_parser import LocustArgumentParser

from r1perf.scenario import Scenario, Shorthands, folder, load

LOOPBACK = "127.0.0.1"


def add(parser: LocustArgumentParser, scenario: str) -> None:
    """Add the options; none of them may hold a secret: Locust shows them in its form and sends them to every worker.

    The master and the web UI listen on 127.0.0.1 unless they are told otherwise: whoever reaches them can start load.
    """
    parser.set_defaults(web_host=LOOPBACK, master_bind_host=LOOPBACK)
    parser.add_argument(
        "--r1-scenario", default=scenario, env_var="R1_SCENARIO", metavar="SCENARIO",
        help="r1perf scenario: a file, or the name of a shipped one",
    )  # fmt: skip
    parser.add_argument("--r1-model", default="", env_var="R1_MODEL", metavar="NAME", help="The model's name on the target")
    parser.add_argument(
        "--r1-rate", default="", env_var="R1_RATE", metavar="RATE", help="Arrivals by rate, as 2/s; of stages the highest"
    )
    parser.add_argument(
        "--r1-duration", default="", env_var="R1_DURATION", metavar="TIME", help="How long arrivals go on, as 90s or 10m"
    )
    parser.add_argument(
        "--r1-set", action="append", default=[], metavar="PATH=VALUE",
        help="Set any key of the scenario, as workload.chat.weight=2",
    )  # fmt: skip
    parser.add_argument(
        "--r1-web-origin", action="append", default=[], metavar="ORIGIN", include_in_web_ui=False,
        help="Let the pages of this origin use the web UI, as https://lab.example:8443; no other's may. Several times for several",
    )  # fmt: skip
    parser.add_argument(
        "--r1-runs", default="runs", env_var="R1_RUNS", metavar="FOLDER", include_in_web_ui=False,
        help="Where run archives are kept",
    )  # fmt: skip


def scenario_of(options: Namespace, host: str | None, sessions: int | None = None) -> tuple[Scenario, Path]:
    """Return the scenario, and the folder that its file names start from; raises UsageError. `host` is the target's URL."""
    source = str(options.r1_scenario)
    shorthands = Shorthands(
        url=host or None, model=options.r1_model or None, rate=options.r1_rate or None, duration=options.r1_duration or None
    )
    return load(source, _sets(options.r1_set, sessions), shorthands), folder(source)


def _sets(given: Sequence[str] | str, sessions: int | None) -> list[str]:
    """Return the settings, as a list of them or as the form's text; the web UI's users are the sessions."""
    sets = given.split(",") if isinstance(given, str) else given
    return [text.strip() for text in sets if text.strip()] + ([f"arrivals.sessions={sessions}"] if sessions else [])
