"""The whole page. Everything is in it: without a script all cells are there to read, and the script
only shows one at a time. Pure."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping
from importlib import resources
from string import Template
from xml.etree import ElementTree as ET

from apexlab.build import nearest
from apexlab.build.publish.tags import newest
from apexlab.build.rows import Cell, Matrix, minor, numbers
from apexlab.build.site import words
from apexlab.build.site.cell import add_cell
from apexlab.build.site.elements import link, put, region, row
from apexlab.build.site.gpus import GPUS
from apexlab.build.site.published import slug_of
from apexlab.build.site.records import Shown

TITLE = "apexlab: images with NVIDIA Apex that was verified"
DEMO = ("Demonstration: what is marked as a stand-in is no Apex, and no image for use. It shows "
        "how this page works.")
GENERATOR = "apexlab site"
_HEAD = ("cell", "image", "proof", "Python", "system", "Apex", "built for", "evidence")


def page(matrix: Matrix, records: Mapping[str, Shown], demo: bool) -> str:
    """The page for the cells of `matrix`; `records` by the cell's name."""
    body = ET.Element("body")
    main = put(body, "main")
    _header(main, matrix, records, demo)
    _chooser(main, matrix)
    _table(main, matrix, records)
    cells = put(main, "section", id="cells", aria_labelledby="cells-title")
    put(cells, "h2", "Each image", id="cells-title")
    for cell in matrix.cells:
        add_cell(cells, matrix, cell, records.get(slug_of(cell)))
    _missing(main, matrix)
    put(body, "footer", "Written by apexlab site from the matrix and from the records of what was "
                        "published. This page loads nothing from elsewhere.")
    return _document(body)


def _document(body: ET.Element) -> str:
    here = resources.files("apexlab.build.site")
    script = (here / "choose.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return Template((here / "page.html").read_text(encoding="utf-8")).substitute(
        title=html.escape(TITLE), generator=GENERATOR, script=script, digest=digest,
        body=str(ET.tostring(body, encoding="utf-8", method="html"), "utf-8").removesuffix(
            "</body>"))


def _header(main: ET.Element, matrix: Matrix, records: Mapping[str, Shown], demo: bool) -> None:
    place = put(main, "header")
    if demo:
        put(place, "p", DEMO, class_="banner", role="note")
    put(place, "h1", "Find the image for your torch, CUDA and GPU")
    count = sum(not one.stand_in for one in records.values())
    put(place, "p", "Images with NVIDIA Apex compiled from source. An image gets its tag only "
                    "after its very digest was verified; here is what was proven of each. "
                    f"{count} of {len(matrix.cells)} cells are published.", class_="lead")


def _chooser(main: ET.Element, matrix: Matrix) -> None:
    """Hidden until the script that it needs runs."""
    answer = put(main, "section", id="answer", hidden="hidden", aria_labelledby="answer-title")
    put(answer, "h2", "Choose, and see the image", id="answer-title", class_="unseen")
    form = put(answer, "form", id="choose")
    first = newest(matrix)
    _select(form, "torch", "PyTorch", _torches(matrix), minor(first.torch))
    _select(form, "cuda", "CUDA", _cudas(matrix), first.cuda)
    field = _select(form, "gpu", "GPU", [], "")
    put(field, "option", "any", value="")
    for gpu in GPUS:
        put(field, "option", f"{gpu.names} ({gpu.capability})", value=gpu.capability)
    put(answer, "div", id="said", role="status")


def _select(form: ET.Element, name: str, label: str, values: list[str], chosen: str) -> ET.Element:
    place = put(form, "div")
    put(place, "label", label, for_=f"choose-{name}")
    field = put(place, "select", name=name, id=f"choose-{name}")
    for value in values:
        option = put(field, "option", value, value=value)
        if value == chosen:
            option.set("selected", "selected")
    return field


def _torches(matrix: Matrix) -> list[str]:
    return sorted({minor(wheel.torch) for wheel in matrix.wheels}, key=numbers, reverse=True)


def _cudas(matrix: Matrix) -> list[str]:
    return sorted({toolkit.cuda for toolkit in matrix.toolkits}, key=numbers, reverse=True)


def _table(main: ET.Element, matrix: Matrix, records: Mapping[str, Shown]) -> None:
    place = put(main, "section", aria_labelledby="all-title")
    put(place, "h2", "All cells", id="all-title")
    put(place, "p", "Evidence is what is known of a cell beside its published image: "
                    + "; ".join(f"{word}: {text}" for word, text in words.EVIDENCE.items()) + ".")
    table = put(region(place, "All cells"), "table")
    row(put(table, "thead"), _HEAD, "th")
    body = put(table, "tbody")
    for cell in reversed(matrix.cells):
        line = row(body, ("", *_fields(cell, records.get(slug_of(cell)))))
        link(line[0], f"torch {cell.torch} · CUDA {cell.cuda}", f"#{slug_of(cell)}")


def _fields(cell: Cell, shown: Shown | None) -> tuple[str, ...]:
    image, proof = words.NOT_YET, "none"
    if shown is not None:
        image, proof = words.tag_of(shown), words.in_short(shown)
        if shown.stand_in:
            image, proof = f"{image} ({words.STAND_IN})", f"{words.STAND_IN}: {proof}"
    archs = " ".join(str(arch) for arch in cell.archs)
    return (image, proof, cell.python, cell.os, cell.ref[:8], archs, cell.evidence)


def _missing(main: ET.Element, matrix: Matrix) -> None:
    """Why each other pair is not built, and what is near it."""
    place = put(main, "section", aria_labelledby="missing-title")
    put(place, "h2", "Other pairs", id="missing-title")
    details = put(place, "details")
    put(details, "summary", "Why a torch and a CUDA are not here together, and what is near")
    list_ = put(details, "ul")
    there = {slug_of(cell) for cell in matrix.cells}
    for torch in _torches(matrix):
        for cuda in _cudas(matrix):
            if f"torch{torch}-cuda{cuda}" not in there:
                _pair(list_, matrix, torch, cuda)


def _pair(list_: ET.Element, matrix: Matrix, torch: str, cuda: str) -> None:
    item = put(list_, "li", id=f"no-torch{torch}-cuda{cuda}")
    why, _, _ = nearest.no_cell(matrix, torch, cuda).partition("\n")
    put(item, "strong", f"torch {torch} with CUDA {cuda}").tail = f" is not here. {why} Nearest: "
    for number, cell in enumerate(nearest.near(matrix, torch, cuda)):
        if number:
            item[-1].tail = " or "
        link(item, f"torch {cell.torch} · CUDA {cell.cuda}", f"#{slug_of(cell)}").tail = "."
