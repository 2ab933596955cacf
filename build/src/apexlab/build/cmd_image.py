"""`apexlab image`: build the image of a cell, or its wheel, and say what came out."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from apexlab.build import options
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import OK, ProblemError, worst

if TYPE_CHECKING:
    from apexlab.build.bake import BakeOptions
    from apexlab.build.image_make import Made
    from apexlab.build.plan import Plan


@click.command()
@options.torch
@options.cuda
@click.option("--all", "everything", is_flag=True, help="All cells of the matrix, one by one.")
@options.target
@options.base
@options.apex_source
@options.apex_ref
@options.python
@options.archs
@options.profile
@options.jobs
@options.memory
@click.option("--tag", metavar="NAME", help="The name of the image. Default: apexlab:<cell>.")
@click.option("--push", is_flag=True, help="Push the image under --tag once it was checked.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), default=Path("dist"),
              show_default=True, help="The folder for the wheel, with --target wheel.")
@options.build_args
@options.ca
@click.option("--dry-run", is_flag=True, help="Print the bake definition and build nothing.")
@files_in_words()
def image(
    torch: str | None, cuda: str | None, everything: bool, target: str, base: str,
    apex_source: str | None, apex_ref: str | None, python: str | None, archs: str | None,
    profile: str, jobs: int | None, memory: str | None, tag: str | None, push: bool, out: Path,
    build_args: tuple[str, ...], ca: Path | None, dry_run: bool,
) -> int:  # fmt: skip
    """Build the image of a cell, with Apex compiled from source.

    The last step of the build checks the result, so an image whose Apex would fall back to plain
    PyTorch is never tagged. Needs Docker with buildx, and no GPU.
    """
    # Late, so that --help stays quick.
    from apexlab.build import bake, checkout, image_request
    from apexlab.build.matrix import load

    ask = image_request.Ask(
        torch=torch, cuda=cuda, everything=everything, target=target, base=base,
        apex_source=apex_source, apex_ref=apex_ref, python=python, archs=archs, profile=profile,
        jobs=jobs, memory=memory, tag=tag, push=push, out=out, build_args=build_args, ca=ca,
    )  # fmt: skip
    plans, bake_options = image_request.prepare(ask, load(), checkout.find_root())
    if dry_run:
        click.echo(json.dumps(bake.definition(plans, bake_options), indent=2))
        return OK
    return _build_all(plans, bake_options, push)


def _build_all(plans: list[Plan], bake_options: BakeOptions, push: bool) -> int:
    """Build one after the other. A cell that fails does not stop the others; an engine does."""
    from apexlab.build import engine as engine_
    from apexlab.build import image_make
    from apexlab.build.display import Display

    engine = engine_.connect()
    out = Path(bake_options.out)
    codes = [OK]
    for plan in plans:
        if len(plans) > 1:
            # Each cell's record and log have the same names, so each gets a folder.
            bake_options = replace(bake_options, out=str(out / plan.slug))
        for note in image_make.notes(plan, bake_options):
            click.echo(f"note    {note}", err=True)
        try:
            with Display(plan.slug) as display:
                made = image_make.make(engine, plan, bake_options, push, display.line)
        except ProblemError as error:
            if len(plans) == 1:
                raise
            click.echo(f"apexlab: {plan.slug}: {error}", err=True)
            codes.append(error.exit_code)
            continue
        click.echo(_summary(plan, made))
    return worst(codes)


def _summary(plan: Plan, made: Made) -> str:
    """Verdict first, then the evidence, then the next command to type."""
    minutes, seconds = divmod(round(made.seconds), 60)
    record = made.record
    also = f"   (also {', '.join(made.names[1:])})" if made.names[1:] else ""
    code = " ".join(target for arch in plan.archs for target in arch.targets)
    size = f"{made.bytes / 1e9:.2f} GB" if made.is_image else f"{made.bytes / 1e6:.1f} MB"
    lines = [
        f"BUILT   {made.names[0]}   {size}   {minutes}:{seconds:02} min{also}",
        f"{record.short_source} · torch {record.torch.get('version')} · CUDA {plan.cuda} · Python "
        f"{plan.python} · {code}",
        f"{len(record.built)} of {len(record.requested)} extensions asked for"
        + (", loaded without a GPU; that they run is not proven yet" if made.is_image else ""),
    ]
    if made.is_image:
        gpu = Path("/dev/nvidiactl").exists()
        lines += [f"next    docker run --rm {'--gpus all ' if gpu else ''}{made.names[0]} verify"
                  + ("" if gpu else "   (with a GPU: add --gpus all)")]  # fmt: skip
    else:
        lines += [f"next    apexlab verify --level static --wheel {shlex.quote(made.names[0])}"]
    return "\n".join(lines)
