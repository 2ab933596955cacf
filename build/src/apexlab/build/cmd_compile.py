"""`apexlab compile`: the command line of the compile driver, and all that it prints."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.build import options
from apexlab.build.errors import files_in_words
from apexlab.verify.errors import OK, UsageError

if TYPE_CHECKING:
    from apexlab.build.driver import Outcome


@click.command("compile")
@click.argument("source", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(file_okay=False, path_type=Path),
              help="The folder for the wheel, record.json and build.log.")
@click.option("--ref", metavar="COMMIT",
              help="The full commit that SOURCE is, where it is not a git checkout.")
@click.option("--url", help="Where SOURCE came from; goes into the record.")
@options.archs
@options.profile
@options.jobs
@options.memory
@click.option("--images", metavar="JSON",
              help="The images this runs in, with digests; goes into the record.")
@options.as_json
@files_in_words()
def compile_(
    source: Path, out: Path, ref: str | None, url: str | None, archs: str | None, profile: str,
    jobs: int | None, memory: str | None, images: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Compile Apex from a source tree into a wheel that was checked.

    SOURCE is a folder with setup.py, apex/ and csrc/. It is copied, never written to. Needs nvcc
    and a CUDA build of torch in this Python, and no GPU.
    """
    from apexlab.build import driver, prepare
    from apexlab.build.display import Display
    from apexlab.build.limits import parse_size
    from apexlab.build.progress import Tracker
    from apexlab.verify.arch import parse_archs

    ask = prepare.Ask(
        source=source, out=out, ref=ref, url=url, profile=profile, jobs=jobs,
        archs=None if archs is None else parse_archs(archs),
        memory=None if memory is None else parse_size(memory),
        images=_parse_images(images),
    )  # fmt: skip
    prepared = prepare.prepare(ask)
    prepare.refuse(prepared)
    for line in prepare.describe(prepared):
        click.echo(line, err=True)
    for finding in prepared.findings:
        click.echo(f"warning {finding.message}", err=True)
    tracker = Tracker(len(prepared.request.extensions))
    with Display("compile") as display:

        def follow(line: str) -> None:
            if shown := tracker.feed(line, time.monotonic()):
                display.line(shown)

        outcome = driver.build(prepared, follow, tracker.seconds)
    click.echo(outcome.record.to_json() if as_json else _summary(outcome), nl=not as_json)
    return OK


def _parse_images(text: str | None) -> dict[str, Any]:
    try:
        images = json.loads(text or "{}")
    except ValueError as error:
        raise UsageError(f"--images is not JSON: {error}.") from error
    if not isinstance(images, dict):
        raise UsageError("--images must be a JSON object, such as "
                         '{"devel": {"name": "...", "digest": "sha256:..."}}.')
    return images


def _summary(outcome: Outcome) -> str:
    """Verdict first, then the evidence, then the next command."""
    record = outcome.record
    minutes, seconds = divmod(round(record.build["seconds"]), 60)
    size, path = outcome.wheel.stat().st_size / 1e6, shlex.quote(str(outcome.wheel))
    width = max(len(built.name) for built in record.built)
    gib = 1024**3
    rows = []
    for built in record.built:
        code = " ".join([*built.targets, *built.ptx]) or "C++ only"
        took = "" if built.seconds is None else f"{built.seconds:6.1f} s"
        rows.append(f"{built.name:{width}}  {built.bytes / 1e6:5.2f} MB {took}  {code}")
    return "\n".join([
        f"BUILT   {len(record.requested)} of {len(record.requested)} extensions asked for; the "
        f"wheel was opened and fits   {minutes}:{seconds:02} min",
        f"{record.short_source} · torch {record.torch['version']} · nvcc "
        f"{record.toolkit['nvcc']} · {record.toolkit['host_compiler']}",
        "",
        *rows,
        "",
        f"wheel   {outcome.wheel} ({size:.1f} MB)",
        f"memory  {record.build['memory_peak'] / gib:.1f} GiB at the peak, "
        f"{record.build['memory_limit'] / gib:.1f} GiB allowed",
        f"next    python -m pip install --no-deps --force-reinstall {path}",
        "        apexlab verify --level load",
    ])
