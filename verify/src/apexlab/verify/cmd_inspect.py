"""`apexlab inspect`: what a shared object holds and what it needs."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from apexlab.verify import options


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...",
                type=click.Path(path_type=Path))
@options.as_json
@options.with_kernels
@click.pass_context
def inspect(ctx: click.Context, files: tuple[Path, ...], as_json: bool, with_kernels: bool,
            ) -> int:
    """Show what shared objects hold: GPU code, kernels, torch and CUDA ties.

    Reads any CUDA extension or library, whoever made it; nothing is loaded or run. Exit codes:
    0 ok, 1 a file cannot be read (the others are shown).
    """
    # Late, so that --help stays quick.
    from apexlab.verify import anatomy, errors, inspect_text, output
    from apexlab.verify.render import printable

    read, unreadable = [], []
    for file in files:
        try:
            read.append(anatomy.read(file, with_kernels))
        except errors.UnreadableError as error:
            unreadable.append(error)
    if as_json:
        output.write(json.dumps(anatomy.document(read, unreadable), indent=2) + "\n")
    else:
        bold = sys.stdout is not None and sys.stdout.isatty() if ctx.color is None else ctx.color
        output.write("\n".join(inspect_text.text(one, bold) for one in read))
    for one in unreadable:
        output.complain(f"apexlab: {printable(str(one))}")
    return errors.PROBLEM if unreadable else errors.OK
