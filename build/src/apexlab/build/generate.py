"""`python -m apexlab.build.generate README.md`: write the matrix table between its markers.

For the Makefile; `--check` writes nothing and ends with 1 when the table drifted.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from apexlab.build import formats
from apexlab.build.matrix import load
from apexlab.verify.errors import ApexlabError, CannotError, ProblemError


def generate(path: Path, check: bool) -> bool:
    """Bring the table in `path` up to date, unless `check`; True when it had drifted.

    Raises CannotError when the file cannot be read or written, ProblemError when it has no markers.
    """
    try:
        text = path.read_text(encoding="utf-8")
        new = formats.replaced(text, formats.markdown(load()))
        if new is None:
            raise ProblemError(
                f"{path} has no place for the matrix. Put the lines {formats.BEGIN} and "
                f"{formats.END} where the table belongs.")
        if new != text and not check:
            beside = path.with_name(f".{path.name}.new")
            beside.write_text(new, encoding="utf-8")
            os.replace(beside, path)  # noqa: PTH105 - whole or not at all
    except (OSError, UnicodeDecodeError) as error:
        raise CannotError(f"The table in {path} cannot be written: {error}.") from error
    return new != text


@click.command()
@click.argument("readme", type=click.Path(path_type=Path))
@click.option("--check", is_flag=True, help="Write nothing; end with 1 when the table drifted.")
def main(readme: Path, check: bool) -> None:
    """Write the matrix table into README between its markers."""
    try:
        drifted = generate(readme, check)
    except ApexlabError as error:
        click.echo(f"apexlab: {error}", err=True)
        sys.exit(error.exit_code)
    if drifted:
        what = "drifted" if check else "was rewritten"
        click.echo(f"{readme}: the matrix table {what}", err=True)
    sys.exit(int(drifted and check))


if __name__ == "__main__":
    main()
