"""How a ratio of speeds is written, in every sentence and table. Pure."""

from __future__ import annotations

FACTOR = 2.0  # from here on a change is told as a factor: +491 % says less than 5.91×


def ratio(value: float) -> str:
    """`0.984×`, `5.91×`."""
    return f"{value:.{3 if value < FACTOR else 2}f}×"


def change(value: float) -> str:
    """`5.91×`, `+2.6 %`, `-5.4 %`: a speed, with the sign that its difference has."""
    return ratio(value) if value >= FACTOR else f"{100 * (value - 1):+.1f} %"


def reach(low: float, high: float, of: float) -> str:
    """The interval of `of`, written as `change` writes that: `2.87× to 3.06×`, `-5.9 % to -4.9 %`.
    """
    shown = ratio if of >= FACTOR else _percent
    return f"{shown(low)} to {shown(high)}"


def _percent(value: float) -> str:
    return f"{100 * (value - 1):+.1f} %"
