"""`apexlab verify`: judge an installed Apex or a wheel."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from apexlab.verify import options
from apexlab.verify.arch import Arch
from apexlab.verify.errors import UsageError
from apexlab.verify.site import Subject


@click.command()
@options.level
@options.wheel
@options.site
@options.record
@options.arch
@options.require
@options.as_json
@options.allow_no_gpu
@click.pass_context
def verify(
    ctx: click.Context, level: str, wheel: Path | None, site: Path | None,
    record_file: Path | None, arch: Arch | None, require: tuple[str, ...], as_json: bool,
    allow_no_gpu: bool,
) -> int:
    """Judge an installed Apex, or a wheel: present, fitting, loading.

    What is expected comes from the build record; without one from --require; without both it is
    the profile core. Exit codes: 0 ok, 1 a problem was found, 4 not everything asked for could be
    checked here (no GPU).
    """
    # Late, so that --help stays quick.
    from apexlab.verify import check, output, render

    if wheel is not None and site is not None:
        raise UsageError("--wheel and --site name two things to judge. Give one of them.")
    started = time.monotonic()
    with _subject(wheel, site, record_file) as subject:
        report = check.check(subject, check.Options(
            level=level, require=require, arch=arch, allow_no_gpu=allow_no_gpu))
    if as_json:
        output.write(report.to_json())
    else:
        output.write(render.text(report, time.monotonic() - started, ctx.color))
    return report.exit_code


@contextmanager
def _subject(wheel: Path | None, folder: Path | None, record_file: Path | None,
             ) -> Iterator[Subject]:
    from apexlab.verify import site
    from apexlab.verify import wheel as wheels
    from apexlab.verify.record import read_record

    record = read_record(record_file) if record_file is not None else None
    where = str(record_file) if record_file is not None else None
    if wheel is not None:
        with wheels.unpacked(wheel, record, where) as subject:
            yield subject
    elif folder is not None:
        yield site.folder_site(folder, record, where)
    else:
        yield site.running_site(record, where)
