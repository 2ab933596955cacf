"""The charts of a training comparison. What there is nothing to draw of gives no chart."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.page import rows
from apexlab.bench.report.page.draw import HATCHES, SERIES, Chart, colour, drawing, style
from apexlab.bench.report.page.losses import losses

_LOOK = {"FAST": ("fast", ""), "SLOW": ("slow", "////"), "SAME": ("same", "...."),
         "UNDECIDED": ("same", "xxxx")}  # fmt: skip
_STATES = {"failed": "failed", "not-available": "not available", "partial": "partial"}
PHASES = ("forward", "backward", "optimizer", "scaler")

Scenario = dict[str, Any]
Result = dict[str, Any]


def charts(result: Result) -> dict[str, Chart]:
    """All charts that this result has figures for, by name."""
    found = {}
    for name, make in _CHARTS.items():
        with style(name):
            if (made := make(name, result)) is not None:
                found[name] = made
    return found


def _ladder(name: str, result: Result) -> Chart | None:
    baseline = result["plan"]["baseline"]
    shown = [each for each in result["scenarios"] if each["name"] != baseline]
    speeds = [(each["speedup"]["ratio"], each) for each in shown if each["speedup"]]
    if not speeds:
        return None
    sure = [pair for pair in speeds if pair[1]["speedup"]["verdict"] == "FAST"]
    if sure:
        ratio, best = max(sure, key=lambda pair: pair[0])
        title = f"Fastest is {best['title']}: {words.ratio(ratio)} of {baseline}"
    else:
        likely = "sure to be " if any(ratio > 1 for ratio, _ in speeds) else ""
        title = f"Nothing is {likely}faster than {baseline}"
    axis = (f"Speed as a multiple of {baseline}'s, logarithmic. Lines are 95 % intervals, the band "
            f"is the margin of {words.percent(result['plan']['margin'], 0)} around equal.")
    return _ratios(name, title, axis, result, [(each, each["speedup"]) for each in shown], baseline)


def _parts(name: str, result: Result) -> Chart | None:
    """Each change beside the same scenario without it. A change of precision is left to the
    ladder: it is several times as large and would flatten the rest."""
    shown = [each for each in result["scenarios"] if each["step"] and each["against"]
             and "precision" not in each["changes"]]
    if not shown:
        return None
    faster = sum(each["step"]["verdict"] == "FAST" for each in shown)
    slower = sum(each["step"]["verdict"] == "SLOW" for each in shown)
    found = f"{faster} made training faster and {slower} slower" if faster or slower else \
        "none surely made training faster or slower"
    title = f"Of {words.plural(len(shown), 'change')} at equal precision, {found}"
    axis = ("Speed as a multiple of the same scenario without the change, logarithmic. Lines are "
            "95 % intervals, the band is the margin around equal.")
    return _ratios(name, title, axis, result, [(each, each["step"]) for each in shown], None)


def _ratios(name: str, title: str, axis: str, result: Result,
            shown: list[tuple[Scenario, dict[str, Any] | None]], against: str | None) -> Chart:
    """Bars from 1, to the right for faster. `against`: what all are compared with."""
    ends = [value for _, found in shown if found
            for value in (found["ratio"], found["low"], found["high"]) if value]
    margin = result["plan"]["margin"]
    low, high = min(0.97, *ends) / 1.02, max(1.03, *ends) * 1.02
    made, axes = rows.frame(len(shown))
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = rows.ratio_ticks(low, high)
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.axvspan(1 / (1 + margin), 1 + margin, color=colour("band"), linewidth=0)
    axes.axvline(1, color=colour("soft"), linewidth=1)
    titles = {each["name"]: each["title"] for each in result["scenarios"]}
    table, spans = [], {}
    for row, (each, found) in enumerate(shown):
        left = each["title"] if against else f"{each['title']}: {_change(each)}"
        if found is None:
            rows.words(axes, row, left, _absent(each), muted=True)
        else:
            rows.words(axes, row, left, f"{_figure(found, against)} {found['verdict']}")
            rows.bar(axes, row, 1, found["ratio"], *_LOOK[found["verdict"]])
            if found["low"] is not None:
                spans[row] = (found["low"], found["high"])
        table.append((each["title"], titles[against or each["against"]],
                      words.ratio(found["ratio"] if found else None), words.span(found),
                      found["verdict"] if found else _absent(each)))
    rows.intervals(axes, spans)
    return Chart(name, title, axis, drawing(name, made),
                 ("scenario", "against", "speed", "95 % interval", "verdict"), table)


def _figure(found: dict[str, Any], against: str | None) -> str:
    return words.ratio(found["ratio"]) if against else words.change(found["ratio"])


def _change(each: Scenario) -> str:
    return " and ".join(each["changes"]) or each["role"]


def _absent(each: Scenario) -> str:
    """Why a scenario has no bar, in a word or two."""
    if each["state"] in _STATES and each["time"] is None:
        return _STATES[each["state"]]
    return "parity failed" if each["parity"] and each["parity"]["verdict"] == "fail" \
        else "not compared"


def _memory(name: str, result: Result) -> Chart | None:
    """Of the GPU; without one, of the process."""
    shown = [each for each in result["scenarios"] if each["memory"]]
    kind = next((key for key in ("allocated", "process")
                 if any(each["memory"].get(key) for each in shown)), None)
    if kind is None:
        return None
    shown = [each for each in shown if each["memory"].get(kind)]
    least = min(shown, key=lambda each: float(each["memory"][kind]))
    most = max(shown, key=lambda each: float(each["memory"][kind]))
    made, axes = rows.frame(len(shown))
    table, reserved = [], {}
    for row, each in enumerate(shown):
        used, held = each["memory"][kind], each["memory"].get("reserved")
        rows.words(axes, row, each["title"], words.gib(used))
        rows.bar(axes, row, 0, used / 2**30, "c0")
        if held:
            reserved[row] = held / 2**30
        table.append((each["title"], words.gib(used), words.gib(held)))
    rows.dots(axes, list(reserved.values()), reserved, "ink", "|")
    axes.set_xlim(0, 1.02 * max(most["memory"][kind] / 2**30, *reserved.values(), 0))
    title = f"Peak memory: {words.gib(most['memory'][kind])} at most ({most['title']})"
    if least is not most:
        title += f", {words.gib(least['memory'][kind])} at least ({least['title']})"
    axis = "GiB allocated at the peak, after warm-up; the mark is what the allocator reserved." \
        if kind == "allocated" else "GiB of the whole process at its peak."
    return Chart(name, title, axis, drawing(name, made), ("scenario", kind, "reserved"), table)


def _phases(name: str, result: Result) -> Chart | None:
    shown = [each for each in result["scenarios"] if each["phases"]]
    if not shown:
        return None
    made, axes = rows.frame(len(shown), top=rows.TOP + 18)
    table = []
    for row, each in enumerate(shown):
        spent = [each["phases"].get(phase) or 0.0 for phase in PHASES]
        rows.words(axes, row, each["title"], words.seconds(math.fsum(spent)))
        for number, seconds in enumerate(spent):
            start = 1e3 * math.fsum(spent[:number])
            if seconds:
                rows.bar(axes, row, start, start + 1e3 * seconds, SERIES[number], HATCHES[number])
        table.append((each["title"], *(words.seconds(each["phases"].get(phase))
                                       for phase in PHASES)))
    axes.set_xlim(0, 1.02e3 * max(_whole(each) for each in shown))
    rows.legend(axes, PHASES)
    share = [(each["phases"].get("optimizer") or 0.0)
             / _whole(each) for each in shown]
    ends = dict.fromkeys(words.percent(end(share), 0) for end in (min, max))
    title = f"The optimizer takes {' to '.join(ends)} of a step"
    return Chart(name, title, "Milliseconds a step, from a pass of its own.",
                 drawing(name, made), ("scenario", *PHASES), table)


def _whole(each: Scenario) -> float:
    return math.fsum(each["phases"].get(phase) or 0.0 for phase in PHASES)


def _rounds(name: str, result: Result) -> Chart | None:
    """How far each round is from the mean of all, so that a ratio of 9 and one of 1.02 show their
    spread on one axis."""
    shown = [each for each in result["scenarios"]
             if each["speedup"] and len(each["speedup"]["rounds"]) > 1]
    shown = [each for each in shown if each["name"] != result["plan"]["baseline"]]
    if not shown:
        return None
    off = [[100 * (one / each["speedup"]["ratio"] - 1) for one in each["speedup"]["rounds"]]
           for each in shown]
    furthest = [max(map(abs, of)) for of in off]
    most = max(map(len, off))
    made, axes = rows.frame(len(shown))
    for row, each in enumerate(shown):
        rows.words(axes, row, each["title"], f"±{furthest[row]:.2f} %")
    rows.dots(axes, [one for of in off for one in of],
              [row for row, of in enumerate(off) for _ in of], "c0", "o")
    widest = max(1.15 * max(furthest), 0.2)
    axes.set_xlim(-widest, widest)
    axes.axvline(0, color=colour("soft"), linewidth=1)
    axes.locator_params(axis="x", nbins=5)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g} %" if value else "0")
    return Chart(
        name, f"Rounds agree with their mean within {max(furthest):.2f} %",
        "Each dot is a round: how far its ratio is from the scenario's mean ratio, in percent.",
        drawing(name, made), ("scenario", *(f"round {number + 1}" for number in range(most))),
        [(each["title"], *map(words.ratio, each["speedup"]["rounds"]),
          *("",) * (most - len(each["speedup"]["rounds"]))) for each in shown])


_CHARTS: dict[str, Callable[[str, Result], Chart | None]] = {
    "ladder": _ladder, "parts": _parts, "memory": _memory, "phases": _phases, "losses": losses,
    "rounds": _rounds,
}
