"""The options of verify's commands, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.verify.arch import Arch, parse_archs
from apexlab.verify.errors import ApexlabError
from apexlab.verify.report import LEVELS, RUN

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # generic for the type checker, but not at run time before 8.5


class ArchType(_ParamType):
    """One compute capability, such as 9.0."""

    name = "CC"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None,
                ) -> Arch:
        try:
            archs = parse_archs(str(value))
        except ApexlabError as error:
            self.fail(str(error), param, ctx)
        if len(archs) != 1 or archs[0].ptx:
            self.fail(f"{value!r} is not one GPU's architecture. Give one, such as 9.0.", param,
                      ctx)
        return archs[0]


class ExtensionType(_ParamType):
    """The name of an extension module, such as amp_C."""

    name = "EXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.isidentifier():
            self.fail(f"{text!r} is not the name of an extension. Names look like amp_C.", param,
                      ctx)
        return text


_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_folder = click.Path(exists=True, file_okay=False, path_type=Path)

level = click.option(
    "--level", type=click.Choice(LEVELS), default=RUN, show_default=True,
    help="How far to go: read the files, import them, or run their kernels. This version "
         "goes up to load, so run ends with 4.")
wheel = click.option("--wheel", type=_file, metavar="FILE", help="Judge a wheel.")
site = click.option(
    "--site", type=_folder, metavar="DIR",
    help="Judge the Apex in a site-packages folder instead of this environment's.")
record = click.option(
    "--record", "record_file", type=_file, metavar="FILE",
    help="The build record to judge against; found by itself where the build left it.")
arch = click.option(
    "--arch", type=ArchType(), help="Judge for a GPU of this compute capability, such as 9.0.")
require = click.option(
    "--require", type=ExtensionType(), multiple=True,
    help="An extension that has to be there; may be given several times.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
allow_no_gpu = click.option(
    "--allow-no-gpu", is_flag=True, help="Exit 0 when all that is lacking is a GPU.")
