"""`python -m apexlab.build.generate README.md`: write the matrix table between its markers.

For the Makefile; a test fails when the table drifted.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from apexlab.build import formats
from apexlab.build.matrix import load
from apexlab.verify import markers
from apexlab.verify.errors import ApexlabError


@click.command()
@click.argument("readme", type=click.Path(path_type=Path))
def main(readme: Path) -> None:
    """Write the matrix table into README between its markers."""
    try:
        if markers.rewrite(readme, {"matrix": formats.markdown(load())}):
            click.echo(f"{readme}: the matrix table was rewritten", err=True)
    except ApexlabError as error:
        click.echo(f"apexlab: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
