"""What the page is built from: a tree of elements, so that every value is escaped when it is
written. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from xml.etree import ElementTree as ET

from apexlab.verify.elements import add
from apexlab.verify.render import printable

__all__ = ["add", "code_block", "link", "pairs", "put", "region", "row"]


def put(parent: ET.Element, tag: str, text: str = "", **attributes: str) -> ET.Element:
    """A new element; a trailing `_` of an attribute's name is dropped, others become `-`."""
    new = ET.SubElement(parent, tag, {
        name.rstrip("_").replace("_", "-"): printable(value)
        for name, value in attributes.items()})
    new.text = printable(text) or None
    return new


def link(parent: ET.Element, text: str, target: str) -> ET.Element:
    """A link within the site; `target` is made here and never taken from a record."""
    return put(parent, "a", text, href=target)


def code_block(parent: ET.Element, label: str, lines: Iterable[str]) -> None:
    """Commands to copy. What is wider than the screen scrolls, by keyboard too."""
    place = put(parent, "pre", tabindex="0", role="group", aria_label=label)
    # Each line by itself, since what is not printable in them is shown and not obeyed.
    add(place, "code").text = "\n".join(printable(line) for line in lines)


def pairs(parent: ET.Element, given: Iterable[tuple[str, str, bool]]) -> None:
    """A list of names and values, some of them code; what has no value is left out."""
    place = put(parent, "dl")
    for name, value, is_code in given:
        if value:
            put(place, "dt", name)
            put(put(place, "dd"), "code" if is_code else "span", value)


def region(parent: ET.Element, label: str) -> ET.Element:
    """A table's place: it scrolls sideways, and takes the keyboard to do so."""
    return put(parent, "div", class_="scroll", tabindex="0", role="group", aria_label=label)


def row(parent: ET.Element, cells: Iterable[str], tag: str = "td") -> ET.Element:
    """A table row of plain texts; the first is the row's head, or each is a column's."""
    place = put(parent, "tr")
    for number, text in enumerate(cells):
        if tag == "th":
            put(place, "th", text, scope="col")
        elif number == 0:
            put(place, "th", text, scope="row")
        else:
            put(place, tag, text)
    return place
