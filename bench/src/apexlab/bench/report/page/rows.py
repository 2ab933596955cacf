"""The frame that most charts share: a row for each item, its name above its bar, words at the end.

A name above its bar, and not in a margin beside it, leaves the bar the whole width of a phone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from apexlab.bench.report.page.draw import HATCHES, SERIES, WIDTH, colour, figure, place
from apexlab.verify.render import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW, TOP, FOOT = 32.0, 8.0, 26.0  # units of the drawing
_APART, _LETTER = 38.0, 6.2  # least distance of two ticks; width of a letter
_RATIOS = (1, 2, 0.5, 4, 8, 16, 0.25, 1.5, 3, 6, 12, 0.7, 1.2, 0.8, 0.9, 1.1, 1.4, 1.3, 0.95, 1.05,
           0.98, 1.02, 0.99, 1.01)
BAR, UP, DOWN = 0.34, 0.2, 0.24  # of a row: a bar's thickness, where text and bar are


def frame(count: int, top: float = TOP) -> tuple[Figure, Axes]:
    """A figure for `count` rows. The first row is at the top; `top` leaves room for a legend."""
    height = top + count * ROW + FOOT
    made = figure(height)
    axes = made.add_axes(place(height, top, FOOT))
    axes.set_ylim(count - 0.5, -0.5)
    axes.set_yticks([])
    return made, axes


def words(axes: Axes, row: int, left: str, right: str, muted: bool = False) -> None:
    """The text of a row: what it is, cut where it would run into what came out."""
    where = axes.get_yaxis_transform()
    role = colour("soft" if muted else "ink")
    room = int((WIDTH - 20) / _LETTER - len(right) * 1.25)
    left = printable(left)
    left = left if len(left) <= room else f"{left[:room - 1]}…"
    axes.text(0, row - UP, left, transform=where, color=role, va="center")
    axes.text(1, row - UP, printable(right), transform=where, color=role, va="center", ha="right",
              weight="normal" if muted else "bold")


def bar(axes: Axes, row: int, start: float, end: float, role: str, hatch: str = "") -> None:
    from matplotlib.patches import Rectangle

    # As an artist and not by Axes.barh, which takes five times as long: the limits are set anyway.
    axes.add_artist(Rectangle(
        (min(start, end), row + DOWN - BAR / 2), abs(end - start), BAR, facecolor=colour(role),
        edgecolor=colour("back"), hatch=hatch, linewidth=0.0))


def intervals(axes: Axes, spans: Mapping[int, tuple[float, float]]) -> None:
    """A line with an end at both, for each row that has one."""
    middle = [row + DOWN for row in spans]
    lows, highs = ([span[end] for span in spans.values()] for end in (0, 1))
    axes.hlines(middle, lows, highs, colors=colour("ink"), linewidths=1.3, zorder=3)
    dots(axes, [*lows, *highs], [*spans, *spans], "ink", "|")


def dots(axes: Axes, values: Sequence[float], at: Iterable[int], role: str, marker: str) -> None:
    """Marks of one kind, each in its row."""
    axes.plot(values, [row + DOWN for row in at], linestyle="none", marker=marker,
              color=colour(role), zorder=3, markersize=10 if marker == "|" else 7,
              markeredgewidth=1.3 if marker == "|" else 0.7,
              markeredgecolor=colour("ink" if marker == "|" else "back"))


def legend(axes: Axes, names: Iterable[str]) -> None:
    """Above the axes, for bars in the order of the series."""
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Patch(facecolor=colour(role), edgecolor=colour("back"), hatch=hatch, label=name, lw=0)
        for name, role, hatch in zip(names, SERIES, HATCHES, strict=False)]
    over(axes, handles)


def over(axes: Axes, handles: Sequence[Any], columns: int = 4) -> None:
    axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns,
                borderaxespad=0.2, handlelength=1.6, handletextpad=0.5, columnspacing=1.2,
                borderpad=0.1)


def ratio_ticks(low: float, high: float) -> list[float]:
    """Round ratios between two limits of a logarithmic axis, the roundest first, none so near
    another that their texts would touch."""
    found: list[float] = []
    for tick in _RATIOS:
        near = (abs(math.log(tick / other)) / math.log(high / low) for other in found)
        if low <= tick <= high and all(gap * WIDTH > _APART for gap in near):
            found.append(tick)
    return sorted(found)
