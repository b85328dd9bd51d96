"""Read the options of `r1perf simulate`."""

import sys

import click

from r1perf.errors import UsageError
from r1perf.simulator.dialects import DIALECTS
from r1perf.simulator.faults import KINDS, parse_rate
from r1perf.simulator.options import Options
from r1perf.simulator.profiles import PROFILES


@click.command("simulate", short_help="Serve a simulated R1 endpoint.")
@click.option("--profile", default="tiny", show_default=True, help=f"What is simulated: {', '.join(PROFILES)}.")
@click.option("--dialect", default="vllm", show_default=True, help=f"How it writes: {', '.join(DIALECTS)}.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option(
    "--model", "models", multiple=True, default=("deepseek-r1",), show_default=True, help="Served model name; repeatable."
)
@click.option("--speed", default=1.0, show_default=True, help="How many times as fast as the profile the engine is.")
@click.option("--seed", default=0, show_default=True, help="Seed of lengths, noise and faults.")
@click.option(
    "--fault",
    "faults",
    multiple=True,
    metavar="NAME[:ARG][@TOKEN]=RATE",
    help=f"A fault at random; repeatable: {', '.join(KINDS)}.",
)
@click.option("--accuracy", type=float, help="Share of right answers where the request tells the right one.")
@click.option("--tokens-per-chunk", type=int, help="Tokens that one decode step gives a stream.")
@click.option("--requests-per-minute", type=int, help="More get 429.")
@click.option("--max-concurrency", type=int, help="More at a time get 429.")
@click.option("--truth", metavar="FILE", help="Append one JSON line a request to FILE.")
@click.option("--truth-tokens", is_flag=True, help="With the time of every token.")
@click.option("--tls-cert", metavar="FILE", help="Serve TLS with this certificate (PEM).")
@click.option("--tls-key", metavar="FILE", help="The certificate's key (PEM).")
@click.option("--parent-pipe", type=int, metavar="FD", help="End when the other end of this pipe closes; 0 is stdin.")
def command(faults: tuple[str, ...], **options: object) -> None:
    """Serve a simulated DeepSeek-R1 endpoint, OpenAI-compatible, with continuous batching behind it.

    Where R1SIM_API_KEY is set in the environment, requests need that key.
    """
    try:
        from r1perf.simulator.process import serve

        code = serve(Options(faults=tuple(parse_rate(fault) for fault in faults), **options))  # type: ignore[arg-type]
    except UsageError as error:
        click.echo(f"r1perf: {error}", err=True)
        code = 2
    sys.exit(code)


def main(argv: list[str] | None = None) -> None:
    """Run the command; exits with 0, or 2 after one sentence where the options are wrong."""
    command.main(args=argv, prog_name="python -m r1perf.simulator")
