"""Read what the command line and the ini file say: `--r1-*` and `r1_*`."""

import argparse
import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar, get_args

import pytest

T = TypeVar("T")

Inconclusive = Literal["fail", "observed", "skip"]
INCONCLUSIVE: tuple[Inconclusive, ...] = get_args(Inconclusive)

_MONEY = re.compile(r"\$?(\d+(?:\.\d+)?)\s*(?:USD|usd)?")

_INI = (
    ("r1_inconclusive", "string", "what an inconclusive verdict does: fail (the default), observed (the estimate decides), skip"),
    ("r1_runs", "string", "folder for the archives of runs, from the rootdir; default: runs"),
    ("r1_targets", "string", "TOML file with a table a target, as in a scenario's [target]; r1_target names them"),
    ("r1_max_cost", "string", "the default of --r1-max-cost"),
    ("r1_max_requests", "string", "the default of --r1-max-requests"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """What was asked for. Paths are absolute; `max_cost` is in USD."""

    runs: tuple[str, ...]
    baseline: tuple[str, ...]
    sla_files: tuple[Path, ...]
    target: str | None
    sets: tuple[str, ...]
    json: Path | None
    max_cost: float | None
    max_requests: int | None
    fail_fast: bool
    inconclusive: Inconclusive
    archives: Path
    targets: Path | None
    rootdir: Path
    invoked_in: Path


def add(parser: pytest.Parser) -> None:
    """Declare the options and the ini keys."""
    group = parser.getgroup("r1perf", "SLA verdicts on LLM endpoints (r1perf)")
    add_option = group.addoption
    add_option("--r1-sla", action="store_true", help="Judge the tests marked r1_sla; without it they are skipped.")
    add_option(
        "--r1-run", action="append", default=[], metavar="PATH",
        help="Judge this recorded run (or the runs in this folder) in place of what tests declare; may be repeated.",
    )  # fmt: skip
    add_option(
        "--r1-baseline", action="append", default=[], metavar="PATH", help="The runs that `baseline` clauses compare with."
    )
    add_option(
        "--r1-sla-file", action="append", default=[], metavar="FILE",
        help="More clauses for every test with a load or a recorded run: a TOML list, or OpenSLO.",
    )  # fmt: skip
    add_option(
        "--r1-target", metavar="NAME", help="The target of tests that do not choose theirs: a name of r1_targets, or a URL."
    )
    add_option(
        "--r1-set", action="append", default=[], metavar="PATH=VALUE", help="Set a key of every scenario, as duration=2m; wins."
    )
    add_option("--r1-json", metavar="FILE", help="Write all verdicts to FILE.")
    add_option("--r1-max-cost", type=money, metavar="USD", help="All loads together may cost so much (5, $5, 5USD); a hard stop.")
    add_option("--r1-max-requests", type=positive, metavar="N", help="All loads together may send so many requests; a hard stop.")
    add_option(
        "--r1-fail-fast", action="store_true", help="End a load as soon as one of its clauses fails whatever is still to come."
    )
    for name, kind, says in _INI:
        parser.addini(name, says, type=kind, default="")  # type: ignore[arg-type]


def options(config: pytest.Config) -> Options:
    """Return the options; raises pytest.UsageError for an ini value that means nothing."""
    given, root = config.option, config.rootpath
    wanted = config.getini("r1_inconclusive") or "fail"
    inconclusive = next((each for each in INCONCLUSIVE if each == wanted), None)
    if inconclusive is None:
        raise pytest.UsageError(f"r1_inconclusive: unknown value `{wanted}`; allowed: {', '.join(INCONCLUSIVE)}")
    for text in given.r1_set:
        if not text.partition("=")[0].strip() or "=" not in text:
            raise pytest.UsageError(f"--r1-set: `{text}` is no setting; allowed: PATH=VALUE, as duration=2m")
    targets = config.getini("r1_targets")
    return Options(
        runs=tuple(given.r1_run),
        baseline=tuple(given.r1_baseline),
        sla_files=tuple(config.invocation_params.dir / file for file in given.r1_sla_file),
        target=given.r1_target,
        sets=tuple(given.r1_set),
        json=config.invocation_params.dir / given.r1_json if given.r1_json else None,
        max_cost=given.r1_max_cost if given.r1_max_cost is not None else _ini(config, "r1_max_cost", money),
        max_requests=given.r1_max_requests if given.r1_max_requests is not None else _ini(config, "r1_max_requests", positive),
        fail_fast=given.r1_fail_fast,
        inconclusive=inconclusive,
        archives=root / (config.getini("r1_runs") or "runs"),
        targets=root / targets if targets else None,
        rootdir=root,
        invoked_in=config.invocation_params.dir,
    )


def money(text: str) -> float:
    """Read an amount of USD: 5, $5, 5USD."""
    match = _MONEY.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise argparse.ArgumentTypeError(f"`{text}` is not an amount of money above 0; allowed: 5, $5 or 5USD")
    return float(match[1])


def positive(text: str) -> int:
    """Read a number of requests."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of requests; allowed: a whole number above 0")
    return int(text)


def _ini(config: pytest.Config, name: str, read: Callable[[str], T]) -> T | None:
    text = config.getini(name)
    if not text:
        return None
    try:
        return read(text)
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"{name}: {error}") from None
