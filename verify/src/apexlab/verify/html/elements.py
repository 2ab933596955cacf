"""What pages are built from: a tree of elements, so that every name and message is escaped when it
is written. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.verify.render import printable

Cell = str | ET.Element
_BRIEF, _NAME = 16, 34  # letters of a cell, and of a row's name, that stay on one line


def add(parent: ET.Element, tag: str, text: str = "", style: str = "", **attributes: str,
        ) -> ET.Element:
    """A new element under `parent`; `style` is its class, `aria_label="x"` its aria-label,
    `for_="x"` its for."""
    new = ET.SubElement(parent, tag, {"class": style} if style else {})
    for key, value in attributes.items():
        new.set(key.rstrip("_").replace("_", "-"), printable(value))
    new.text = printable(text) or None
    return new


def element(tag: str, text: str = "", style: str = "", **attributes: str) -> ET.Element:
    """One without a parent: for a cell of `table`, or for the head."""
    return add(ET.Element("div"), tag, text, style, **attributes)


def link(parent: ET.Element, text: str, target: str) -> ET.Element:
    """A link within the page or to a file beside it; `target` is never taken from what is shown."""
    return add(parent, "a", text, href=target)


def section(parent: ET.Element, name: str, title: str) -> ET.Element:
    place = add(parent, "section", id=name, aria_labelledby=f"{name}-title")
    add(place, "h2", title, id=f"{name}-title")
    return place


def details(parent: ET.Element, summary: str) -> ET.Element:
    place = add(parent, "details")
    add(place, "summary", summary)
    return place


def items(parent: ET.Element, texts: Iterable[str]) -> None:
    place = add(parent, "ul")
    for text in texts:
        add(place, "li", text)


def pairs(parent: ET.Element, rows: Iterable[tuple[str, str]], code: Iterable[str] = ()) -> None:
    """A list of names and values; what has no value is left out. `code` are the names whose values
    are to be copied as they are."""
    place, as_code = add(parent, "dl"), set(code)
    for name, value in rows:
        if value:
            add(place, "dt", name)
            where = add(place, "dd", "" if name in as_code else value)
            if name in as_code:
                add(where, "code", value)


def code_block(parent: ET.Element, label: str, lines: Iterable[str]) -> None:
    """Commands to copy. What is wider than the screen scrolls, by keyboard too."""
    place = add(parent, "pre", tabindex="0", role="group", aria_label=label)
    # Each line by itself, since what is not printable in them is shown and not obeyed.
    add(place, "code").text = "\n".join(printable(line) for line in lines)


def data(parent: ET.Element, summary: str, value: Any) -> None:
    """A document as it is, behind its summary."""
    # JSON escapes control characters itself.
    code_block(details(parent, summary), "As JSON", json.dumps(value, indent=2).split("\n"))


def frame(parent: ET.Element, label: str) -> ET.Element:
    """What a table wider than the screen scrolls inside, which the keyboard can reach."""
    return add(parent, "div", style="scroll", role="group", tabindex="0", aria_label=label)


def table(parent: ET.Element, label: str, columns: Sequence[str], rows: Iterable[Iterable[Cell]],
          numbers: Iterable[int] = ()) -> None:
    """The first cell of a row is its heading; `numbers` are the columns to align at the right."""
    place = add(frame(parent, label), "table")
    right = set(numbers)
    head = add(add(place, "thead"), "tr")
    for number, column in enumerate(columns):
        add(head, "th", column, "number" if number in right else "", scope="col")
    body = add(place, "tbody")
    for cells in rows:
        row = add(body, "tr")
        for number, cell in enumerate(cells):
            if number:
                brief = isinstance(cell, str) and len(cell) <= _BRIEF
                made = add(row, "td", style="number" if number in right else
                           "brief" if brief else "")
            else:
                made = add(row, "th", style="brief" if _letters(cell) <= _NAME else "",
                           scope="row")
            if isinstance(cell, str):
                made.text = printable(cell) or None
            else:
                made.append(cell)


def _letters(cell: Cell) -> int:
    return len(cell if isinstance(cell, str) else "".join(cell.itertext()))
