"""The `apexlab` command: a group whose subcommands come from the entry points of the distributions.

A subcommand is imported when it is called and not before, so that `--help` stays quick and a
broken distribution cannot take the others down.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from apexlab.verify import errors, output

GROUP = "apexlab.commands"

# The help lines, so that `apexlab --help` imports no subcommand. A layout test holds each one
# against the first line of the command's own help.
SUMMARIES = {
    "matrix": "List the cells: which torch, CUDA and Apex go together.",
    "image": "Build the image of a cell, with Apex compiled from source.",
    "compile": "Compile Apex from a source tree into a wheel that was checked.",
    "base-images": "Build the CUDA base images without a registry.",
    "publish": "Give a verified image its tags, attestations and signature.",
    "site": "Write the page where people find their image: a folder of files, no server.",
    "verify": "Judge an installed Apex, or a wheel: present, fitting, loading, really run.",
    "inspect": "Show what shared objects hold: GPU code, kernels, torch and CUDA ties.",
    "bench": "Measure Transformer training with and without Apex, and report.",
}


# verify's own entry points, once more: looking for them takes a third of the time that `inspect`
# needs for a library of 500 MB. A layout test holds them against pyproject.toml.
OWN = {
    "verify": "apexlab.verify.cmd_verify:verify",
    "inspect": "apexlab.verify.cmd_inspect:inspect",
}


class Commands(click.Group):
    """A click group that finds its commands in the entry point group `apexlab.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        from importlib import metadata

        installed = {point.name for point in metadata.entry_points(group=GROUP)}
        order = list(SUMMARIES)
        return sorted(installed, key=lambda n: (order.index(n) if n in order else len(order), n))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name in OWN:
            module, _, attribute = OWN[name].partition(":")
            own: click.Command = getattr(importlib.import_module(module), attribute)
            return own
        from importlib import metadata

        for point in metadata.entry_points(group=GROUP, name=name):
            command = point.load()
            if not isinstance(command, click.Command):
                raise errors.ApexlabError(f"The entry point {point.value} is not a click command.")
            return command
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output left (`apexlab image ... | head`): nothing is wrong. Caught
            # here, since click itself would end with 1, which means a problem.
            output.silence()
            return errors.OK

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, SUMMARIES.get(name, "")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from importlib import metadata

        click.echo(f"apexlab {metadata.version('apexlab-verify')}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
              help="Show the version and exit.")
@click.pass_context
def apexlab(ctx: click.Context, debug: bool) -> None:
    """NVIDIA Apex that is really compiled, really used and honestly measured."""
    ctx.obj = {"debug": debug}
    ctx.color = colour(os.environ)


def colour(environ: Any) -> bool | None:
    """What NO_COLOR and FORCE_COLOR say: False, True, or None for "as the stream is".

    click reads neither of them (seen with 8.5.1); NO_COLOR wins, as no-color.org has it.
    """
    if environ.get("NO_COLOR"):
        return False
    return True if environ.get("FORCE_COLOR") else None


def main(args: list[str] | None = None) -> None:
    """Run the command line and exit with one of the documented codes."""
    argv = sys.argv[1:] if args is None else args
    sys.exit(run(argv))


def run(argv: list[str]) -> int:
    """Run the command line; the exit code. Prints an error as one paragraph on stderr."""
    output.make_encodable()
    try:
        code = apexlab.main(argv, prog_name="apexlab", standalone_mode=False)
        return code if isinstance(code, int) else errors.OK
    except (KeyboardInterrupt, click.Abort):
        output.complain("apexlab: interrupted")
        return errors.INTERRUPTED
    except Exception as error:
        if "--debug" in argv:
            import traceback  # late, so that --help stays quick

            traceback.print_exc()
        return _said(error)


def _said(error: Exception) -> int:
    """Say what went wrong, on stderr; the exit code."""
    if isinstance(error, click.UsageError):
        # One paragraph like every other error, where click would print its usage block.
        where = error.ctx.command_path if error.ctx else "apexlab"
        output.complain(
            f"apexlab: {error.format_message()} `{where} --help` says what there is.")
        return error.exit_code
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if isinstance(error, errors.ApexlabError):
        output.complain(f"apexlab: {error}")
        return error.exit_code
    output.complain(
        f"apexlab: internal error ({type(error).__name__}: {error}). This is a fault of "
        "apexlab; `apexlab --debug ...` shows where, for a report.")
    return errors.INTERNAL
