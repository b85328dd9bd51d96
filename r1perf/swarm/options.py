"""What Locust's command line and the web UI's form say of a run."""

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from locust.argument_parser import LocustArgumentParser

from r1perf.errors import R1perfError
from r1perf.scenario import Scenario, Shorthands, folder, load

LOOPBACK = "127.0.0.1"

_checked: list[LocustArgumentParser] = []


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


def check(parser: LocustArgumentParser) -> None:
    """Let a wrong scenario end the process where its command line is read: later `--processes` has made others, which would stay.

    Locust reads it again, for its form: then nothing is checked.
    """
    read = parser.parse_args

    def parse_args(*given: Any, **more: Any) -> Any:
        options = read(*given, **more)
        if not _checked and not options.worker:
            _checked.append(parser)
            try:
                scenario_of(options, options.host)
            except R1perfError as error:
                sys.stderr.write(f"r1perf: {error}\n")
                sys.exit(2)
        return options

    parser.parse_args = parse_args


def scenario_of(options: Namespace, host: str | None, sessions: int | None = None) -> tuple[Scenario, Path]:
    """Return the scenario, and the folder that its file names start from; raises UsageError. `host` is the target's URL."""
    source = str(options.r1_scenario)
    shorthands = Shorthands(
        url=host or None, model=options.r1_model or None, rate=options.r1_rate or None, duration=options.r1_duration or None
    )
    return load(source, _sets(options.r1_set, sessions), shorthands), folder(source)


def _sets(given: Sequence[str] | str, sessions: int | None) -> list[str]:
    """Return the settings, as a list of them or as the form's text; the web UI's users are the sessions."""
    sets = settings(given) if isinstance(given, str) else [text.strip() for text in given if text.strip()]
    return sets + ([f"arrivals.sessions={sessions}"] if sessions else [])


def settings(text: str) -> list[str]:
    """Split the form's text into settings, at commas outside of brackets and quotes; a quote opens where a value begins."""
    parts, depth, quote, before = [""], 0, "", ""
    for sign in text:
        if quote:
            quote = "" if sign == quote and (before != "\\" or quote == "'") else quote
        elif sign in "\"'" and before in "=[{,":
            quote = sign
        elif sign == "," and depth <= 0:
            parts.append("")
            before = ""
            continue
        else:
            depth += (sign in "[{") - (sign in "]}")
        parts[-1] += sign
        before = sign if quote or not sign.isspace() else before
    return [part.strip() for part in parts if part.strip()]
