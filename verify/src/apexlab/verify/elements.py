"""What the HTML pages are built from: a tree of elements, so that every name and message is escaped
when it is written. Pure.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from importlib import resources
from string import Template
from xml.etree import ElementTree as ET

from apexlab.verify.render import printable
from apexlab.verify.report import ERROR, FALLBACK, INCOMPLETE, WARNING

COLOURS = {
    "ok": "good", "proven": "good", "present": "good", "loaded": "good",
    "broken": "bad", "absent": "bad", ERROR: "bad", "wrong-numbers": "bad",
    FALLBACK: "mid", INCOMPLETE: "mid", WARNING: "mid", "blind": "mid",
}  # fmt: skip
NUMBERS = ("kernels", "error", "limit", "count", "launches", "time")
# On a phone these cells sit side by side.
BRIEF = (*NUMBERS, "status", "type", "GPU", "verdict", "used as", "from", "driver")


def document(title: str, body: ET.Element) -> str:
    """The whole page: it needs no network and no script."""
    template = resources.files("apexlab.verify") / "page.html"
    return Template(template.read_text(encoding="utf-8")).substitute(
        title=html.escape(printable(title)),
        body=str(ET.tostring(body, encoding="utf-8", method="html"), "utf-8"))


def add(parent: ET.Element, tag: str, text: str = "", style: str = "", label: str = "",
        ) -> ET.Element:
    """A new element under `parent`; `style` is its class."""
    attributes = {"class": style, "data-label": label}
    new = ET.SubElement(parent, tag, {key: value for key, value in attributes.items() if value})
    new.text = printable(text) or None
    return new


def add_pairs(parent: ET.Element, pairs: Iterable[tuple[str, str]]) -> None:
    """A list of names and values; what has no value is left out."""
    place = add(parent, "dl")
    for name, value in pairs:
        if value:
            add(place, "dt", name)
            add(place, "dd", value)


def add_table(parent: ET.Element, columns: tuple[str, ...], rows: Iterable[Iterable[ET.Element]],
              ) -> None:
    """A table of cells made by `make_cell`; on a phone each row becomes a card with labels."""
    table = add(parent, "table")
    head = add(add(table, "thead"), "tr")
    for column in columns:
        add(head, "th", column, "number" if column in NUMBERS else "")
    place = add(table, "tbody")
    for cells in rows:
        row = add(place, "tr")
        for column, cell in zip(columns, cells, strict=True):
            cell.set("data-label", column)
            if column in BRIEF:
                cell.set("class", f"{cell.get('class', '')} brief".strip())
            row.append(cell)


def make_cell(text: str, style: str = "", tag: str = "") -> ET.Element:
    """A table cell; with `tag` its text sits in an element of its own."""
    cell = ET.Element("td", {"class": style} if style else {})
    if tag:
        add(cell, tag, text)
    else:
        cell.text = printable(text) or None
    return cell
