"""`r1perf worker`: be one worker of a swarm."""

from pathlib import Path

import click

from r1perf.errors import UsageError


@click.command("worker")
@click.option("--master", default="127.0.0.1:5557", show_default=True, metavar="HOST:PORT", help="Where the master listens.")
@click.option(
    "--runs", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
    help="Where this worker keeps its files if it is on another machine than its master.",
)  # fmt: skip
def command(master: str, runs: Path) -> int:
    """Be one worker of a swarm, whose master is `r1perf run --expect-workers` or Locust with a locustfile of ours.

    The scenario comes from the master. API keys do not: each worker reads its own environment. SIGTERM or Ctrl-C ends it in
    order: what is in flight is waited for, for ten seconds at most.
    """
    try:
        from r1perf.swarm.joining import work
    except ModuleNotFoundError as error:
        raise UsageError("a swarm needs Locust: install r1perf[swarm]") from error
    return work(master, runs, lambda sentence: click.echo(sentence, err=True))
