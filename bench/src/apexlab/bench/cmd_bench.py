"""`apexlab bench`: a group whose commands are imported when they are called, and not before."""

from __future__ import annotations

import importlib

import click

# Where each command is, and its help line: a broken one hurts no other, and `--help` needs none.
# A test holds each line against the first line of the command's own help.
COMMANDS = {
    "train": ("apexlab.bench.cmd_train:train",
              "Train a Transformer in every scenario, round by round, and report."),
    "ops": ("apexlab.bench.cmd_ops:ops",
            "Measure single operators: Adam, LayerNorm, RMSNorm, clipping."),
    "compare": ("apexlab.bench.cmd_compare:compare",
                "Compare two results: a verdict for each figure."),
    "ab": ("apexlab.bench.cmd_ab:ab", "Compare two images by measuring them in turn."),
    "report": ("apexlab.bench.cmd_report:report", "Write the report of a finished run again."),
}


class Commands(click.Group):
    """A click group that takes its commands from the table."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def bench(ctx: click.Context) -> int | None:
    """Measure Transformer training with and without Apex, and report.

    Without a command it is `train --quick --ladder classic`.
    """
    if ctx.invoked_subcommand is not None:
        return None
    from apexlab.bench.cmd_train import train

    code: int = ctx.invoke(train, quick=True, ladder="classic")
    return code
