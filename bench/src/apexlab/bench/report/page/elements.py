"""The pieces of the page as elements, so that every text is escaped when it is written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as ET

from apexlab.bench.report.page.draw import Chart
from apexlab.verify.render import printable

Cell = str | ET.Element
_BRIEF, _NAME = 16, 34  # letters of a cell, and of a row's name, that stay on one line


def add(parent: ET.Element, tag: str, text: str = "", style: str = "", **attributes: str,
        ) -> ET.Element:
    """A new element under `parent`; `style` is its class, `aria_label="x"` its aria-label."""
    new = ET.SubElement(parent, tag, {"class": style} if style else {})
    for key, value in attributes.items():
        new.set(key.replace("_", "-"), printable(value))
    new.text = printable(text) or None
    return new


def element(tag: str, text: str = "", style: str = "") -> ET.Element:
    """One without a parent: for a cell of `table`."""
    return add(ET.Element("div"), tag, text, style)


def section(body: ET.Element, name: str, title: str) -> ET.Element:
    place = add(body, "section", id=name, aria_labelledby=f"{name}-title")
    add(place, "h2", title, id=f"{name}-title")
    return place


def pairs(parent: ET.Element, rows: Iterable[tuple[str, str]]) -> None:
    """A list of names and values; what has no value is left out."""
    place = add(parent, "dl")
    for name, value in rows:
        if value:
            add(place, "dt", name)
            add(place, "dd", value)


def items(parent: ET.Element, texts: Iterable[str]) -> None:
    place = add(parent, "ul")
    for text in texts:
        add(place, "li", text)


def details(parent: ET.Element, summary: str) -> ET.Element:
    place = add(parent, "details")
    add(place, "summary", summary)
    return place


def table(parent: ET.Element, label: str, columns: Sequence[str], rows: Iterable[Iterable[Cell]],
          numbers: Iterable[int] = ()) -> None:
    """The first cell of a row is its heading; `numbers` are the columns to align at the right.

    A table wider than the screen scrolls inside its own frame, which the keyboard can reach.
    """
    frame = add(parent, "div", style="scroll", role="region", tabindex="0", aria_label=label)
    place = add(frame, "table")
    right = set(numbers)
    head = add(add(place, "thead"), "tr")
    for number, column in enumerate(columns):
        add(head, "th", column, "number" if number in right else "", scope="col")
    body = add(place, "tbody")
    for cells in rows:
        row = add(body, "tr")
        for number, cell in enumerate(cells):
            brief = isinstance(cell, str) and len(cell) <= _BRIEF
            style = "number" if number in right else "brief" if brief else ""
            made = add(row, "td", style=style) if number else \
                add(row, "th", style="brief" if len(str(cell)) <= _NAME else "", scope="row")
            if isinstance(cell, str):
                made.text = printable(cell) or None
            else:
                made.append(cell)


def chart(parent: ET.Element, made: Chart, stand_in: bool = False) -> None:
    """The drawing with its finding above it and its figures below it. The word stand-in goes with
    every finding that its kernels had a part in."""
    title = made.title
    if stand_in:
        title = f"With the stand-in: {title[0].lower()}{title[1:]}"
    place = add(parent, "figure", id=f"chart-{made.name}")
    caption = add(place, "figcaption")
    add(caption, "strong", title)
    add(caption, "span", made.axis)
    drawing = made.drawing
    drawing.set("role", "img")
    drawing.set("aria-label", printable(f"{title}. {made.axis} The table below has the figures."))
    place.append(drawing)
    table(details(place, "The figures of this chart"), f"Figures: {title}", made.columns,
          made.rows, range(1, len(made.columns)))
