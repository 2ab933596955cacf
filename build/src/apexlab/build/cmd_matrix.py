"""`apexlab matrix`: the cells, for people, programs, CI and buildx."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from apexlab.build import options

if TYPE_CHECKING:
    from apexlab.build.rows import Cell, Matrix


@click.command()
@options.torch
@options.cuda
@click.option("--format", "form", type=click.Choice(["table", "json", "github", "bake"]),
              default="table", show_default=True, help="What to print.")
@click.option("--changed-since", metavar="REF",
              help="Only the cells that changed since that commit; where what all of them are "
                   "made from changed, also one for each commit of Apex.")
def matrix(torch: str | None, cuda: str | None, form: str, changed_since: str | None) -> int:
    """List the cells: which torch, CUDA and Apex go together.

    `github` is a job matrix on one line; `bake` is the definition that `docker buildx bake` builds
    all of them from.
    """
    from apexlab.build import formats
    from apexlab.build.matrix import load
    from apexlab.build.pick import pick
    from apexlab.build.resolve import plan_of
    from apexlab.verify import output

    rows = load()
    cells = pick(rows, torch, cuda)
    if changed_since is not None:
        cells = _changed(rows, cells, changed_since)
    if form == "json":
        text = formats.as_json(rows, cells)
    elif form == "github":
        text = formats.github(cells)
    elif form == "bake":
        from apexlab.build.bake import BakeOptions, definition

        plans = [plan_of(rows, cell) for cell in cells]
        text = json.dumps(definition(plans, BakeOptions()), indent=2)
    else:
        text = formats.table(cells)
    output.write(text + "\n")
    return 0


def _changed(rows: Matrix, cells: tuple[Cell, ...], ref: str) -> tuple[Cell, ...]:
    """The cells that a change concerns, and on stderr why these."""
    from apexlab.build import changed, pins
    from apexlab.build.checkout import find_root
    from apexlab.verify import output

    before = changed.since(find_root(), ref)
    left = changed.concerned(before, rows, pins.load(), cells)
    if before.matrix is None:
        why = ", since its matrix cannot be compared with this one"
    elif shared := changed.shared_changes(before.paths):
        why = (f"; every image is made from {shared[0]}, so one for each commit of Apex is among "
               "them")
    else:
        why = ""
    output.complain(f"{len(left)} of {len(cells)} cells since {ref}{why}")
    return left
