"""The charts of single operators: against the copy bandwidth, and where their time goes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from apexlab.bench.report import words
from apexlab.bench.report.page import rows
from apexlab.bench.report.page.draw import MARKERS, SERIES, Chart, colour, drawing, style
from apexlab.verify.render import printable

OPS = {"adam": "Adam", "layernorm": "LayerNorm", "rmsnorm": "RMSNorm",
       "clip": "Unscaling and clipping"}

_DTYPES = {"float32": "FP32", "bfloat16": "BF16", "float16": "FP16"}

Point = dict[str, Any]


def op_charts(result: dict[str, Any]) -> dict[str, list[Chart]]:
    """The charts of each operator that was measured."""
    found: dict[str, list[Chart]] = {}
    for op in OPS:
        points = [point for point in result["points"]
                  if point["op"] == op and point["state"] == "measured"]
        for name, make in ((f"{op}-rate", _rate), (f"{op}-time", _time)):
            with style(name):
                if (made := make(name, points, result["copy_gbps"])) is not None:
                    found.setdefault(op, []).append(made)
    return found


def case(point: Point, direction: bool = True) -> str:
    """`gpt-small, FP32, autocast, forward`"""
    parts = (point["case"], _DTYPES.get(point["dtype"], point["dtype"]),
             "autocast" if point["autocast"] else "", point["direction"] if direction else "")
    return ", ".join(filter(None, parts))


def _rate(name: str, points: list[Point], copy: float | None) -> Chart | None:
    """GB/s of each provider, case by case, with the copy rate beside them."""
    points = [point for point in points if point["gbps"]]
    if not points:
        return None
    made, axes = _by_case(points, "gbps", lambda value: words.number(value), most=True)
    if copy:
        rows_ = range(len(_cases(points)))
        axes.vlines([copy] * len(rows_), [row + 0.04 for row in rows_],
                    [row + 0.5 for row in rows_], colors=colour("ink"), linewidths=1.6)
    axes.set_xlim(0, 1.04 * max(copy or 0, *(point["gbps"] for point in points)))
    top = max(points, key=lambda point: float(point["gbps"]))
    share = f", {words.percent(top['gbps'] / copy, 0)} of the copy rate" if copy else ""
    line = f" The line is what a copy reached in the same run, {words.number(copy, 'GB/s', 4)}." \
        if copy else ""
    return Chart(name, f"At most {words.number(top['gbps'], 'GB/s')}{share}: {top['title']}",
                 "GB/s of the fewest bytes that the operator could move, by its kernels with cold "
                 f"caches; the fastest is named at the right.{line}", drawing(name, made),
                 ("case", "provider", "GB/s", "of the copy rate"),
                 [(case(point), point["title"], words.number(point["gbps"]),
                   words.percent(point["share_of_copy"], 0)) for point in points])


def _time(name: str, points: list[Point], _copy: float | None) -> Chart | None:
    """Kernel and host time apart. Of norms, the longest direction alone: the table has the rest.
    Without kernel times (a CPU), the time of the whole call."""
    both = [point for point in points if point["host_us"] and point["cold_us"]]
    if not both:
        return _calls(name, [point for point in points if point["call_us"]])
    longest = max((point["direction"] for point in both), key=len)
    shown = [point for point in both if point["direction"] == longest]
    made, axes = rows.frame(len(shown), top=rows.TOP + 18)
    axes.set_xscale("log")
    kernels, hosts = ([point[key]["median"] for point in shown] for key in ("cold_us", "host_us"))
    for row, (point, kernel, host) in enumerate(zip(shown, kernels, hosts, strict=True)):
        rows.words(axes, row, f"{point['title']}: {case(point, direction=False)}",
                   f"{words.microseconds(max(kernel, host))} "
                   f"{'host' if host > kernel else 'kernel'}")
    at = range(len(shown))
    axes.hlines([row + rows.DOWN for row in at], kernels, hosts, colors=colour("line"),
                linewidths=2)
    for number, values in enumerate((kernels, hosts)):
        rows.dots(axes, values, at, SERIES[number], MARKERS[number])
    _legend(axes, ["kernel", "host"])
    _logarithmic(axes)
    slow = sum(host > kernel for kernel, host in zip(kernels, hosts, strict=True))
    return Chart(name, f"In {slow} of {words.plural(len(shown), 'case')} the host takes longer "
                 "than the GPU", f"Time of a call ({longest}), logarithmic: of its kernels on the "
                 "GPU, cold, and of Python on the host. The longer one is written at the right.",
                 drawing(name, made), ("case", "provider", "kernel", "host"),
                 [(case(point), point["title"], words.microseconds(kernel),
                   words.microseconds(host))
                  for point, kernel, host in zip(shown, kernels, hosts, strict=True)])


def _calls(name: str, points: list[Point]) -> Chart | None:
    if not points:
        return None
    points = [{**point, "us": point["call_us"]["median"]} for point in points]
    made, axes = _by_case(points, "us", words.microseconds, most=False)
    axes.set_xscale("log")
    _logarithmic(axes)
    last = min(points, key=lambda point: float(point["us"]))
    return Chart(name, f"The shortest call takes {words.microseconds(last['us'])}: "
                 f"{last['title']}", "Time of a whole call, logarithmic; the fastest is named at "
                 "the right.", drawing(name, made), ("case", "provider", "time"),
                 [(case(point), point["title"], words.microseconds(point["us"]))
                  for point in points])


def _by_case(points: list[Point], key: str, write: Callable[[float], str], most: bool) -> Any:
    """A row for each case, a mark for each provider; the best one is named."""
    cases = _cases(points)
    titles = list(dict.fromkeys(str(point["title"]) for point in points))
    made, axes = rows.frame(
        len(cases), top=rows.TOP + 16 * math.ceil(len(titles) / _abreast(titles)))
    at = [row + rows.DOWN for row in range(len(cases))]
    axes.hlines(at, 0, 1, colors=colour("line"), linewidths=1,
                transform=axes.get_yaxis_transform())
    for row, each in enumerate(cases):
        here = [point for point in points if case(point) == each]
        best = (max if most else min)(here, key=lambda point: float(point[key]))
        rows.words(axes, row, each, f"{best['title']} {write(best[key])}")
    for number, title in enumerate(titles):
        mine = [point for point in points if point["title"] == title]
        rows.dots(axes, [point[key] for point in mine], [cases.index(case(one)) for one in mine],
                  SERIES[number % len(SERIES)], MARKERS[number % len(MARKERS)])
    _legend(axes, titles)
    return made, axes


def _abreast(titles: list[str]) -> int:
    """How many entries of a legend fit in one line."""
    return 3 if max(map(len, titles)) <= 16 else 2


def _cases(points: list[Point]) -> list[str]:
    return list(dict.fromkeys(map(case, points)))


def _logarithmic(axes: Any) -> None:
    """Microseconds on a logarithmic axis, with ticks as close as they fit."""
    from matplotlib.ticker import LogLocator

    axes.margins(x=0.04)
    low, high = axes.get_xlim()
    decades = math.log10(high / low)
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if decades < 1.5 else
                                            (1.0, 3.0) if decades < 2.5 else (1.0,)))
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _: words.seconds(value / 1e6, 1))


def _legend(axes: Any, titles: list[str]) -> None:
    from matplotlib.lines import Line2D

    rows.over(axes, [
        Line2D([], [], linestyle="none", label=printable(title), markersize=7,
               color=colour(SERIES[number % len(SERIES)]),
               marker=MARKERS[number % len(MARKERS)], markeredgecolor=colour("back"))
        for number, title in enumerate(titles)], columns=_abreast(titles))
