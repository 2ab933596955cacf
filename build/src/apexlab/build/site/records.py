"""The folder of records behind the page: a folder for each cell, named like its tag.

    torch2.4-cuda12.4/published.json   what `apexlab publish --json` printed
    torch2.4-cuda12.4/verify.json      the report that reached the most, with the record in it
    torch2.4-cuda12.4/result.json      of the benchmark, and report.html beside it; may be missing

A page that shows one image's digest beside another one's proof is worse than none, so files that
do not belong together stop the whole site.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from apexlab.build.errors import RefusedError
from apexlab.build.publish import evidence, reference
from apexlab.build.publish.decide import APEX, GOOD
from apexlab.build.publish.evidence import Measured, Verified
from apexlab.build.rows import Cell, Matrix, minor
from apexlab.build.site import passive
from apexlab.build.site.published import SCHEMA, SHAPE, slug_of
from apexlab.verify.errors import CannotError
from apexlab.verify.record import Record, parse_record

PUBLISHED, VERIFY, RESULT, REPORT = "published.json", "verify.json", "result.json", "report.html"


@dataclass(frozen=True)
class Shown:
    """What is known of the published image of a cell. `page` is the benchmark's own page, to link
    to."""

    slug: str
    published: Mapping[str, Any]
    verified: Verified
    measured: Measured | None
    page: str | None = None

    @property
    def stand_in(self) -> bool:
        return bool(self.published["source"] != APEX)

    @property
    def record(self) -> Record:
        """The build record that the report was judged against."""
        return parse_record(json.dumps(self.verified.document["record"]), self.verified.where)

    def files(self) -> dict[str, str]:
        """What is known, as the files that it is kept in: name → content."""
        documents = {PUBLISHED: self.published, VERIFY: self.verified.document}
        if self.measured is not None:
            documents[RESULT] = self.measured.document
        texts = {name: json.dumps(one, indent=1) + "\n" for name, one in documents.items()}
        return texts if self.page is None else {**texts, REPORT: self.page}


def read(folder: Path, matrix: Matrix, demo: bool) -> tuple[dict[str, Shown], tuple[str, ...]]:
    """The records by cell, and the names of those left out because they are of no Apex. Raises
    CannotError, RefusedError."""
    cells = {slug_of(cell): cell for cell in matrix.cells}
    try:
        names = sorted(one.name for one in folder.iterdir() if os.path.lexists(one / PUBLISHED))
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
    published = _json(folder / PUBLISHED)
    fault = jsonschema.exceptions.best_match(
        jsonschema.Draft202012Validator(SHAPE).iter_errors(published))
    if fault is not None:
        raise RefusedError(f"{folder / PUBLISHED} is not what `apexlab publish --json` prints "
                           f"({SCHEMA}): {fault.json_path} {fault.message[:200]}.")
    reference.parse(f"{published['image']}@{published['digest']}")
    report = evidence.verified(_json(folder / VERIFY), str(folder / VERIFY))
    result, page = folder / RESULT, folder / REPORT
    measured = evidence.measured(_json(result), str(result)) if _is_there(result) else None
    shown = Shown(folder.name, published, report, measured,
                  passive.read(page) if measured and _is_there(page) else None)
    judge(shown, cell, f"The files in {folder}")
    return shown


def _json(path: Path) -> dict[str, Any]:
    _is_there(path)
    return evidence.read(path)


def _is_there(path: Path) -> bool:
    """Whether there is such a file. What is no plain file is none of ours: a link may lead to one
    that is not for everybody, and what is read here is shown to all. Raises RefusedError."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_file():
        raise RefusedError(f"{path} is a link, or no file. Copy there what it stands for.")
    return True


def judge(shown: Shown, cell: Cell, what: str) -> None:
    """Raise RefusedError where the parts of a record are not of one image, or not of this cell."""
    if wrong := _disagreement(shown, cell):
        raise RefusedError(f"{what} do not belong together: {wrong} `apexlab publish records` "
                           "collects what does.")


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
    # The patch version may be an older one than the matrix has by now.
    if minor(str(report.torch)) != minor(cell.torch) or _cuda(report) != minor(cell.cuda):
        return f"the report saw torch {report.torch} with CUDA {_cuda(report)}."
    if report.document["record"]["source"] != said["source"]:
        return "they do not agree on what was compiled."
    if result is not None and (result.record != said["record"] or not result.complete):
        return "the benchmark was made with another build, or is not complete."
    return ""


def _cuda(report: Verified) -> str:
    return minor(str(report.document["environment"]["cuda"]))
