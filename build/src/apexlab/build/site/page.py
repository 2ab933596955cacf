"""The whole page. Everything is in it: without a script all cells are there to read, and the script
only shows one at a time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from xml.etree import ElementTree as ET

from apexlab.build import nearest
from apexlab.build.publish.tags import newest
from apexlab.build.rows import Cell, Matrix, minor, numbers
from apexlab.build.site import words
from apexlab.build.site.cell import add_cell
from apexlab.build.site.gpus import GPUS
from apexlab.build.site.published import slug_of
from apexlab.build.site.records import Shown
from apexlab.verify.html.document import document
from apexlab.verify.html.elements import Cell as Field
from apexlab.verify.html.elements import add, details, element, link, section, table

TITLE = "apexlab: images with NVIDIA Apex that was verified"
DEMO = ("Demonstration: what is marked as a stand-in is no Apex, and no image for use. It shows "
        "how this page works.")
GENERATOR = "apexlab site"
_ABOUT = "Container images with NVIDIA Apex, and what was proven of each."
_HEAD = ("cell", "image", "proof", "Python", "system", "Apex", "built for", "evidence")


def page(matrix: Matrix, records: Mapping[str, Shown], demo: bool) -> str:
    """The page for the cells of `matrix`; `records` by the cell's name."""
    body = ET.Element("body")
    main = add(body, "main")
    _header(main, matrix, records, demo)
    _chooser(main, matrix)
    _table(main, matrix, records)
    cells = section(main, "cells", "Each image")
    for cell in matrix.cells:
        add_cell(cells, matrix, cell, records.get(slug_of(cell)))
    _missing(main, matrix)
    add(body, "footer", "Written by apexlab site from the matrix and from the records of what was "
                        "published. This page loads nothing from elsewhere.")
    return _document(body)


def _document(body: ET.Element) -> str:
    here = resources.files("apexlab.build.site")
    css, script = ((here / name).read_text(encoding="utf-8") for name in ("page.css", "choose.js"))
    return document(TITLE, body, css, script, (
        element("meta", name="generator", content=GENERATOR),
        element("meta", name="description", content=_ABOUT),
        element("meta", name="referrer", content="no-referrer"),
        element("link", rel="icon", href="data:,")))  # else a browser asks for one


def _header(main: ET.Element, matrix: Matrix, records: Mapping[str, Shown], demo: bool) -> None:
    place = add(main, "header")
    if demo:
        add(place, "p", DEMO, style="banner", role="note")
    add(place, "h1", "Find the image for your torch, CUDA and GPU")
    count = sum(not one.stand_in for one in records.values())
    add(place, "p", "Images with NVIDIA Apex compiled from source. An image gets its tag only "
                    "after its very digest was verified; here is what was proven of each. "
                    f"{count} of {len(matrix.cells)} cells are published.", style="lead")


def _chooser(main: ET.Element, matrix: Matrix) -> None:
    """Hidden until the script that it needs runs."""
    answer = section(main, "answer", "Choose, and see the image")
    answer.set("hidden", "hidden")
    answer[0].set("class", "unseen")
    form = add(answer, "form", id="choose")
    first = newest(matrix)
    _select(form, "torch", "PyTorch", _torches(matrix), minor(first.torch))
    _select(form, "cuda", "CUDA", _cudas(matrix), first.cuda)
    field = _select(form, "gpu", "GPU", [], "")
    add(field, "option", "any", value="")
    for gpu in GPUS:
        add(field, "option", f"{gpu.names} ({gpu.capability})", value=gpu.capability)
    add(answer, "div", id="said", role="status")


def _select(form: ET.Element, name: str, label: str, values: list[str], chosen: str) -> ET.Element:
    place = add(form, "div")
    add(place, "label", label, for_=f"choose-{name}")
    field = add(place, "select", name=name, id=f"choose-{name}")
    for value in values:
        option = add(field, "option", value, value=value)
        if value == chosen:
            option.set("selected", "selected")
    return field


def _torches(matrix: Matrix) -> list[str]:
    return sorted({minor(wheel.torch) for wheel in matrix.wheels}, key=numbers, reverse=True)


def _cudas(matrix: Matrix) -> list[str]:
    return sorted({toolkit.cuda for toolkit in matrix.toolkits}, key=numbers, reverse=True)


def _table(main: ET.Element, matrix: Matrix, records: Mapping[str, Shown]) -> None:
    place = section(main, "all", "All cells")
    add(place, "p", "Evidence is what is known of a cell beside its published image: "
                    + "; ".join(f"{word}: {text}" for word, text in words.EVIDENCE.items()) + ".")
    table(place, "All cells with their evidence", _HEAD, (
        _fields(cell, records.get(slug_of(cell))) for cell in reversed(matrix.cells)))


def _fields(cell: Cell, shown: Shown | None) -> Iterator[Field]:
    inside = words.inside(cell, shown)
    yield element("a", f"torch {cell.torch} · CUDA {cell.cuda}", href=f"#{slug_of(cell)}")
    if shown is None:
        yield from (words.NOT_YET, "none")
    elif shown.stand_in:
        yield f"{words.tag_of(shown)} ({words.STAND_IN})"
        yield f"{words.STAND_IN}: {words.in_short(shown)}"
    else:
        yield from (words.tag_of(shown), words.in_short(shown))
    yield from (inside.python, inside.system, inside.apex[:8], inside.archs, cell.evidence)


def _missing(main: ET.Element, matrix: Matrix) -> None:
    """Why each other pair is not built, and what is near it."""
    place = section(main, "missing", "Other pairs")
    list_ = add(details(place, "Why a torch and a CUDA are not here together, and what is near"),
                "ul")
    there = {slug_of(cell) for cell in matrix.cells}
    for torch in _torches(matrix):
        for cuda in _cudas(matrix):
            if f"torch{torch}-cuda{cuda}" not in there:
                _pair(list_, matrix, torch, cuda)


def _pair(list_: ET.Element, matrix: Matrix, torch: str, cuda: str) -> None:
    item = add(list_, "li", id=f"no-torch{torch}-cuda{cuda}")
    why, _, _ = nearest.no_cell(matrix, torch, cuda).partition("\n")
    add(item, "strong", f"torch {torch} with CUDA {cuda}").tail = f" is not here. {why} Nearest: "
    for number, cell in enumerate(nearest.near(matrix, torch, cuda)):
        if number:
            item[-1].tail = " or "
        link(item, f"torch {cell.torch} · CUDA {cell.cuda}", f"#{slug_of(cell)}").tail = "."
