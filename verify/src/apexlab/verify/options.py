"""The options of verify's commands, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from apexlab.verify.arch import KNOWN, Arch, parse_archs
from apexlab.verify.errors import ApexlabError
from apexlab.verify.extensions import KNOWN_NAMES
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
        if (archs[0].major, archs[0].minor) not in KNOWN:
            known = ", ".join(f"{major}.{minor}" for major, minor in KNOWN)
            self.fail(f"No GPU has the compute capability {value}. Known are {known}.", param, ctx)
        return archs[0]


class ExtensionType(_ParamType):
    """The name of an extension module, such as amp_C."""

    name = "EXT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text = str(value)
        if not text.isidentifier():
            self.fail(f"{text!r} is not the name of an extension. Names look like amp_C.", param,
                      ctx)
        if (name := text.removeprefix("_")) not in KNOWN_NAMES:
            import difflib  # late: only a wrong name needs it

            near = difflib.get_close_matches(name, KNOWN_NAMES, n=3)
            meant = f" Did you mean {' or '.join(near)}?" if near else ""
            self.fail(f"No version of Apex has an extension {text!r}.{meant} The names are in "
                      "verify/README.md.", param, ctx)
        return text


_file = click.Path(exists=True, dir_okay=False, path_type=Path)
_folder = click.Path(exists=True, file_okay=False, path_type=Path)
_written = click.Path(path_type=Path)  # whether it can be written is checked by the command

level = click.option(
    "--level", type=click.Choice(LEVELS), default=RUN, show_default=True,
    help="How far to go: read the files, import them, or run their kernels on every visible GPU.")
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
model = click.option(
    "--model", metavar="PKG:FACTORY",
    help="Count what of a training step of your own model was Apex's: FACTORY() gives (model, "
         "optimizer, step).")
image_digest = click.option(
    "--image-digest", metavar="sha256:...", envvar="APEXLAB_IMAGE_DIGEST", show_envvar=True,
    help="The digest by which this image was started: the report carries it, for publishing.")
as_json = click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
junit = click.option(
    "--junit", type=_written, metavar="FILE", help="Write the report as JUnit XML, too.")
html = click.option(
    "--html", type=_written, metavar="FILE", help="Write the report as one HTML page, too.")
allow_no_gpu = click.option(
    "--allow-no-gpu", is_flag=True, help="Exit 0 when all that is lacking is a GPU.")
with_kernels = click.option(
    "--kernels", "with_kernels", is_flag=True, help="Add the names of the kernels, per target.")
