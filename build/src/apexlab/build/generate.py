"""`python -m apexlab.build.generate README.md`: write the matrix table between its markers.

For the Makefile; a test fails when the table drifted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from apexlab.build import formats
from apexlab.build.matrix import load
from apexlab.verify.errors import ApexlabError, CannotError, ProblemError


def generate(path: Path) -> bool:
    """Bring the table in `path` up to date; True when it had drifted.

    Raises CannotError when the file cannot be read or written, ProblemError when it has no markers.
    """
    try:
        text = path.read_text(encoding="utf-8")
        new = formats.replaced(text, formats.markdown(load()))
        if new is None:
            raise ProblemError(
                f"{path} has no place for the matrix. Put the lines {formats.BEGIN} and "
                f"{formats.END} where the table belongs.")
        if new != text:
            beside = path.with_name(f".{path.name}.new")
            beside.write_text(new, encoding="utf-8")
            os.replace(beside, path)  # noqa: PTH105 - whole or not at all
    except (OSError, UnicodeDecodeError) as error:
        raise CannotError(f"The table in {path} cannot be written: {error}.") from error
    return new != text


@click.command()
@click.argument("readme", type=click.Path(path_type=Path))
def main(readme: Path) -> None:
    """Write the matrix table into README between its markers."""
    try:
        if generate(readme):
            click.echo(f"{readme}: the matrix table was rewritten", err=True)
    except ApexlabError as error:
        click.echo(f"apexlab: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
