"""The folder of records behind the page: a folder for each cell, named like its tag.

    torch2.4-cuda12.4/published.json   what `apexlab publish --json` printed
    torch2.4-cuda12.4/verify.json      the report that reached the most, with the record in it
    torch2.4-cuda12.4/result.json      of the benchmark, and report.html beside it; may be missing

A page that shows one image's digest beside another one's proof is worse than none, so files that
do not belong together stop the whole site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema

from apexlab.build.errors import RefusedError
from apexlab.build.publish import evidence, reference
from apexlab.build.publish.decide import APEX, GOOD
from apexlab.build.publish.evidence import Measured, Verified
from apexlab.build.rows import Cell, Matrix, minor
from apexlab.build.site.published import SCHEMA, SHAPE, slug_of
from apexlab.verify.errors import CannotError

PUBLISHED, VERIFY, RESULT, REPORT = "published.json", "verify.json", "result.json", "report.html"


@dataclass(frozen=True)
class Shown:
    """What is known of the published image of a cell. `page` says that the benchmark's own page is
    there to link to."""

    slug: str
    published: Mapping[str, Any]
    verified: Verified
    measured: Measured | None
    page: bool

    @property
    def stand_in(self) -> bool:
        return bool(self.published["source"] != APEX)


def read(folder: Path, matrix: Matrix, demo: bool) -> tuple[dict[str, Shown], tuple[str, ...]]:
    """The records by cell, and the names of those left out because they are of no Apex. Raises
    CannotError, RefusedError."""
    cells = {slug_of(cell): cell for cell in matrix.cells}
    try:
        names = sorted(one.name for one in folder.iterdir() if (one / PUBLISHED).exists())
    except OSError as error:
        raise CannotError(f"{folder} cannot be read: {error.strerror}. Give the folder that has "
                          "one folder for each cell.") from error
    if unknown := [name for name in names if name not in cells]:
        raise RefusedError(f"{folder / unknown[0]} is no cell of the matrix. Name the folders as "
                           f"the tags are: {next(iter(cells))}; `apexlab matrix` lists them.")
    found = [_one(folder / name, cells[name]) for name in names]
    left = tuple(one.slug for one in found if one.stand_in and not demo)
    return {one.slug: one for one in found if one.slug not in left}, left


def _one(folder: Path, cell: Cell) -> Shown:
    published = evidence.read(folder / PUBLISHED)
    fault = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(SHAPE).iter_errors(published))
    if fault is not None:
        raise RefusedError(f"{folder / PUBLISHED} is not what `apexlab publish --json` prints "
                           f"({SCHEMA}): {fault.json_path} {fault.message[:200]}.")
    reference.parse(f"{published['image']}@{published['digest']}")
    report = evidence.verified(evidence.read(folder / VERIFY), str(folder / VERIFY))
    result = folder / RESULT
    measured = evidence.measured(evidence.read(result), str(result)) if result.exists() else None
    shown = Shown(folder.name, published, report, measured, (folder / REPORT).exists())
    if wrong := _disagreement(shown, cell):
        raise RefusedError(f"The files in {folder} do not belong together: {wrong} Put there what "
                           "one run of `apexlab publish` was given and printed.")
    if shown.page:
        _check_page(folder / REPORT)
    return shown


def _disagreement(shown: Shown, cell: Cell) -> str:
    """What does not fit, as a sentence; "" for nothing."""
    said, report, result = shown.published, shown.verified, shown.measured
    if said["cell"] != shown.slug:
        return f"{PUBLISHED} is of {said['cell']}."
    if report.image != said["digest"]:
        return f"the report was made in {report.image}, and {said['digest']} was published."
    if report.record != said["record"]:
        return "the report was judged against another build record."
    if report.exit_code != 0 or report.level != said["level"] or report.level not in GOOD:
        return f"the report says {report.verdict} at the level {report.level}."
    if str(report.torch).partition("+")[0] != cell.torch or _cuda(report) != minor(cell.cuda):
        return f"the report saw torch {report.torch} with CUDA {_cuda(report)}."
    if report.document["record"]["source"] != said["source"]:
        return "they do not agree on what was compiled."
    if result is not None and (result.record != said["record"] or not result.complete):
        return "the benchmark was made with another build, or is not complete."
    return ""


def _cuda(report: Verified) -> str:
    return minor(str(report.document["environment"]["cuda"]))


class _Passive(HTMLParser):
    """Remembers the first thing in a page that would run or load something."""

    found = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("script", "iframe", "object", "embed", "form", "base", "link"):
            self.found = self.found or f"<{tag}>"
        if tag == "meta" and "refresh" in str(dict(attrs).get("http-equiv")).lower():
            self.found = self.found or "<meta refresh>"
        for name, value in attrs:
            away = name in ("src", "href", "xlink:href") and not (value or "").startswith("#")
            if name.startswith("on") or away:
                self.found = self.found or f"<{tag} {name}>"


def _check_page(path: Path) -> None:
    """The benchmark's page is served beside ours: it may neither run nor load anything."""
    parser = _Passive()
    parser.feed(path.read_text(encoding="utf-8", errors="replace"))
    if parser.found:
        raise RefusedError(f"{path} has {parser.found} in it, which no report of `apexlab bench` "
                           "has. Write it again with `apexlab bench report`.")
