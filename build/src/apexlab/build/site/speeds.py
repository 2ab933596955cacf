"""How fast each scenario of a benchmark was, as a chart: a table with a bar in each row. Pure.

The numbers are those of a document from elsewhere: what is none is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree as ET

from apexlab.verify.html.elements import Cell, add, element, table

_WIDTH = 100
_COLOURS = {"FAST": "fast", "SLOW": "slow"}


@dataclass(frozen=True)
class Speed:
    """A scenario against the baseline: 1 is as fast. `low` and `high` are the 95 % interval."""

    title: str
    ratio: float
    low: float | None
    high: float | None
    verdict: str


def speeds(result: Mapping[str, Any]) -> tuple[Speed, ...]:
    """The scenarios that were compared, the fastest first."""
    return tuple(sorted(_found(result), key=lambda one: -one.ratio))


def _found(result: Mapping[str, Any]) -> Iterator[Speed]:
    scenarios = result.get("scenarios")
    for one in scenarios if isinstance(scenarios, list) else ():
        speed = one.get("speedup") if isinstance(one, dict) else None
        ratio = _number(speed.get("ratio")) if isinstance(speed, dict) else None
        if isinstance(speed, dict) and ratio is not None:
            yield Speed(str(one.get("title")), ratio, _number(speed.get("low")),
                        _number(speed.get("high")), str(speed.get("verdict")))


def _number(value: Any) -> float | None:
    """A ratio that a measurement can have."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e6
    return float(value) if good else None


def add_speeds(parent: ET.Element, label: str, result: Mapping[str, Any]) -> None:
    """The chart; nothing where nothing was compared."""
    if not (found := speeds(result)):
        return
    plan = result.get("plan")
    baseline = plan.get("baseline") if isinstance(plan, dict) else None
    most = max(1.0, *(one.ratio for one in found))
    add(parent, "p", f"How many times as fast as {baseline or 'the baseline'}, which is the line "
                     "in each bar:")
    table(parent, label, ("scenario", "speed", "drawn", "95 % interval", "verdict"),
          (_row(one, most) for one in found), (1,))


def _row(one: Speed, most: float) -> Iterator[Cell]:
    yield one.title
    yield f"{one.ratio:.3g}×"
    yield _bar(one, most)
    yield f"{one.low:.3g} to {one.high:.3g}" if one.low and one.high else ""
    yield one.verdict


def _bar(one: Speed, most: float) -> ET.Element:
    """For the eye alone: the figure is in the cell before it."""
    drawing = element("svg", style=f"bar {_COLOURS.get(one.verdict, 'same')}", aria_hidden="true",
                      viewBox=f"0 0 {_WIDTH} 10", preserveAspectRatio="none")
    length = _WIDTH * one.ratio / most
    add(drawing, "rect", width=f"{length if math.isfinite(length) else 0:.1f}", height="10")
    line = f"{_WIDTH / most:.1f}"
    add(drawing, "line", x1=line, x2=line, y1="0", y2="10")
    return drawing
