"""Two results of `bench ops` against each other, point by point. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apexlab.bench.result.comparison import Finding, Verdict
from apexlab.bench.result.labels import point_name, provider_name

KEY = ("op", "case", "dtype", "autocast", "direction", "provider")
CLOCKS = ("cold_us", "call_us")  # kernel time and what a caller waits
Point = Mapping[str, Any]


def points(base: Point, new: Point, margin: float) -> list[Finding]:
    """A finding for each point and clock that BASE has."""
    others = {tuple(each[key] for key in KEY): each for each in new["points"]}
    found: list[Finding] = []
    for point in base["points"]:
        found += _point(point, others.get(tuple(point[key] for key in KEY)), margin)
    return found


def _point(base: Point, new: Point | None, margin: float) -> list[Finding]:
    name = f"{point_name(base)}: {provider_name(base)}"
    found: list[Finding] = []
    for clock in CLOCKS:
        if not base[clock]:
            continue
        if new is None or not new[clock]:
            why = f"{new['state']}: {new['why']}" if new else "it is not in NEW"
            return [*found, Finding(name, "state", "LOST", why=why)]
        found.append(_clock(name, clock, base[clock], new[clock], margin))
    if new is not None and base["label"] and not new["label"]:
        found.append(Finding(name, "proof", "LOST", why=(new.get("proof") or {}).get("why")
                             or "Its kernels were proven in BASE, and are not in NEW."))
    return found


def _clock(name: str, clock: str, base: Point, new: Point, margin: float) -> Finding:
    """Only medians and quartiles are kept of an operation, so a difference counts when it is
    beyond the margin and beyond both spreads."""
    one, other = base["median"], new["median"]
    ratio = one / other
    apart = abs(one - other) > (base.get("iqr") or 0) + (new.get("iqr") or 0)
    verdict: Verdict = "SAME"
    if not 1 / (1 + margin) <= ratio <= 1 + margin:
        verdict = "UNDECIDED" if not apart else "FAST" if ratio > 1 else "SLOW"
    return Finding(name, clock.removesuffix("_us"), verdict, one, other, "us", ratio)
