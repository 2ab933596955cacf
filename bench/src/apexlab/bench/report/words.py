"""How figures are written in the report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apexlab.bench.result import ratios
from apexlab.bench.result.labels import STAND_IN

NONE = "n/a"
_TIMES = ((1.0, "s", 1.0), (1e-3, "ms", 1e3), (0.0, "µs", 1e6))


def number(value: float | None, unit: str = "", digits: int = 3) -> str:
    """`digits` significant ones, with the thousands apart: 347,100 or 0.0123."""
    if value is None:
        return NONE
    whole = isinstance(value, int) or abs(value) >= 10 ** (digits - 1)
    text = f"{value:,.0f}" if whole else f"{value:#.{digits}g}"
    return f"{text} {unit}".strip()


def seconds(value: float | None, digits: int = 4) -> str:
    if value is None:
        return NONE
    _, unit, factor = next(each for each in _TIMES if abs(value) >= each[0])
    return number(value * factor, unit, digits)


def microseconds(value: float | None) -> str:
    return NONE if value is None else seconds(value / 1e6)


def gib(value: float | None) -> str:
    return NONE if value is None else f"{value / 2**30:.2f} GiB"


def ratio(value: float | None) -> str:
    return NONE if value is None else ratios.ratio(value)


def span(found: dict[str, Any] | None) -> str:
    """The 95 % interval of something with `low` and `high`."""
    if not found or found.get("low") is None or found.get("high") is None:
        return NONE
    return f"{ratio(found['low'])} to {ratio(found['high'])}"


def percent(value: float | None, digits: int = 1) -> str:
    """Of a share: 0.054 is 5.4 %."""
    return NONE if value is None else f"{100 * value:.{digits}f} %"


def change(value: float | None) -> str:
    """Of a ratio of speeds: 1.026 is +2.6 %, from 2 on a factor."""
    return NONE if value is None else ratios.change(value)


def plural(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def apex(apex: Mapping[str, Any]) -> str:
    """`Apex 6424da3b`, or what is here in its place."""
    if not apex.get("present"):
        return "no Apex"
    if apex.get("label") == STAND_IN:
        return "stand-in (this is not Apex)"
    if apex.get("label") is None:
        return "a package apex without a build record"
    return f"Apex {str(apex.get('commit') or '')[:8] or 'of unknown commit'}"


def peak(entry: Mapping[str, Any]) -> float | None:
    """Bytes that torch had allocated on the GPU; of a CPU, those of the process."""
    memory = entry["memory"] or {}
    found = memory.get("allocated")
    return memory.get("process") if found is None else found
