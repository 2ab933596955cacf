"""`apexlab site`: the page where people find the image for their torch, CUDA and GPU."""

from __future__ import annotations

from pathlib import Path

import click

from apexlab.build import options
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import OK, UsageError


@click.command()
@options.out
@options.records
@click.option("--demo", is_flag=True,
              help="Show records of a stand-in as well, marked as what they are.")
@files_in_words()
def site(out: Path, records: Path | None, demo: bool) -> int:
    """Write the page where people find their image: a folder of files, no server.

    Its cells are those of the matrix. What was published of them comes from --records; a cell
    without a record is shown as not published yet.
    """
    from apexlab.build.matrix import load
    from apexlab.build.site import page, write
    from apexlab.build.site import records as files

    if demo and records is None:
        raise UsageError("--demo shows records of a stand-in, and there are none: give --records "
                         "DIR with what `apexlab publish --allow-stand-in --json` printed.")
    write.check(out, records)
    matrix = load()
    shown, left = files.read(records, matrix, demo) if records else ({}, ())
    write.write(out, page.page(matrix, shown, demo), shown)
    if left:
        click.echo(f"left out, being of a stand-in and no Apex: {', '.join(left)}", err=True)
    click.echo(f"{out / write.INDEX}: {len(shown)} of {len(matrix.cells)} cells published")
    return OK
