"""`r1perf probe`: find out with a few tokens what a target is."""

import click

from r1perf.errors import UsageError
from r1perf.loop.gevent import GeventLoop
from r1perf.preflight import api_key
from r1perf.probe import probe, render
from r1perf.scenario.decode import convert
from r1perf.target import Target
from r1perf.transport.http import HttpTransport
from r1perf.units import Duration


@click.command("probe")
@click.argument("url")
@click.option("--model", default="", help="The model's name; left out, the first one that the target lists.")
@click.option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")
@click.option("--provider", default="auto", show_default=True, help="The dialect, where it is known.")
@click.option("--timeout", default="60s", show_default=True, metavar="DURATION", help="How long each request may take.")
@click.option("--insecure", is_flag=True, help="Do not verify the server's certificate.")
def command(url: str, model: str, api_key_env: str | None, provider: str, timeout: str, insecure: bool) -> None:
    """Ask URL (".../v1") two small questions and tell what it is: dialect, reasoning field, usage, caching, buffering, reuse.

    It costs a few hundred tokens. What it prints can be pasted into a scenario.
    """
    try:
        if not Duration.parse(timeout):
            raise UsageError("--timeout: must be greater than 0")
    except ValueError as error:
        raise UsageError(f"--timeout: {error}") from None
    timeouts = dict.fromkeys(("first_chunk", "between_chunks", "total"), timeout)
    given = {"url": url, "model": model, "provider": provider, "verify_tls": not insecure, "timeouts": timeouts}
    if api_key_env is not None:
        given["api_key_env"] = api_key_env
    target = convert(given, Target, "target")
    loop = GeventLoop()
    transport = HttpTransport.of(loop, target)
    try:
        report = probe(target, loop, transport, api_key(target), lambda what: click.echo(f"r1perf: {what}", err=True))
    finally:
        transport.close()
    for line in render(report):
        click.echo(line)
