"""`apexlab base-images`: build the CUDA base images that `--base offline` starts from."""

from __future__ import annotations

import time
from pathlib import Path

import click

from apexlab.build import options
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import OK, UsageError


@click.command("base-images")
@options.cuda
@options.ca
@files_in_words()
def base_images(cuda: str | None, ca: Path | None) -> int:
    """Build the CUDA base images without a registry.

    Makes apexlab/offline:<CUDA>-base-<OS> and -devel- from a Debian root file system and NVIDIA's
    toolkit from PyPI and Debian. Images that are up to date stay as they are.
    """
    from apexlab.build import checkout, image_bases
    from apexlab.build import engine as engine_
    from apexlab.build.display import Display

    if not cuda:
        raise UsageError("Say for which CUDA: apexlab base-images --cuda 12.4.")
    root = checkout.find_root()
    bases = image_bases.read(root, cuda)
    engine = engine_.connect()
    start = time.monotonic()
    with Display(f"bases for CUDA {cuda}") as display:
        made = image_bases.ensure(engine, bases, root, ca, display.line)
    for kind in ("base", "devel"):
        name = bases.name(kind)
        size = engine.size(name) / engine_.GB
        click.echo(f"{'BUILT' if made else 'READY'}   {name}   {size:.1f} GB")
    if made:
        click.echo(f"in {time.monotonic() - start:.0f} s")
    click.echo(f"next    apexlab image --base offline --cuda {cuda} --torch ...   "
               f"(apexlab matrix --cuda {cuda} says which)")
    return OK
