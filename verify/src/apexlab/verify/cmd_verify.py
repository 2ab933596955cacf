"""`apexlab verify`: judge an installed Apex or a wheel."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from apexlab.verify import options
from apexlab.verify.arch import Arch
from apexlab.verify.cmd_merge import merge
from apexlab.verify.errors import OK, ApexlabError, UsageError, worst
from apexlab.verify.report import RUN, Report
from apexlab.verify.site import Subject


class Verify(click.Group):
    """`verify` itself, which is a command and needs no subcommand."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args[0] not in self.commands:
            raise UsageError(f"verify takes no argument {args[0]!r}: what is judged is named by "
                             "--site or --wheel. `apexlab verify --help` says what there is.")
        return super().resolve_command(ctx, args)


@click.group(cls=Verify, invoke_without_command=True, subcommand_metavar="[merge DIR]")
@options.level
@options.wheel
@options.site
@options.record
@options.arch
@options.require
@options.model
@options.as_json
@options.junit
@options.html
@options.allow_no_gpu
@options.image_digest
@click.pass_context
def verify(
    ctx: click.Context, level: str, wheel: Path | None, site: Path | None,
    record_file: Path | None, arch: Arch | None, require: tuple[str, ...], model: str | None,
    as_json: bool, junit: Path | None, html: Path | None, allow_no_gpu: bool,
    image_digest: str | None,
) -> int:
    """Judge an installed Apex, or a wheel: present, fitting, loading, really run.

    What is expected comes from the build record; without one from --require; without both it is
    the profile core. Exit codes: 0 ok, 1 a problem was found, 5 a call ran torch's code instead of
    Apex's, 4 not everything asked for could be checked here (no GPU).
    """
    if ctx.invoked_subcommand is not None:
        _check_alone(ctx)
        return OK
    # Late, so that --help stays quick.
    from apexlab.verify import check, output

    if wheel is not None and site is not None:
        raise UsageError("--wheel and --site name two things to judge. Give one of them.")
    if junit is not None and html is not None and junit.resolve() == html.resolve():
        raise UsageError("--junit and --html name the same file. Name two.")
    for path in filter(None, (junit, html)):
        output.check_writable(path)
    if model is not None and level != RUN:
        raise UsageError(f"--model runs a training step, and --level {level} runs nothing. Leave "
                         "one of them out.")
    image = _image(image_digest, wheel, site)
    created = datetime.now(timezone.utc).isoformat(timespec="seconds")
    started = time.monotonic()
    with _subject(wheel, site, record_file) as subject:
        report = check.check(subject, check.Options(
            level=level, require=require, arch=arch, allow_no_gpu=allow_no_gpu, model=model))
    if report.seconds is None:
        report = replace(report, seconds=round(time.monotonic() - started, 3))
    report = replace(report, image=image, created=created)
    return _deliver(report, as_json, ctx.color, junit, html)


def _check_alone(ctx: click.Context) -> None:
    """The options of verify say nothing to a subcommand."""
    for name in ctx.params:
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = next(one.opts[0] for one in ctx.command.params if one.name == name)
            raise UsageError(f"{option} is an option of verify itself, and means nothing to "
                             f"{ctx.invoked_subcommand}. Options of {ctx.invoked_subcommand} come "
                             "behind its name.")


def _image(digest: str | None, wheel: Path | None, site: Path | None) -> str | None:
    """The digest for the report; an empty variable means none."""
    if not digest:
        return None
    if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
        raise UsageError(f"--image-digest {digest!r} is not the digest of an image: sha256: and 64 "
                         "hexadecimal digits, as docker prints it after a push.")
    if wheel is not None or site is not None:
        raise UsageError("--image-digest says in which image this environment is judged; with "
                         "--wheel or --site something else is. Leave it out.")
    return digest


def _deliver(report: Report, as_json: bool, colour: bool | None, junit: Path | None,
             html: Path | None) -> int:
    """Hand the report out in every form that is wanted; the exit code. A form that cannot be
    written keeps no other back, and no verdict either."""
    from apexlab.verify import output, render

    def to_stdout() -> None:
        output.write(report.to_json() if as_json else render.text(report, None, colour))

    ways = [to_stdout]
    if html is not None:
        ways.insert(0, lambda: output.write_file(html, _page(report)))
    if junit is not None:
        ways.insert(0, lambda: output.write_file(junit, _junit(report)))
    failed: list[ApexlabError] = []
    for deliver in ways:
        try:
            deliver()
        except ApexlabError as error:
            failed.append(error)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        _tell_github(report)
    for lost in failed:
        output.complain(f"apexlab: {lost}")
    return worst([report.exit_code, *(error.exit_code for error in failed)])


def _junit(report: Report) -> str:
    from apexlab.verify.junit import junit

    return junit(report)


def _page(report: Report) -> str:
    from apexlab.verify.page import page

    return page(report)


def _tell_github(report: Report) -> None:
    """Annotations on stderr, which Actions reads as well, and the step's summary."""
    from apexlab.verify import github, output

    if commands := github.workflow_commands(report):
        output.complain(commands.rstrip("\n"))
    place = os.environ.get("GITHUB_STEP_SUMMARY")
    if not place:
        return
    path = Path(place)
    try:
        there = path.stat().st_size if path.exists() else 0
        output.append(path, github.step_summary(report, github.SUMMARY_BYTES - there))
    except (OSError, ApexlabError) as error:
        # An extra of the place where this runs: its loss changes no exit code.
        output.complain(f"apexlab: the step's summary is lost: {error}")


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


verify.add_command(merge)
