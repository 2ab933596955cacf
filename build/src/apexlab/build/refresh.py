"""`python -m apexlab.build.refresh`: pin every base image to the digest that its registry has now.

For the weekly workflow, whose pull request then builds the cells whose bases changed. Needs a
container engine, which knows how to ask a registry.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import click

from apexlab.build import pins
from apexlab.build.bake import images
from apexlab.build.matrix import Matrix, load
from apexlab.build.resolve import plan_of
from apexlab.verify import output
from apexlab.verify.errors import ApexlabError


@click.command()
@click.argument("file", type=click.Path(path_type=Path), default=pins.DEFAULT_PATH)
def main(file: Path) -> None:
    """Write FILE, pins.toml of this package without one, anew; print what changed as Markdown."""
    from apexlab.build import engine

    try:
        old = pins.load(file) if file.exists() else {}
        new = newest(base_images(load()), engine.connect().registry_digest)
        if new != old:
            output.write_file(file, pins.text(new))
        output.write(changes(old, new))
    except ApexlabError as error:
        output.complain(f"apexlab: {error}")
        sys.exit(error.exit_code)


def base_images(matrix: Matrix) -> list[str]:
    """Each image that a stage of some cell starts from."""
    names = {name for cell in matrix.cells
             for name in images(plan_of(matrix, cell), "nvidia").values()}
    return sorted(names)


def newest(names: list[str], digest: Callable[[str], str]) -> dict[str, str]:
    """The digest of each image. One that cannot be had stops all: half a file of new pins would
    be taken for the whole."""
    return {name: digest(name) for name in names}


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """What changed, as the text of a pull request; "" for nothing."""
    rows = [f"| `{name}` | {_short(old.get(name))} | {_short(new.get(name))} |\n"
            for name in sorted({*old, *new}) if old.get(name) != new.get(name)]
    head = "| base image | pinned to | now |\n| --- | --- | --- |\n"
    return head + "".join(rows) if rows else ""


def _short(digest: str | None) -> str:
    return f"`{digest[:19]}`" if digest else "–"


if __name__ == "__main__":
    main()
