"""`python -m apexlab.verify.generate verify/README.md`: write the table of findings.

For the Makefile; a test fails when the page drifted.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from apexlab.verify import errors, extensions, markers
from apexlab.verify.findings import KINDS, LOST_LATER, NOT_BUILT
from apexlab.verify.report import ERROR, FALLBACK, INCOMPLETE

_EXIT = {ERROR: errors.PROBLEM, FALLBACK: errors.FALLBACK, INCOMPLETE: errors.CANNOT}
_FILLED = {"rebuild": "`make image TORCH=... CUDA=...`",
           "advice": f"{NOT_BUILT} Or: {LOST_LATER}"}
# What follows a word without a blank is there only sometimes: "and 3 more", "It said: ...".
_SOMETIMES = re.compile(r"(?<=[A-Za-z.})])\{[^{}]*\}")
_FIELD = re.compile(r"\{(\w+)(?::\w+)?\}")


def sections() -> dict[str, str]:
    """What stands between each pair of markers, by the name of the markers."""
    return {"findings": "\n".join(_findings()), "extensions": "\n".join(_extensions())}


def _findings() -> Iterator[str]:
    yield "| code | severity | exit | from level | what it says | what to do |"
    yield "|---|---|---|---|---|---|"
    for kind in KINDS:
        yield (f"| `{kind.code}` | {kind.severity} | {_EXIT.get(kind.severity, errors.OK)} | "
               f"{kind.level} | {_plain(kind.message)} | {_plain(kind.fix) or '-'} |")


def _plain(sentence: str) -> str:
    """A sentence with its fields as words in italics, fit for a table's cell."""
    for _ in range(2):  # a filled-in sentence has fields of its own
        sentence = _FIELD.sub(lambda field: _FILLED.get(field[1], field[0]), sentence)
    words = _SOMETIMES.sub("", sentence).replace("|", "\\|")
    return _FIELD.sub(lambda field: f"*{field[1].replace('_', ' ')}*", words)


def _extensions() -> Iterator[str]:
    yield "| extension | flag | serves | proof |"
    yield "|---|---|---|---|"
    for one in extensions.EXTENSIONS:
        yield f"| `{one.name}` | `--{one.flag}` | {one.api} | {one.proof} |"
    others = ", ".join(f"`{name}`" for name in extensions.CONTRIB)
    yield f"\nKnown by name, and judged up to `load`: {others}."


@click.command()
@click.argument("readme", type=click.Path(path_type=Path))
def main(readme: Path) -> None:
    """Write the generated tables into README between their markers."""
    try:
        if markers.rewrite(readme, sections()):
            click.echo(f"{readme}: the tables were rewritten", err=True)
    except errors.ApexlabError as error:
        click.echo(f"apexlab: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
