"""A chart on the page."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from apexlab.bench.report.page.draw import Chart
from apexlab.verify.html.elements import add, details, table
from apexlab.verify.render import printable


def add_chart(parent: ET.Element, made: Chart, stand_in: bool = False) -> None:
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
