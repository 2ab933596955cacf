"""What the pages of verify share: the colours of verdicts, and tables that become cards on a phone.
Pure."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from xml.etree import ElementTree as ET

from apexlab.verify.html.document import document
from apexlab.verify.html.elements import add, element, frame
from apexlab.verify.report import ERROR, FALLBACK, INCOMPLETE, WARNING

COLOURS = {
    "ok": "good", "proven": "good", "present": "good", "loaded": "good",
    "broken": "bad", "absent": "bad", ERROR: "bad", "wrong-numbers": "bad",
    FALLBACK: "mid", INCOMPLETE: "mid", WARNING: "mid", "blind": "mid",
}  # fmt: skip
NUMBERS = ("kernels", "error", "limit", "count", "launches", "time")
# On a phone these cells sit side by side.
BRIEF = (*NUMBERS, "status", "type", "GPU", "verdict", "used as", "from", "driver")


def finished(title: str, body: ET.Element) -> str:
    """The whole page."""
    css = resources.files("apexlab.verify") / "cards.css"
    return document(title, body, css.read_text(encoding="utf-8"))


def add_finding(parent: ET.Element, severity: str, code: str, texts: Iterable[str]) -> None:
    """Something to say, in its colour: the word for it and its code, then each text that is not
    empty as a paragraph."""
    place = add(parent, "section", style=f"finding {COLOURS.get(severity, 'soft')}")
    head = add(place, "p")
    add(head, "span", severity, "word").tail = " "
    add(head, "code", code)
    for text in filter(None, texts):
        add(place, "p", text)


def add_cards(parent: ET.Element, label: str, columns: tuple[str, ...],
              rows: Iterable[Iterable[ET.Element]]) -> None:
    """A table of cells made by `make_cell`; on a phone each row becomes a card with labels."""
    table = add(frame(parent, label), "table")
    head = add(add(table, "thead"), "tr")
    for column in columns:
        add(head, "th", column, "number" if column in NUMBERS else "", scope="col")
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
    cell = element("td", "" if tag else text, style)
    if tag:
        add(cell, tag, text)
    return cell
