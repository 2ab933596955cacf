"""Charts as SVG elements for a page: drawn by matplotlib, coloured by the page.

matplotlib draws with a stand-in for each colour role, which becomes a CSS variable afterwards, so
that one drawing serves light, dark and paper. Text stays text in the page's own font. Nothing of it
depends on the time or on other charts: equal input gives equal text, and no id is used twice.
"""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from apexlab.verify.render import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH = 400.0  # units of the drawing; near what a phone shows, so that text stays readable
ROLES = ("ink", "soft", "line", "back", "band", "fast", "slow", "same",
         "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7")  # fmt: skip
SERIES = tuple(role for role in ROLES if re.fullmatch(r"c\d", role))
MARKERS = "os^DvPX*"
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++", "oo", "--")
_STAND_IN = re.compile(r"#fe([0-9a-f]{2})01")
_REFERENCE = re.compile(r"#([A-Za-z_][\w-]*)")
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_FAMILY = re.compile(r"font-family: [^;]*; ?")
_FONT = re.compile(r"font: (?:(\w+) )?(\d[\d.]*px) [^;]*")
_NUMBERS = frozenset({"d", "x", "y", "width", "height", "transform", "points", "viewBox"})


@dataclass(frozen=True)
class Chart:
    """`title` says the finding, `axis` what is drawn in which unit; `columns` and `rows` are the
    same figures as a table, for who cannot or will not see a drawing."""

    name: str
    title: str
    axis: str
    drawing: ET.Element
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def colour(role: str) -> str:
    """What matplotlib is given for a colour of the page."""
    return f"#fe{ROLES.index(role):02x}01"


@contextmanager
def style(name: str) -> Iterator[None]:
    """matplotlib's settings while a chart of this name is made and written."""
    # It tells of a home that it cannot write to, and of letters that its own font lacks: neither
    # matters, for the text is drawn by the browser.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    import matplotlib

    ink, soft, line = colour("ink"), colour("soft"), colour("line")
    with matplotlib.rc_context({
        "svg.fonttype": "none", "svg.hashsalt": name, "font.size": 11.0, "text.color": ink,
        "axes.edgecolor": line, "axes.labelcolor": soft, "axes.facecolor": "none",
        "axes.linewidth": 0.8, "axes.spines.top": False, "axes.spines.right": False,
        "axes.spines.left": False, "axes.axisbelow": True, "axes.grid": True,
        "axes.grid.axis": "x", "axes.unicode_minus": False, "figure.facecolor": "none",
        "grid.color": line, "grid.linewidth": 0.6, "xtick.color": soft, "ytick.color": soft,
        "xtick.major.size": 0.0, "ytick.major.size": 0.0, "hatch.linewidth": 0.7,
        "legend.frameon": False, "legend.fontsize": 10.5, "text.parse_math": False,
        "text.usetex": False, "path.simplify": True,
    }), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")
        yield


def figure(height: float) -> Figure:
    """A new figure, `WIDTH` wide; `height` in the same units."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    made = Figure(figsize=(WIDTH / 72, height / 72), dpi=72)
    FigureCanvasSVG(made)
    return made


def place(height: float, top: float, bottom: float, left: float = 6, right: float = 10,
          ) -> tuple[float, float, float, float]:
    """Where the axes are, for `Figure.add_axes`: the margins in units of the drawing."""
    return (left / WIDTH, bottom / height, 1 - (left + right) / WIDTH,
            1 - (top + bottom) / height)


def drawing(name: str, made: Figure) -> ET.Element:
    """The `<svg>` of a figure. `name` keeps its ids apart from those of other charts."""
    file = io.StringIO()
    made.savefig(file, format="svg", metadata=dict.fromkeys(
        ("Date", "Creator", "Format", "Type")))
    text = _STAND_IN.sub(lambda found: f"var(--{ROLES[int(found[1], 16)]})", file.getvalue())
    # Its own writing, with every text made printable before.
    return _clean(ET.fromstring(text[text.index("<svg"):]), name)  # noqa: S314


def _clean(root: ET.Element, name: str) -> ET.Element:
    """Ids that something refers to are kept, with the name before them; namespaces, the drawing's
    own style sheet (which would reach the whole page) and needless digits go."""
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    used = {found for each in root.iter() for key, value in each.items() if not key.endswith("id")
            for found in _REFERENCE.findall(value)}
    for each in root.iter():
        if each.get("transform", "").startswith("rotate(-0 "):
            del each.attrib["transform"]
        each.tag = each.tag.rpartition("}")[2]
        each.attrib = {key.rpartition("}")[2]: _value(key, value, name, used)
                       for key, value in each.items() if key != "id" or value in used}
        each.text = printable(each.text.strip()) if each.text and each.text.strip() else None
        each.tail = "\n"
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    return root


def _value(key: str, value: str, name: str, used: set[str]) -> str:
    if key == "id":
        return f"{name}-{value}"
    if key in _NUMBERS:
        value = _DECIMALS.sub(r"\1", " ".join(value.split()))
    value = _REFERENCE.sub(lambda found: f"#{name}-{found[1]}" if found[1] in used else found[0],
                           value)
    if key != "style":
        return value
    return _FAMILY.sub("", _FONT.sub(
        lambda font: f"font-size: {font[2]}; font-weight: {font[1] or 'normal'}", value))
