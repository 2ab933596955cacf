"""The single operators on the page."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree as ET

from apexlab.bench.report import words
from apexlab.bench.report.page.figure import add_chart
from apexlab.bench.report.page.op_charts import OPS, case, op_charts
from apexlab.bench.report.terminal_ops import notes
from apexlab.verify.html.elements import add, details, items, section, table

_COLUMNS = ("case", "provider", "kernel, cold", "kernel, hot", "host", "whole call", "GB/s",
            "of the copy rate", "proof")
_CLOCKS = ("cold_us", "hot_us", "host_us", "call_us")


def add_ops(main: ET.Element, result: dict[str, Any], stand_in: bool) -> None:
    """The warnings, the noise, and a section for each operator."""
    place = section(main, "noise", "Warnings and noise")
    if result["warnings"]:
        items(place, result["warnings"])
    else:
        add(place, "p", "None.")
    for note in notes(result):
        add(place, "p", note)
    drawn = op_charts(result)
    for op, title in OPS.items():
        points = [point for point in result["points"] if point["op"] == op]
        if not points:
            continue
        place = section(main, op, title)
        charts = add(place, "div", style="charts")
        for chart in drawn.get(op, ()):
            add_chart(charts, chart, stand_in)
        shown = [point for point in points if point["state"] != "not-available"]
        if shown:
            table(place, f"{title}, case by case", _COLUMNS, map(_row, shown), range(2, 8))
        _left_out(place, points)


def _row(point: dict[str, Any]) -> tuple[str, ...]:
    if point["state"] != "measured":
        return (case(point), point["title"], *("",) * 6, f"{point['state']}: {point['why']}")
    times = (words.microseconds((point[clock] or {}).get("median")) for clock in _CLOCKS)
    return (case(point), point["title"], *times, words.number(point["gbps"]),
            words.percent(point["share_of_copy"], 0), (point["proof"] or {}).get("verdict", ""))


def _left_out(place: ET.Element, points: list[dict[str, Any]]) -> None:
    """What was not measured, by its reason."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for point in points:
        if point["state"] == "not-available":
            reasons.setdefault((point["title"], point["why"]), []).append(case(point))
    if reasons:
        count = sum(map(len, reasons.values()))
        items(details(place, f"Not measured: {words.plural(count, 'case')}"), (
            f"{title}: {why.rstrip('.')}. {'; '.join(cases)}"
            for (title, why), cases in reasons.items()))
