"""`apexlab matrix`: the cells, for people, programs, CI and buildx."""

from __future__ import annotations

import json

import click

from apexlab.build import options


@click.command()
@options.torch
@options.cuda
@click.option("--format", "form", type=click.Choice(["table", "json", "github", "bake"]),
              default="table", show_default=True, help="What to print.")
def matrix(torch: str | None, cuda: str | None, form: str) -> int:
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
