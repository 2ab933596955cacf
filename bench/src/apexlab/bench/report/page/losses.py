"""The loss curves: do all scenarios train alike?"""

from __future__ import annotations

import math
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.page import rows
from apexlab.bench.report.page.draw import SERIES, Chart, colour, drawing, figure, place
from apexlab.verify.render import printable

_TALL, _TOP, _GAP, _FOOT = 340.0, 28.0, 50.0, 36.0
_DASHES = ("-", "--", "-.", ":")
_SMOOTH = 10  # steps of the running mean: a single batch's loss jumps


def losses(name: str, result: dict[str, Any]) -> Chart | None:
    """Above, the losses; below, how far each is from the baseline's. The baseline and what failed
    have lines of their own; the rest shares one look, since it should lie on the baseline."""
    from matplotlib.lines import Line2D

    shown = [{**each, "losses": [math.nan if loss is None else loss for loss in each["losses"]]}
             for each in result["scenarios"] if each["losses"]]
    baseline = next((each for each in shown if each["name"] == result["plan"]["baseline"]), None)
    if baseline is None or len(shown) < 2:
        return None
    made = figure(_TALL)
    half = (_TALL - _TOP - _GAP - _FOOT) / 2
    above = made.add_axes(place(_TALL, _TOP, _FOOT + half + _GAP, left=44))
    below = made.add_axes(place(_TALL, _TOP + half + _GAP, _FOOT, left=44))
    handles: list[Any] = []
    bad = [each for each in shown if _verdict(each) == "fail"]
    for each in sorted(shown, key=lambda one: (one is baseline, one in bad)):
        look = _look(each, baseline, bad)
        above.plot(_steps(each), _smooth(each["losses"]), **look)
        if each is not baseline:
            gap = [100 * (one / base - 1) for one, base in zip(
                _smooth(each["losses"]), _smooth(baseline["losses"]), strict=False)]
            below.plot(_steps(each)[:len(gap)], gap, **look)
        if each is baseline or each in bad:
            handles.append(Line2D([], [], label=_label(each, baseline), **look))
    rest = [each for each in shown if each is not baseline and each not in bad]
    if rest:
        handles.insert(0, Line2D([], [], label=words.plural(len(rest), "other"),
                                 **_look(rest[0], baseline, bad)))
    below.set_title(f"gap to {printable(baseline['title'])} in %", loc="left", fontsize=11,
                    color=colour("soft"))
    below.set_xlabel("step")
    for axes in (above, below):
        axes.grid(visible=True, axis="both")
        axes.margins(x=0)
    rows.over(above, handles[::-1], columns=2)
    svg = drawing(name, made)
    return Chart(name, _title(shown, baseline, bad), "Above, the loss of each scenario on the same "
                 f"data, as a mean over {_SMOOTH} steps; below, its gap to {baseline['title']} in "
                 "percent.", svg, ("scenario", "first loss", "last loss", "parity", "why"), [
                     (each["title"], f"{each['losses'][0]:.4f}", f"{each['losses'][-1]:.4f}",
                      _verdict(each), (each["parity"] or {}).get("why", "")) for each in shown])


def _look(each: dict[str, Any], baseline: dict[str, Any], bad: list[dict[str, Any]],
          ) -> dict[str, Any]:
    if each is baseline:
        return {"color": colour("ink"), "linewidth": 2.0, "linestyle": "-"}
    if each in bad:
        number = bad.index(each)
        return {"color": colour(SERIES[1 + number % (len(SERIES) - 1)]), "linewidth": 1.8,
                "linestyle": _DASHES[1 + number % 3]}
    return {"color": colour("c0"), "linewidth": 0.9, "linestyle": "-", "alpha": 0.7}


def _title(shown: list[dict[str, Any]], baseline: dict[str, Any], bad: list[dict[str, Any]]) -> str:
    others = len(shown) - 1
    if bad:
        return f"{len(bad)} of {words.plural(others, 'scenario')} trained differently from " \
               f"{baseline['title']}"
    passed = sum(_verdict(each) == "pass" for each in shown)
    return f"{passed} of {words.plural(others, 'scenario')} trained like {baseline['title']}" + (
        "" if passed == others else "; the rest is untested")


def _label(each: dict[str, Any], baseline: dict[str, Any]) -> str:
    return f"{printable(each['title'])} ({'baseline' if each is baseline else 'failed'})"


def _verdict(each: dict[str, Any]) -> str:
    return str((each["parity"] or {}).get("verdict", "untested"))


def _steps(each: dict[str, Any]) -> list[int]:
    return list(range(1, len(each["losses"]) + 1))


def _smooth(values: list[float]) -> list[float]:
    """The mean of the last steps, of fewer at the start."""
    return [sum(values[max(0, end - _SMOOTH):end]) / min(end, _SMOOTH)
            for end in range(1, len(values) + 1)]
