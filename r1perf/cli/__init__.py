"""The command line: one file a command. Exit codes: 0 all well, 1 an SLA clause failed, 2 the command, scenario or target is
wrong, 3 inconclusive or invalid, or r1perf itself is at fault, 130 interrupted."""

import sys
import traceback

import click

from r1perf import __version__
from r1perf.cli.output import Output, hold_places
from r1perf.errors import R1perfError


class _Lazy(click.Group):
    """Commands by name, imported when they are used: `r1perf --help` and shell completion stay fast."""

    commands_by_name = ("run", "worker", "check", "schema", "report", "judge", "runs", "recover", "influx", "probe", "simulate")

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List the commands in the order in which people meet them."""
        return list(self.commands_by_name)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in self.commands_by_name:
            return None
        if cmd_name == "simulate":
            from r1perf.simulator import command
        else:
            from importlib import import_module

            command = import_module(f"r1perf.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(__version__, prog_name="r1perf")
def command() -> None:
    """Load tests for DeepSeek-R1-class endpoints whose numbers are right.

    Try it on the embedded simulated endpoint: `r1perf run smoke`.
    """


def main() -> None:
    """Run the command line; every error that a user can cause is one sentence and exit code 2.

    The exit code is the run's own even where nobody reads the output to its end: a broken promise must not pass under `| head`.
    """
    hold_places()
    output = Output(sys.__stdout__)
    if sys.stdout is sys.__stdout__:  # a caller that has put its own there (a test) wants what is written
        sys.stdout = output.text()
    if sys.stderr is sys.__stderr__:
        sys.stderr = Output(sys.__stderr__).text(by_line=True)
    code: object
    try:
        # Not `command.main`, which takes a closed pipe for an error and exits with 1: an SLA clause that failed.
        with command.make_context("r1perf", sys.argv[1:]) as context:
            code = command.invoke(context)
    except click.exceptions.Exit as error:
        code = error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt):
        code = 130
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = 2
    except click.ClickException as error:
        click.echo(f"r1perf: {error.format_message()}", err=True)
        code = 2
    except R1perfError as error:
        click.echo(f"r1perf: {error}", err=True)
        code = 2
    except Exception as error:  # noqa: BLE001 - Python would exit with 1: an SLA clause that failed
        traceback.print_exception(error)
        click.echo(f"r1perf: this is a fault of r1perf itself, not of the target: {type(error).__name__}: {error}", err=True)
        code = 3
    sys.stdout.flush()
    code = code if isinstance(code, int) else 0
    if output.failure is not None:
        click.echo(f"r1perf: the output cannot be written: {output.failure}", err=True)
        code = code or 3
    sys.exit(code)
